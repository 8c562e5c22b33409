//! A stream of bytes inside the binary messages of a WebSocket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::pipe::CHUNK_BYTES_MAX;

pub struct MessageIo<S> {
    socket: WebSocketStream<S>,
    current: Bytes,
}

impl<S> MessageIo<S> {
    pub fn new(socket: WebSocketStream<S>) -> Self {
        Self { socket, current: Bytes::new() }
    }
}

fn io_error(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for MessageIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                None | Some(Ok(Message::Close(_))) => return Poll::Ready(Ok(())),
                Some(Ok(Message::Binary(bytes))) => self.current = bytes,
                Some(Ok(_)) => {}
                Some(Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed)) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
            }
        }
        let taken = buf.remaining().min(self.current.len());
        buf.put_slice(&self.current.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MessageIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io_error)?;
        let piece = &data[..data.len().min(CHUNK_BYTES_MAX)];
        let message = Message::Binary(Bytes::copy_from_slice(piece));
        Pin::new(&mut self.socket).start_send(message).map_err(io_error)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(io_error)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            Ok(()) | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(io_error(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[tokio::test]
    async fn bytes_pass_in_order_and_the_end_is_seen() {
        let (here, there) = tokio::io::duplex(4096);
        let mut here = MessageIo::new(super::super::over(here, Role::Client).await);
        let mut there = MessageIo::new(super::super::over(there, Role::Server).await);
        let sent: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let copy = sent.clone();
        let writing = tokio::spawn(async move {
            here.write_all(&copy).await.expect("sent");
            here.flush().await.expect("sent");
            here.shutdown().await.expect("closed");
        });
        let mut received = Vec::new();
        there.read_to_end(&mut received).await.expect("received");
        assert!(received == sent);
        drop(there);
        writing.await.expect("ended");
    }
}
