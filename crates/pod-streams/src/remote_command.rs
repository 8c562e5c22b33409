//! Exec and attach: the streams of a command over the client's protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use object::query::Query;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

use crate::backend::{Attach, Exec, ExitStatus, PodBackend, PodRef, Refusal, Streams, TerminalSize};
use crate::exit;
use crate::pipe::{ChannelReader, ChannelWriter, Outgoing};
use crate::query::query_of;
use crate::spdy;
use crate::upgrade::{Io, Offers, StreamRequest, Transport, negotiate, switch, switched};
use crate::websocket::{self, Channels, Encoding, EndSignals, Message};

pub const V5: &str = "v5.channel.k8s.io";
pub const V4: &str = "v4.channel.k8s.io";
const V4_BASE64: &str = "v4.base64.channel.k8s.io";
const V3: &str = "v3.channel.k8s.io";
const V2: &str = "v2.channel.k8s.io";
const V1: &str = "channel.k8s.io";
const V1_BASE64: &str = "base64.channel.k8s.io";

const OFFERS: Offers<'static> = Offers { web_socket: &[V5, V4, V4_BASE64, V1, V1_BASE64], spdy: &[V4, V3, V2, V1] };

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
pub const ERROR: u8 = 3;
pub const RESIZE: u8 = 4;

/// Time for a client to open the streams it requested.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// Pending terminal sizes; beyond this the oldest are dropped.
const SIZES_WAITING_MAX: usize = 4;
/// Maximum size of a terminal size message.
const SIZE_BYTES_MAX: u64 = 4096;

/// Runs a command in the container and connects its streams.
pub fn serve_exec(request: StreamRequest, backend: Arc<dyn PodBackend>, pod: PodRef) -> Result<Response<()>, Refusal> {
    let query = query_of(&request.uri);
    let command: Vec<String> = query.all("command").map(str::to_owned).collect();
    if command.is_empty() {
        return Err(Refusal::new(400, "you must specify at least one command for the container"));
    }
    let asked = Asked::read(&query)?;
    let exec = Exec { command, tty: asked.tty };
    serve(request, asked, move |streams| async move { backend.exec(&pod, exec, streams).await })
}

/// Connects the streams of the container's own process.
pub fn serve_attach(
    request: StreamRequest,
    backend: Arc<dyn PodBackend>,
    pod: PodRef,
) -> Result<Response<()>, Refusal> {
    let asked = Asked::read(&query_of(&request.uri))?;
    let attach = Attach { tty: asked.tty };
    serve(request, asked, move |streams| async move { backend.attach(&pod, attach, streams).await })
}

/// The streams the client requests.
#[derive(Clone, Copy)]
struct Asked {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Asked {
    fn read(query: &Query) -> Result<Self, Refusal> {
        let tty = query.flag("tty");
        let (stdin, stdout) = (query.flag("stdin"), query.flag("stdout"));
        // A terminal has one stream for both.
        let stderr = query.flag("stderr") && !tty;
        if !stdin && !stdout && !stderr {
            return Err(Refusal::new(400, "you must specify at least 1 of stdin, stdout, stderr"));
        }
        Ok(Self { stdin, stdout, stderr, tty })
    }
}

/// An established session: everything a command needs, and how to report its exit status.
struct Session {
    streams: Streams,
    out: mpsc::Sender<Outgoing>,
    /// The channel of each output stream.
    writable: Vec<u32>,
    error: u32,
    ends_with_status: bool,
    gone: CancellationToken,
    driver: JoinHandle<()>,
}

fn serve<F, R>(request: StreamRequest, asked: Asked, run: F) -> Result<Response<()>, Refusal>
where
    F: FnOnce(Streams) -> R + Send + 'static,
    R: Future<Output = Result<ExitStatus, Refusal>> + Send,
{
    let StreamRequest { headers, upgrade, stop, .. } = request;
    let transport = negotiate(&headers, &OFFERS)?;
    let (response, upgrade) = switch(&headers, upgrade, transport)?;
    tokio::spawn(async move {
        let Some(io) = switched(upgrade).await else { return };
        let session = async {
            let session = match transport {
                Transport::WebSocket(protocol) => over_web_socket(io, protocol, asked).await,
                Transport::Spdy(protocol) => over_spdy(io, protocol, asked).await?,
            };
            session.run(run).await;
            Some(())
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = session => {}
        }
    });
    Ok(response)
}

impl Session {
    async fn run<F, R>(self, run: F)
    where
        F: FnOnce(Streams) -> R,
        R: Future<Output = Result<ExitStatus, Refusal>>,
    {
        let outcome = tokio::select! {
            // The command ends when its client disconnects.
            () = self.gone.cancelled() => return,
            outcome = run(self.streams) => outcome,
        };
        let said = match self.ends_with_status {
            true => exit::to_status(&outcome).to_string(),
            false => exit::to_text(&outcome),
        };
        // The client may be gone by now, which does not matter.
        if !said.is_empty() {
            let _ = self.out.send(Outgoing::Data { channel: self.error, bytes: Bytes::from(said) }).await;
        }
        for channel in self.writable.into_iter().chain([self.error]) {
            let _ = self.out.send(Outgoing::End { channel }).await;
        }
        drop(self.out);
        let _ = self.driver.await;
    }
}

async fn over_web_socket(io: Io, protocol: &str, asked: Asked) -> Session {
    let encoding = match protocol {
        V4_BASE64 | V1_BASE64 => Encoding::Base64,
        V5 => Encoding::Binary(EndSignals::Received),
        _ => Encoding::Binary(EndSignals::Unsupported),
    };
    let socket = websocket::over(io, Role::Server).await;
    let Channels { mut arriving, out, gone, driver } = websocket::start(socket, encoding);
    let (stdin_sender, stdin) = ChannelReader::new();
    let (resize_sender, resize) = mpsc::channel(SIZES_WAITING_MAX);
    tokio::spawn(async move {
        let mut stdin_sender = Some(stdin_sender);
        while let Some(message) = arriving.recv().await {
            match message {
                Message::Data { channel: STDIN, bytes } => {
                    if let Some(sender) = &stdin_sender {
                        // The command no longer reads its input.
                        let _ = sender.send(bytes).await;
                    }
                }
                Message::End { channel: STDIN } => stdin_sender = None,
                Message::Data { channel: RESIZE, bytes } => {
                    if let Some(size) = terminal_size(&bytes) {
                        let _ = resize_sender.try_send(size);
                    }
                }
                Message::Data { .. } | Message::End { .. } => {}
            }
        }
    });
    let writer = |wanted: bool, channel: u8| wanted.then(|| ChannelWriter::new(channel.into(), &out));
    let streams = Streams {
        stdin: asked.stdin.then(|| Box::new(stdin) as _),
        stdout: writer(asked.stdout, STDOUT).map(|writer| Box::new(writer) as _),
        stderr: writer(asked.stderr, STDERR).map(|writer| Box::new(writer) as _),
        resize,
    };
    // Clients take the first, empty message as the sign that the session is established.
    let lowest = if asked.stdout {
        STDOUT
    } else if asked.stderr {
        STDERR
    } else {
        ERROR
    };
    let _ = out.send(Outgoing::Data { channel: lowest.into(), bytes: Bytes::new() }).await;
    let ends_with_status = !matches!(protocol, "" | V1 | V1_BASE64);
    Session { streams, out, writable: Vec::new(), error: ERROR.into(), ends_with_status, gone, driver }
}

async fn over_spdy(io: Io, protocol: &str, asked: Asked) -> Option<Session> {
    let mut connection = spdy::start(io);
    let has_resize = asked.tty && matches!(protocol, V4 | V3);
    let wanted = [
        ("error", true),
        ("stdin", asked.stdin),
        ("stdout", asked.stdout),
        ("stderr", asked.stderr),
        ("resize", has_resize),
    ];
    let expected = wanted.iter().filter(|(_, wanted)| *wanted).count();
    let mut opened: HashMap<String, spdy::Opened> = HashMap::new();
    let opening = async {
        while opened.len() < expected {
            let stream = connection.opened.recv().await?;
            let kind = stream.header("streamType").unwrap_or_default().to_owned();
            opened.insert(kind, stream);
        }
        Some(())
    };
    if tokio::time::timeout(STREAMS_TIMEOUT, opening).await.ok().flatten().is_none() {
        tracing::debug!("client did not open the requested streams in time");
        return None;
    }
    let error = opened.get("error")?.id;
    let id_of = |kind: &str| opened.get(kind).map(|stream| stream.id);
    let (stdout, stderr) = (id_of("stdout"), id_of("stderr"));
    let (resize_sender, resize) = mpsc::channel(SIZES_WAITING_MAX);
    let stdin = opened.remove("stdin").map(|stream| Box::new(stream.reader) as Box<dyn AsyncRead + Send + Unpin>);
    if let Some(stream) = opened.remove("resize") {
        tokio::spawn(read_sizes(stream.reader, resize_sender));
    }
    let out = connection.out;
    let writer = |id: u32| Box::new(ChannelWriter::new(id, &out)) as _;
    let streams = Streams { stdin, stdout: stdout.map(writer), stderr: stderr.map(writer), resize };
    let writable = [stdout, stderr].into_iter().flatten().collect();
    let ends_with_status = protocol == V4;
    Some(Session { streams, out, writable, error, ends_with_status, gone: connection.gone, driver: connection.driver })
}

/// Sizes arrive as one JSON value after the other.
async fn read_sizes(reader: ChannelReader, sizes: mpsc::Sender<TerminalSize>) {
    let mut reader = reader;
    let mut kept = Vec::new();
    loop {
        let read = (&mut reader).take(SIZE_BYTES_MAX).read_buf(&mut kept).await;
        if !matches!(read, Ok(count) if count > 0) || kept.len() as u64 > SIZE_BYTES_MAX {
            return;
        }
        let mut values = serde_json::Deserializer::from_slice(&kept).into_iter::<Value>();
        let mut used = 0;
        while let Some(Ok(value)) = values.next() {
            used = values.byte_offset();
            if let Some(size) = size_of(&value) {
                let _ = sizes.try_send(size);
            }
        }
        kept.drain(..used);
    }
}

fn terminal_size(bytes: &[u8]) -> Option<TerminalSize> {
    size_of(&serde_json::from_slice(bytes).ok()?)
}

fn size_of(value: &Value) -> Option<TerminalSize> {
    let side = |name: &str| value[name].as_u64().and_then(|side| u16::try_from(side).ok());
    Some(TerminalSize { width: side("Width")?, height: side("Height")? })
}
