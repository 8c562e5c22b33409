//! Answers those who ask whether the agent lives, such as the kubelet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Questions answered at once; more wait.
const QUESTIONS_MAX: usize = 16;
const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);
/// The first line of a question is all that is read.
const QUESTION_BYTES_MAX: usize = 1024;

/// Listens until cancelled.
pub async fn serve(address: SocketAddr, cancel: CancellationToken) -> std::io::Result<()> {
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
            tokio::spawn(async move {
                // Whoever does not listen to the answer has gone.
                let _ = tokio::time::timeout(QUESTION_TIME_MAX, answer(stream)).await;
                drop(permit);
            });
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut question = [0; QUESTION_BYTES_MAX];
    let length = stream.read(&mut question).await?;
    let question = String::from_utf8_lossy(&question[..length]);
    let path = question.split_whitespace().nth(1).unwrap_or_default();
    let reply = match path.split('?').next() {
        Some("/healthz" | "/livez" | "/readyz") => {
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nok"
        }
        _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    };
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}
