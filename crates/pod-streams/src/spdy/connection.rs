//! The server side of a connection: streams opened by the client, bytes both ways.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::codec::{FramedRead, FramedWrite};
use tokio_util::sync::CancellationToken;

use super::frame::{Codec, Frame, FrameError};
use super::headers::Headers;
use crate::pipe::{ChannelReader, FRAMES_WAITING_MAX, Outgoing};

/// Maximum open streams of a client.
const STREAMS_MAX: usize = 512;
/// Time for a client to read the rest and disconnect after all was sent.
const LINGER_MAX: Duration = Duration::from_secs(10);
const REFUSED_STREAM: u32 = 3;

/// A stream the client has opened.
pub struct Opened {
    pub id: u32,
    headers: Headers,
    pub reader: ChannelReader,
}

impl Opened {
    /// The value of a header, case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

pub struct Connection {
    pub opened: mpsc::Receiver<Opened>,
    /// The connection is closed once the last sender is dropped.
    pub out: mpsc::Sender<Outgoing>,
    /// The client disconnected or violated the protocol.
    pub gone: CancellationToken,
    pub driver: JoinHandle<()>,
}

/// Runs the protocol over `io` until both sides are done.
pub fn start<S>(io: S) -> Connection
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, write) = tokio::io::split(io);
    let (out, outgoing) = mpsc::channel(FRAMES_WAITING_MAX);
    let (opening, opened) = mpsc::channel(FRAMES_WAITING_MAX);
    let gone = CancellationToken::new();
    let replies = out.downgrade();
    let at_end = gone.clone().drop_guard();
    let driver = tokio::spawn(async move {
        let mut reading = tokio::spawn(async move {
            let _at_end = at_end;
            if let Err(error) = receive(FramedRead::new(read, Codec::default()), replies, opening).await {
                tracing::debug!(%error, "client violated the streaming protocol");
            }
        });
        if let Err(error) = send(FramedWrite::new(write, Codec::default()), outgoing).await {
            tracing::debug!(%error, "streaming client disconnected");
        }
        if tokio::time::timeout(LINGER_MAX, &mut reading).await.is_err() {
            reading.abort();
        }
    });
    Connection { opened, out, gone, driver }
}

async fn receive<R: AsyncRead + Unpin>(
    mut frames: FramedRead<R, Codec>,
    replies: mpsc::WeakSender<Outgoing>,
    opening: mpsc::Sender<Opened>,
) -> Result<(), FrameError> {
    let mut streams: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    let mut last_id = 0;
    while let Some(frame) = frames.next().await {
        match frame? {
            Frame::SynStream { id, headers, fin } => {
                streams.retain(|_, sender| !sender.is_closed());
                let is_next = id % 2 == 1 && id > last_id;
                if !is_next || streams.len() >= STREAMS_MAX {
                    tracing::debug!(id, status = REFUSED_STREAM, "a stream that cannot be opened");
                    return Ok(());
                }
                last_id = id;
                let (sender, reader) = ChannelReader::new();
                if !fin {
                    streams.insert(id, sender);
                }
                reply(&replies, Outgoing::Accepted { channel: id }).await;
                // No receiver for further streams: this one is dropped.
                let _ = opening.send(Opened { id, headers, reader }).await;
            }
            Frame::Data { id, bytes, fin } => {
                if let Some(sender) = streams.get(&id)
                    && !bytes.is_empty()
                {
                    // The reader is gone, which is not the client's fault.
                    let _ = sender.send(bytes).await;
                }
                if fin {
                    streams.remove(&id);
                }
            }
            Frame::Reset { id, .. } => drop(streams.remove(&id)),
            // Pings of the client are odd; even ones would be replies to ours.
            Frame::Ping(id) if id % 2 == 1 => reply(&replies, Outgoing::Pong(id)).await,
            Frame::SynReply { .. } | Frame::Ping(_) | Frame::GoAway { .. } | Frame::Other(_) => {}
        }
    }
    Ok(())
}

async fn reply(replies: &mpsc::WeakSender<Outgoing>, frame: Outgoing) {
    if let Some(sender) = replies.upgrade() {
        let _ = sender.send(frame).await;
    }
}

async fn send<W: AsyncWrite + Unpin>(
    mut frames: FramedWrite<W, Codec>,
    mut outgoing: mpsc::Receiver<Outgoing>,
) -> Result<(), FrameError> {
    while let Some(next) = outgoing.recv().await {
        frames.feed(frame_of(next)).await?;
        // Batches what is queued and flushes once the queue is empty.
        while let Ok(next) = outgoing.try_recv() {
            frames.feed(frame_of(next)).await?;
        }
        frames.flush().await?;
    }
    frames.close().await
}

fn frame_of(outgoing: Outgoing) -> Frame {
    match outgoing {
        Outgoing::Data { channel, bytes } => Frame::Data { id: channel, bytes, fin: false },
        Outgoing::End { channel } => Frame::Data { id: channel, bytes: Bytes::new(), fin: true },
        Outgoing::Accepted { channel } => Frame::SynReply { id: channel, headers: Vec::new(), fin: false },
        Outgoing::Pong(id) => Frame::Ping(id),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio_util::codec::Framed;

    use super::*;
    use crate::pipe::ChannelWriter;

    fn open(client: DuplexStream) -> Framed<DuplexStream, Codec> {
        Framed::new(client, Codec::default())
    }

    #[tokio::test]
    async fn streams_are_answered_and_carry_bytes_both_ways() {
        let (client, server) = tokio::io::duplex(1024);
        let mut connection = start(server);
        let mut client = open(client);
        let headers = vec![("streamtype".to_owned(), "data".to_owned())];
        client.send(Frame::SynStream { id: 1, headers, fin: false }).await.expect("sent");
        client.send(Frame::Data { id: 1, bytes: "hello".into(), fin: true }).await.expect("sent");
        client.send(Frame::Ping(5)).await.expect("sent");
        let mut stream = connection.opened.recv().await.expect("a stream");
        assert_eq!(stream.header("streamType"), Some("data"));
        let mut text = String::new();
        stream.reader.read_to_string(&mut text).await.expect("text");
        assert_eq!(text, "hello");
        let mut writer = ChannelWriter::new(stream.id, &connection.out);
        writer.write_all(b"back").await.expect("open");
        writer.shutdown().await.expect("open");
        drop((writer, connection.out));
        let mut seen = Vec::new();
        while let Some(Ok(frame)) = client.next().await {
            seen.push(frame);
        }
        assert!(seen.contains(&Frame::SynReply { id: 1, headers: Vec::new(), fin: false }), "{seen:?}");
        assert!(seen.contains(&Frame::Ping(5)), "{seen:?}");
        assert!(seen.contains(&Frame::Data { id: 1, bytes: "back".into(), fin: false }), "{seen:?}");
        drop(client);
        connection.driver.await.expect("ended");
    }

    #[tokio::test]
    async fn a_client_that_breaks_the_protocol_is_disconnected() {
        let (mut client, server) = tokio::io::duplex(1024);
        let connection = start(server);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff").await.expect("sent");
        drop(client);
        connection.gone.cancelled().await;
    }
}
