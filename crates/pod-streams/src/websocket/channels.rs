//! Numbered channels over one WebSocket: the first byte of a message is the channel number.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message as Wire};
use tokio_util::sync::CancellationToken;

use crate::pipe::{FRAMES_WAITING_MAX, Outgoing};

/// Version 5: the channel named in the message has ended.
const CLOSE: u8 = 255;
/// Time for the peer to disconnect after all was sent.
const LINGER_MAX: Duration = Duration::from_secs(10);

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A byte, then the data.
    Binary(EndSignals),
    /// A digit, then the data in base64, as text.
    Base64,
}

/// The side that can end a single channel: in newer versions clients can; servers end all of them with the
/// connection, and clients treat anything else as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignals {
    Sent,
    Received,
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Data { channel: u8, bytes: Bytes },
    End { channel: u8 },
}

pub struct Channels {
    pub arriving: mpsc::Receiver<Message>,
    /// The socket is closed once the last sender is dropped.
    pub out: mpsc::Sender<Outgoing>,
    /// The peer disconnected.
    pub gone: CancellationToken,
    pub driver: JoinHandle<()>,
}

/// Runs the protocol over `socket` until both sides are done.
pub fn start<S>(socket: WebSocketStream<S>, encoding: Encoding) -> Channels
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sink, mut stream) = socket.split();
    let (out, mut outgoing) = mpsc::channel::<Outgoing>(FRAMES_WAITING_MAX);
    let (taking, arriving) = mpsc::channel(FRAMES_WAITING_MAX);
    let gone = CancellationToken::new();
    let at_end = gone.clone().drop_guard();
    let driver = tokio::spawn(async move {
        let mut reading = tokio::spawn(async move {
            let _at_end = at_end;
            while let Some(Ok(wire)) = stream.next().await {
                if let Some(message) = encoding.read(wire) {
                    // No receiver: further messages are read so that the peer can finish.
                    let _ = taking.send(message).await;
                }
            }
        });
        let sent: Result<(), tungstenite::Error> = async {
            while let Some(next) = outgoing.recv().await {
                if let Some(wire) = encoding.write(next) {
                    sink.send(wire).await?;
                }
            }
            let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            sink.send(Wire::Close(Some(close))).await
        }
        .await;
        if let Err(error) = sent {
            tracing::debug!(%error, "stream peer disconnected");
        }
        if tokio::time::timeout(LINGER_MAX, &mut reading).await.is_err() {
            reading.abort();
        }
    });
    Channels { arriving, out, gone, driver }
}

impl Encoding {
    /// Returns `None` for messages without data: pings, and messages in another encoding.
    fn read(self, wire: Wire) -> Option<Message> {
        match (self, wire) {
            (Self::Binary(ends), Wire::Binary(mut bytes)) => {
                if bytes.is_empty() {
                    return None;
                }
                let channel = bytes.split_to(1)[0];
                match bytes.first() {
                    Some(ended) if ends == EndSignals::Received && channel == CLOSE => {
                        Some(Message::End { channel: *ended })
                    }
                    _ => Some(Message::Data { channel, bytes }),
                }
            }
            (Self::Base64, Wire::Text(text)) => {
                let (digit, data) = text.split_at_checked(1)?;
                let channel = digit.parse().ok()?;
                let bytes = STANDARD.decode(data).ok()?.into();
                Some(Message::Data { channel, bytes })
            }
            _ => None,
        }
    }

    fn write(self, outgoing: Outgoing) -> Option<Wire> {
        match (self, outgoing) {
            (Self::Binary(_), Outgoing::Data { channel, bytes }) => {
                let mut message = BytesMut::with_capacity(1 + bytes.len());
                message.put_u8(channel as u8);
                message.extend_from_slice(&bytes);
                Some(Wire::Binary(message.freeze()))
            }
            (Self::Base64, Outgoing::Data { channel, bytes }) => {
                Some(Wire::text(format!("{channel}{}", STANDARD.encode(bytes))))
            }
            (Self::Binary(EndSignals::Sent), Outgoing::End { channel }) => {
                Some(Wire::Binary(Bytes::copy_from_slice(&[CLOSE, channel as u8])))
            }
            (_, Outgoing::End { .. } | Outgoing::Accepted { .. } | Outgoing::Pong(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[test]
    fn messages_round_trip_in_each_encoding() {
        let sent = Outgoing::Data { channel: 4, bytes: Bytes::from_static(b"\x00\xffhello") };
        let expected = Some(Message::Data { channel: 4, bytes: Bytes::from_static(b"\x00\xffhello") });
        let binary = [EndSignals::Sent, EndSignals::Received, EndSignals::Unsupported].map(Encoding::Binary);
        for encoding in binary.into_iter().chain([Encoding::Base64]) {
            assert_eq!(encoding.write(sent.clone()).and_then(|wire| encoding.read(wire)), expected);
        }
        let (client, server) = (Encoding::Binary(EndSignals::Sent), Encoding::Binary(EndSignals::Received));
        let end = client.write(Outgoing::End { channel: 0 });
        assert_eq!(end.and_then(|wire| server.read(wire)), Some(Message::End { channel: 0 }));
        assert_eq!(server.write(Outgoing::End { channel: 3 }), None);
        assert_eq!(Encoding::Base64.read(Wire::text("éx")), None);
        assert_eq!(server.read(Wire::Binary(Bytes::new())), None);
    }

    #[tokio::test]
    async fn an_oversized_message_ends_the_session_unbuffered() {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let channels = start(super::super::over(server, Role::Server).await, Encoding::Binary(EndSignals::Received));
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let sent = client.send(Wire::Binary(vec![0; super::super::MESSAGE_BYTES_MAX + 1].into()));
        tokio::select! {
            _ = sent => channels.gone.cancelled().await,
            () = channels.gone.cancelled() => {}
        }
    }
}
