//! The two ends of a channel inside a shared connection, as plain readers and writers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

/// Maximum bytes of one channel per frame.
pub const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// Frames waiting for a slow reader of one channel; beyond that the connection waits.
pub const FRAMES_WAITING_MAX: usize = 16;

/// A message to send over a connection shared by many channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Data {
        channel: u32,
        bytes: Bytes,
    },
    /// The channel has ended.
    End {
        channel: u32,
    },
    /// The channel opened by the peer is accepted.
    Accepted {
        channel: u32,
    },
    Pong(u32),
}

/// The data received on one channel.
pub struct ChannelReader {
    arriving: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl ChannelReader {
    pub fn new() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, arriving) = mpsc::channel(FRAMES_WAITING_MAX);
        (sender, Self { arriving, current: Bytes::new() })
    }
}

impl AsyncRead for ChannelReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.arriving.poll_recv(cx)) {
                Some(bytes) => self.current = bytes,
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = buf.remaining().min(self.current.len());
        buf.put_slice(&self.current.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

/// Sends on one channel. Shutting down ends the channel, not the connection.
pub struct ChannelWriter {
    channel: u32,
    sender: PollSender<Outgoing>,
    is_ended: bool,
}

impl ChannelWriter {
    pub fn new(channel: u32, sender: &mpsc::Sender<Outgoing>) -> Self {
        Self { channel, sender: PollSender::new(sender.clone()), is_ended: false }
    }
}

fn gone<T>(_: T) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection is closed")
}

impl AsyncWrite for ChannelWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_ended {
            return Poll::Ready(Err(gone(())));
        }
        ready!(self.sender.poll_reserve(cx)).map_err(gone)?;
        let piece = &data[..data.len().min(CHUNK_BYTES_MAX)];
        let channel = self.channel;
        let frame = Outgoing::Data { channel, bytes: Bytes::copy_from_slice(piece) };
        self.sender.send_item(frame).map_err(gone)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_ended {
            ready!(self.sender.poll_reserve(cx)).map_err(gone)?;
            let channel = self.channel;
            self.sender.send_item(Outgoing::End { channel }).map_err(gone)?;
            self.is_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn writes_are_sent_in_chunks_and_ended_once() {
        let (sender, mut frames) = mpsc::channel(8);
        let mut writer = ChannelWriter::new(7, &sender);
        writer.write_all(&vec![1; CHUNK_BYTES_MAX + 1]).await.expect("open");
        writer.shutdown().await.expect("open");
        writer.shutdown().await.expect("ended already");
        assert!(writer.write_all(b"late").await.is_err());
        drop((writer, sender));
        let mut seen = Vec::new();
        while let Some(frame) = frames.recv().await {
            seen.push(match frame {
                Outgoing::Data { channel, bytes } => (channel, bytes.len()),
                _ => (0, 0),
            });
        }
        assert_eq!(seen, [(7, CHUNK_BYTES_MAX), (7, 1), (0, 0)]);
    }

    #[tokio::test]
    async fn a_channel_reads_to_its_end() {
        let (sender, mut reader) = ChannelReader::new();
        for piece in ["one ", "", "two"] {
            sender.send(Bytes::from(piece)).await.expect("open");
        }
        drop(sender);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.expect("text");
        assert_eq!(text, "one two");
    }
}
