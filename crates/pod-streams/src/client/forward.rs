//! Port-forward: one connection to one port of a pod.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use super::{ClientError, StreamTarget, handshake};
use crate::pipe::{ChannelWriter, FRAMES_WAITING_MAX};
use crate::remote_command::V4;
use crate::websocket::{self, Channels, Encoding, EndSignals, Message};

const DATA: u8 = 0;
/// Each channel begins with its port number.
const PORT_BYTES: usize = 2;

/// Opens the port in the target's query (`ports=80` for an API server, `port=80` for a kubelet). Later errors are
/// read errors.
pub async fn port_forward<S>(io: S, target: &StreamTarget) -> Result<PortTunnel, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (socket, _) = handshake(io, target, V4).await?;
    let Channels { mut arriving, out, .. } = websocket::start(socket, Encoding::Binary(EndSignals::Unsupported));
    let writer = ChannelWriter::new(DATA.into(), &out);
    let (sender, received) = mpsc::channel(FRAMES_WAITING_MAX);
    tokio::spawn(async move {
        let mut skip = [PORT_BYTES; 2];
        while let Some(message) = arriving.recv().await {
            let Message::Data { channel, mut bytes } = message else { continue };
            let Some(skip) = skip.get_mut(usize::from(channel)) else { continue };
            let skipped = bytes.split_to((*skip).min(bytes.len())).len();
            *skip -= skipped;
            let piece = match channel {
                _ if bytes.is_empty() => continue,
                DATA => Ok(bytes),
                _ => Err(io::Error::other(String::from_utf8_lossy(&bytes).into_owned())),
            };
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    });
    Ok(PortTunnel { received, current: Bytes::new(), writer: Some(writer) })
}

/// Both directions of a forwarded connection.
pub struct PortTunnel {
    received: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
    writer: Option<ChannelWriter>,
}

impl AsyncRead for PortTunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.received.poll_recv(cx)) {
                Some(Ok(bytes)) => self.current = bytes,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = buf.remaining().min(self.current.len());
        buf.put_slice(&self.current.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PortTunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.writer {
            Some(writer) => Pin::new(writer).poll_write(cx, data),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The protocol cannot close one direction: the connection stays until the peer ends it or this is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
