//! The accept loop and the life of one connection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::{Activity, ActivityVerdict, OpenBody};
use crate::admission::{Admission, Exceeded, Permit};
use crate::executor::StreamExecutor;
use crate::stream::WatchedStream;
use crate::{ConnectionLimits, ConnectionPeer};

/// Repeated problems of accepting are logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(10);
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A client that does not answer an HTTP/2 ping in this time is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP parameters of a listener.
#[derive(Clone, Copy, Debug)]
pub struct HttpSettings {
    /// Time to send the header of an HTTP/1 request, and time an HTTP/1 connection may wait between requests.
    pub header_max: Duration,
    /// Streams one HTTP/2 connection may have open.
    pub streams_max: u32,
    /// Request bytes a client may send ahead, per stream and per connection.
    pub stream_window: u32,
    pub connection_window: u32,
    /// Response bytes buffered per HTTP/2 stream.
    pub stream_send_buffer: usize,
    /// Time requests may take to finish after the listener was stopped.
    pub drain_max: Duration,
}

/// A bound socket with everything needed to serve it.
pub struct HttpListener {
    pub tcp: TcpListener,
    /// Plain HTTP without.
    pub tls: Option<TlsAcceptor>,
    pub limits: ConnectionLimits,
    pub http: HttpSettings,
}

impl HttpListener {
    /// Serves connections until `stop` is cancelled, then lets requests finish. `service` makes the handler of a
    /// connection.
    pub async fn run<M, H, F, B>(self, stop: CancellationToken, service: M)
    where
        M: Fn(ConnectionPeer) -> H + Clone + Send + 'static,
        H: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { tcp, tls, limits, http } = self;
        let admission = Admission::new(&limits);
        let connections = TaskTracker::new();
        let mut problems = ProblemLog::default();
        let mut backoff = BACKOFF_MIN;
        while let Some(accepted) = stop.run_until_cancelled(tcp.accept()).await {
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: open connections must get a chance to end.
                    problems.report(&format!("cannot accept a connection: {error}"));
                    if stop.run_until_cancelled(tokio::time::sleep(backoff)).await.is_none() {
                        break;
                    }
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    continue;
                }
            };
            backoff = BACKOFF_MIN;
            let permit = match admission.admit(address.ip()) {
                Ok(permit) => permit,
                Err(Exceeded::Total(max)) => {
                    problems.report(&format!("refused a connection: {max} are open, the maximum"));
                    continue;
                }
                Err(Exceeded::PerAddress(max)) => {
                    problems.report(&format!("refused a connection from {}: it has {max}, the maximum", address.ip()));
                    continue;
                }
            };
            let connection = Connection { limits, http, stop: stop.clone() };
            connections.spawn(connection.serve(socket, address, tls.clone(), permit, service.clone()));
        }
        drop(tcp);
        connections.close();
        if tokio::time::timeout(http.drain_max, connections.wait()).await.is_err() {
            tracing::warn!("requests were still running {:?} after the stop and were cut off", http.drain_max);
        }
    }
}

fn http_builder(http: &HttpSettings, executor: StreamExecutor) -> auto::Builder<StreamExecutor> {
    let mut builder = auto::Builder::new(executor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(http.header_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(http.streams_max)
        .keep_alive_interval(Some(PING_EVERY))
        .keep_alive_timeout(PING_TIMEOUT)
        .max_send_buf_size(http.stream_send_buffer)
        .initial_stream_window_size(http.stream_window)
        .initial_connection_window_size(http.connection_window);
    builder
}

struct Connection {
    limits: ConnectionLimits,
    http: HttpSettings,
    stop: CancellationToken,
}

impl Connection {
    async fn serve<M, H, F, B>(
        self,
        socket: TcpStream,
        address: std::net::SocketAddr,
        tls: Option<TlsAcceptor>,
        permit: Permit,
        service: M,
    ) where
        M: Fn(ConnectionPeer) -> H,
        H: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Fails only on a socket that is closed already, which the next read reports.
        let _ = socket.set_nodelay(true);
        let Some(tls) = tls else {
            let handler = service(ConnectionPeer { address, certificates: Vec::new(), server_name: None });
            return self.serve_http(socket, permit, handler).await;
        };
        let accepted = self.stop.run_until_cancelled(tls.accept(socket));
        let stream = match tokio::time::timeout(self.limits.handshake_max, accepted).await {
            Ok(Some(Ok(stream))) => stream,
            Ok(Some(Err(error))) => return tracing::debug!(%address, %error, "TLS handshake failed"),
            Ok(None) => return,
            Err(_) => return tracing::debug!(%address, "TLS handshake timed out"),
        };
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificates = certificates.iter().map(|c| c.clone().into_owned()).collect();
        let server_name = stream.get_ref().1.server_name().map(str::to_ascii_lowercase);
        let handler = service(ConnectionPeer { address, certificates, server_name });
        self.serve_http(stream, permit, handler).await;
    }

    async fn serve_http<S, H, F, B>(self, stream: S, permit: Permit, handler: H)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let activity = Activity::new(Instant::now());
        let of_requests = activity.clone();
        let executor = StreamExecutor::default();
        let builder = http_builder(&self.http, executor.clone());
        let service = service_fn(move |request| {
            let request_open = of_requests.begin_request();
            executor.expect(&request, request_open.is_alone);
            // On the heap, so that a response that lasts, such as a watch, does not keep the memory of its handler.
            let response = Box::pin(handler(request));
            async move {
                let response = response.await;
                Ok::<_, Infallible>(response.map(|body| OpenBody { body, _request: request_open }))
            }
        });
        let stream = TokioIo::new(WatchedStream::new(stream, activity.clone(), permit));
        let mut connection = pin!(builder.serve_connection_with_upgrades(stream, service));
        let mut is_closing = false;
        let mut check_after = self.limits.first_request_max;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !is_closing => {
                    is_closing = true;
                    activity.begin_closing(Instant::now());
                    connection.as_mut().graceful_shutdown();
                }
                () = tokio::time::sleep(check_after) => {}
            }
            let now = Instant::now();
            let verdict =
                if is_closing { activity.judge_closing(&self.limits, now) } else { activity.judge(&self.limits, now) };
            match verdict {
                ActivityVerdict::Keep(left) => check_after = left,
                ActivityVerdict::Idle if !is_closing => {
                    is_closing = true;
                    activity.begin_closing(now);
                    connection.as_mut().graceful_shutdown();
                    check_after = Duration::ZERO;
                }
                ActivityVerdict::Idle => return tracing::debug!("closed an idle connection"),
                ActivityVerdict::Stalled => return tracing::debug!("closed a connection whose client does not read"),
            }
        }
    }
}

/// Logs problems that can repeat many times a second, at most once per period.
#[derive(Default)]
struct ProblemLog {
    logged_at: Option<Instant>,
    suppressed: u64,
}

impl ProblemLog {
    fn report(&mut self, problem: &str) {
        let now = Instant::now();
        if self.logged_at.is_some_and(|at| now.duration_since(at) < LOG_EVERY) {
            self.suppressed += 1;
            return;
        }
        tracing::warn!(suppressed = self.suppressed, "{problem}");
        self.logged_at = Some(now);
        self.suppressed = 0;
    }
}
