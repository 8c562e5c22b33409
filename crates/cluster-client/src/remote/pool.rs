//! Separate connections for requests and for watches, since long-lived watches must not block requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

use crate::remote::connect::Connector;

/// A connection that is silent for this long is pinged, and closed without a response. A watch on a dead connection
/// would otherwise wait indefinitely.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// Idle connections are closed after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Unread data of a stream. A connection allows far more, so that a slow watcher stalls only its own stream; both
/// values are those of Go's HTTP/2 client.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// API servers allow as few as a hundred streams per connection, and make more wait for one to end.
const WATCHES_PER_CONNECTION_MAX: usize = 50;

pub type HttpClient = Client<Connector, Full<Bytes>>;

/// The HTTP clients of one API.
pub struct Pool {
    connector: Connector,
    clients: Mutex<Clients>,
}

struct Clients {
    requests: HttpClient,
    watches: Vec<WatchLane>,
}

struct WatchLane {
    http: HttpClient,
    open: Arc<AtomicUsize>,
}

/// A slot for a watch; released when dropped.
pub struct WatchSlot {
    open: Arc<AtomicUsize>,
}

impl Pool {
    pub fn new(connector: Connector) -> Self {
        let clients = Clients { requests: http_client(connector.clone()), watches: Vec::new() };
        Self { connector, clients: Mutex::new(clients) }
    }

    pub fn for_request(&self) -> HttpClient {
        self.clients.lock().requests.clone()
    }

    /// A client whose connection has a free watch slot.
    pub fn for_watch(&self) -> (HttpClient, WatchSlot) {
        let mut clients = self.clients.lock();
        let roomy =
            clients.watches.iter().position(|lane| lane.open.load(Ordering::Relaxed) < WATCHES_PER_CONNECTION_MAX);
        let index = roomy.unwrap_or_else(|| {
            clients.watches.push(WatchLane { http: http_client(self.connector.clone()), open: Arc::default() });
            clients.watches.len() - 1
        });
        let lane = &clients.watches[index];
        lane.open.fetch_add(1, Ordering::Relaxed);
        (lane.http.clone(), WatchSlot { open: Arc::clone(&lane.open) })
    }

    /// Uses only new connections from now on: the open ones belong to an outdated identity.
    pub fn reset(&self) {
        let mut clients = self.clients.lock();
        clients.requests = http_client(self.connector.clone());
        clients.watches.clear();
    }
}

impl Drop for WatchSlot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn http_client(connector: Connector) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build(connector)
}
