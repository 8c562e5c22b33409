//! Answers those who ask whether the agent lives, such as the kubelet, and those who ask what it counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Questions answered at once; more wait.
const QUESTIONS_MAX: usize = 16;
const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);
/// The first line of a question is all that is read.
const QUESTION_BYTES_MAX: usize = 1024;

/// Answers /healthz, /livez and /readyz until cancelled.
pub async fn serve(address: SocketAddr, cancel: CancellationToken) -> std::io::Result<()> {
    listen(address, None, cancel).await
}

/// Answers /metrics until cancelled.
pub async fn serve_metrics(address: SocketAddr, metrics: Metrics, cancel: CancellationToken) -> std::io::Result<()> {
    listen(address, Some(metrics), cancel).await
}

async fn listen(address: SocketAddr, metrics: Option<Metrics>, cancel: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let room = Arc::new(Semaphore::new(QUESTIONS_MAX));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = cancel.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(QUESTION_TIME_MAX).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            let metrics = metrics.clone();
            tokio::spawn(async move {
                // Whoever does not listen to the answer has gone.
                let _ = tokio::time::timeout(QUESTION_TIME_MAX, answer(stream, metrics)).await;
                drop(permit);
            });
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, metrics: Option<Metrics>) -> std::io::Result<()> {
    let mut question = [0; QUESTION_BYTES_MAX];
    let length = stream.read(&mut question).await?;
    let question = String::from_utf8_lossy(&question[..length]);
    let path = question.split_whitespace().nth(1).unwrap_or_default();
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
