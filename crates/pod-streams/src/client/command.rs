//! Exec and attach: connects the caller's streams with those of the command until it ends.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{ClientError, StreamTarget, handshake};
use crate::backend::{ExitStatus, Streams, TerminalSize};
use crate::exit;
use crate::pipe::{CHUNK_BYTES_MAX, Outgoing};
use crate::remote_command::{ERROR, RESIZE, STDERR, STDIN, STDOUT, V4, V5};
use crate::websocket::{self, Channels, Encoding, EndSignals, Message};

/// Maximum size of the exit message.
const END_BYTES_MAX: usize = 64 * 1024;

/// Runs the target's command and transfers its streams until it has ended.
pub async fn exec<S>(io: S, target: &StreamTarget, streams: Streams) -> Result<ExitStatus, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (socket, protocol) = handshake(io, target, &format!("{V5},{V4}")).await?;
    let ends = if protocol == V5 { EndSignals::Sent } else { EndSignals::Unsupported };
    let Channels { mut arriving, out, .. } = websocket::start(socket, Encoding::Binary(ends));
    let Streams { stdin, mut stdout, mut stderr, resize } = streams;
    let sending = tokio::spawn(send(stdin, resize, out));
    let _ends_with_this = AbortOnDrop(sending);
    let mut end = Vec::new();
    while let Some(message) = arriving.recv().await {
        match message {
            Message::Data { channel: STDOUT, bytes } => pass_on(&mut stdout, &bytes).await,
            Message::Data { channel: STDERR, bytes } => pass_on(&mut stderr, &bytes).await,
            Message::Data { channel: ERROR, bytes } if end.len() + bytes.len() <= END_BYTES_MAX => end.extend(bytes),
            Message::Data { .. } | Message::End { .. } => {}
        }
    }
    for mut stream in [stdout, stderr].into_iter().flatten() {
        let _ = stream.shutdown().await;
    }
    if end.is_empty() { Err(ClientError::Cut) } else { Ok(exit::from_bytes(&end)) }
}

/// Attaches to the process of the target's container. The protocol is that of `exec`.
pub async fn attach<S>(io: S, target: &StreamTarget, streams: Streams) -> Result<ExitStatus, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    exec(io, target, streams).await
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pass_on(to: &mut Option<Box<dyn AsyncWrite + Send + Unpin>>, bytes: &[u8]) {
    let Some(stream) = to else { return };
    let written = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    // A caller that no longer reads still wants the exit status.
    if written.await.is_err() {
        *to = None;
    }
}

async fn send(
    mut stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    mut resize: mpsc::Receiver<TerminalSize>,
    out: mpsc::Sender<Outgoing>,
) {
    let mut buffer = BytesMut::with_capacity(CHUNK_BYTES_MAX);
    let mut has_sizes = true;
    loop {
        let frame = tokio::select! {
            read = read_some(&mut stdin, &mut buffer), if stdin.is_some() => match read {
                Some(bytes) => Outgoing::Data { channel: STDIN.into(), bytes },
                None => {
                    stdin = None;
                    Outgoing::End { channel: STDIN.into() }
                }
            },
            size = resize.recv(), if has_sizes => match size {
                Some(TerminalSize { width, height }) => {
                    let text = serde_json::json!({"Width": width, "Height": height}).to_string();
                    Outgoing::Data { channel: RESIZE.into(), bytes: text.into() }
                }
                None => {
                    has_sizes = false;
                    continue;
                }
            },
            // Nothing more to send; the socket stays open for receiving.
            () = out.closed() => return,
        };
        if out.send(frame).await.is_err() {
            return;
        }
    }
}

async fn read_some(stdin: &mut Option<Box<dyn AsyncRead + Send + Unpin>>, buffer: &mut BytesMut) -> Option<Bytes> {
    buffer.reserve(CHUNK_BYTES_MAX);
    match stdin.as_mut()?.read_buf(buffer).await {
        Ok(count) if count > 0 => Some(buffer.split().freeze()),
        _ => None,
    }
}
