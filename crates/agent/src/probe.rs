//! Serves the agent's health checks and metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plane_metrics::PlaneMetrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent requests; more wait.
const REQUESTS_MAX: usize = 16;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Only the first line of a request is read.
const REQUEST_BYTES_MAX: usize = 1024;

/// Serves /healthz, /livez and /readyz until cancelled.
pub async fn serve(address: SocketAddr, cancel: CancellationToken) -> std::io::Result<()> {
    listen(address, None, cancel).await
}

/// Serves /metrics until cancelled.
pub async fn serve_metrics(
    address: SocketAddr,
    metrics: PlaneMetrics,
    cancel: CancellationToken,
) -> std::io::Result<()> {
    listen(address, Some(metrics), cancel).await
}

async fn listen(address: SocketAddr, metrics: Option<PlaneMetrics>, cancel: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let permits = Arc::new(Semaphore::new(REQUESTS_MAX));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = cancel.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(REQUEST_TIMEOUT).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let metrics = metrics.clone();
            tokio::spawn(async move {
                // A client that does not read the response has disconnected.
                let _ = tokio::time::timeout(REQUEST_TIMEOUT, answer(stream, metrics)).await;
                drop(permit);
            });
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, metrics: Option<PlaneMetrics>) -> std::io::Result<()> {
    let mut request = [0; REQUEST_BYTES_MAX];
    let length = stream.read(&mut request).await?;
    let request = String::from_utf8_lossy(&request[..length]);
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let (status, kind, body) = match (path.split('?').next(), metrics) {
        (Some("/healthz" | "/livez" | "/readyz"), None) => ("200 OK", "text/plain", "ok".to_owned()),
        (Some("/metrics"), Some(metrics)) => {
            let mut text = String::new();
            metrics.render(&mut text);
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text)
        }
        _ => ("404 Not Found", "text/plain", String::new()),
    };
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}
