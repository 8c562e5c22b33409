//! Listens with TLS and serves HTTP/1.1 and HTTP/2, until told to stop; then lets requests finish.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{Peer, RequestBody, handle};
use crate::server::Server;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// A client that does not finish sending request headers in this time is dropped.
const HEADERS_MAX: Duration = Duration::from_secs(30);
/// Streams one HTTP/2 connection may have open, as kube-apiserver allows.
const STREAMS_MAX: u32 = 250;
/// How long requests may go on after the server was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// A listening server.
pub struct Listening {
    pub address: SocketAddr,
    pub task: tokio::task::JoinHandle<()>,
}

/// Starts accepting; returns once connections are taken.
pub fn listen(server: Arc<Server>, listener: TcpListener, tls: Arc<ServerConfig>) -> std::io::Result<Listening> {
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(server, listener, TlsAcceptor::from(tls)));
    Ok(Listening { address, task })
}

async fn accept(server: Arc<Server>, listener: TcpListener, tls: TlsAcceptor) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = server.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                tokio::spawn(serve_connection(server.clone(), stream, address, tls.clone(), graceful.watcher()));
            }
            Err(error) => {
                // Out of file descriptors, most likely: the connections we have must get a chance to end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still running after {DRAIN_MAX:?} and were cut off");
    }
}

async fn serve_connection(
    server: Arc<Server>,
    stream: TcpStream,
    address: SocketAddr,
    tls: TlsAcceptor,
    graceful: Watcher,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%address, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%address, "TLS handshake took too long"),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|c| c.clone().into_owned()).collect();
    let peer = Arc::new(Peer { address, certificates });
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (server, peer) = (server.clone(), peer.clone());
        async move { Ok::<_, std::convert::Infallible>(handle(server, peer, request.map(RequestBody::Incoming)).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(256 * 1024 * 16);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = graceful.watch(connection.into_owned()).await {
        tracing::debug!(%address, error = %error, "connection ended");
    }
}
