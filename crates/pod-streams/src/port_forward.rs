//! Port-forward: connections to ports of a pod, many over one SPDY connection or one per pair of WebSocket channels.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use object::query::Query;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::backend::{PodBackend, PodRef, Refusal};
use crate::pipe::{ChannelReader, ChannelWriter, Outgoing};
use crate::query::{ports, query_of};
use crate::remote_command::V4;
use crate::spdy;
use crate::upgrade::{Io, Offers, StreamRequest, Transport, negotiate, switch, switched};
use crate::websocket::{self, Channels, Encoding, EndSignals, Message, MessageIo};

const SPDY: &str = "portforward.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";
const V4_BASE64: &str = "v4.base64.channel.k8s.io";
const OFFERS: Offers<'static> = Offers { web_socket: &[TUNNELLED, V4, V4_BASE64], spdy: &[SPDY] };

/// Ports of one request over one WebSocket: two channels each, and channels are numbered by a byte.
const PORTS_MAX: usize = 100;
/// Connections that wait for their second stream.
const HALF_OPEN_MAX: usize = 256;

/// Connects the client with ports of the pod.
pub fn serve_port_forward(
    request: StreamRequest,
    backend: Arc<dyn PodBackend>,
    pod: PodRef,
) -> Result<Response<()>, Refusal> {
    let StreamRequest { headers, upgrade, stop, uri } = request;
    let transport = negotiate(&headers, &OFFERS)?;
    let ports = match transport {
        Transport::WebSocket(TUNNELLED) | Transport::Spdy(_) => Vec::new(),
        Transport::WebSocket(_) => asked_ports(&query_of(&uri))?,
    };
    let (response, upgrade) = switch(&headers, upgrade, transport)?;
    tokio::spawn(async move {
        let Some(io) = switched(upgrade).await else { return };
        let target = ForwardTarget { backend, pod };
        let session = async {
            match transport {
                Transport::Spdy(_) => forward_streams(io, target).await,
                Transport::WebSocket(TUNNELLED) => {
                    let socket = websocket::over(io, Role::Server).await;
                    forward_streams(MessageIo::new(socket), target).await;
                }
                Transport::WebSocket(V4_BASE64) => forward_channels(io, Encoding::Base64, ports, target).await,
                Transport::WebSocket(_) => {
                    forward_channels(io, Encoding::Binary(EndSignals::Unsupported), ports, target).await;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = session => {}
        }
    });
    Ok(response)
}

fn asked_ports(query: &Query) -> Result<Vec<u16>, Refusal> {
    let ports = ports(query)?;
    match ports.len() {
        0 => Err(Refusal::new(400, "query parameter \"port\" is required")),
        1..=PORTS_MAX => Ok(ports),
        _ => Err(Refusal::new(400, format!("more than {PORTS_MAX} ports at once"))),
    }
}

#[derive(Clone)]
struct ForwardTarget {
    backend: Arc<dyn PodBackend>,
    pod: PodRef,
}

impl ForwardTarget {
    /// Copies bytes both ways until both sides are done; the error is sent to the client.
    async fn join<R, W>(&self, port: u16, from: R, to: W) -> Result<(), String>
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin,
    {
        let refused = |error: &dyn std::fmt::Display| {
            let PodRef { name, uid, .. } = &self.pod;
            format!("error forwarding port {port} to pod {name}, uid {uid}: {error}")
        };
        let tunnel = self.backend.port_forward(&self.pod, port).await.map_err(|refusal| refused(&refusal))?;
        let (tunnel_read, tunnel_write) = tokio::io::split(tunnel);
        let up = copy(from, tunnel_write);
        let down = copy(tunnel_read, to);
        tokio::pin!(up, down);
        tokio::select! {
            // Waits for the pod's remaining data; a client that only reads is legitimate.
            sent = &mut up => {
                sent.map_err(|error| refused(&error))?;
                down.await.map_err(|error| refused(&error))
            }
            // The pod has closed: further data cannot be delivered.
            received = &mut down => received.map_err(|error| refused(&error)),
        }
    }
}

async fn copy<R, W>(mut from: R, mut to: W) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}

/// Each connection is a pair of streams with the same request id: one for data, one for errors.
async fn forward_streams<S>(io: S, target: ForwardTarget)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut connection = spdy::start(io);
    let mut half_open: HashMap<String, spdy::Opened> = HashMap::new();
    let mut joined = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = connection.gone.cancelled() => break,
            Some(_) = joined.join_next() => continue,
            stream = connection.opened.recv() => stream,
        };
        let Some(stream) = stream else { break };
        let key = stream.header("requestID").or_else(|| stream.header("port")).unwrap_or_default().to_owned();
        let Some(first) = half_open.remove(&key) else {
            if half_open.len() < HALF_OPEN_MAX {
                half_open.insert(key, stream);
            }
            continue;
        };
        let is_error = |stream: &spdy::Opened| stream.header("streamType") == Some("error");
        let (error, data) = if is_error(&first) { (first, stream) } else { (stream, first) };
        let port = data.header("port").and_then(|port| port.parse::<u16>().ok());
        let (target, out) = (target.clone(), connection.out.clone());
        joined.spawn(async move {
            let to = ChannelWriter::new(data.id, &out);
            let outcome = match port {
                Some(port) => target.join(port, data.reader, to).await,
                None => Err("unable to parse the port of a stream".to_owned()),
            };
            if let Err(message) = outcome {
                let _ = out.send(Outgoing::Data { channel: error.id, bytes: message.into() }).await;
            }
            for channel in [data.id, error.id] {
                let _ = out.send(Outgoing::End { channel }).await;
            }
        });
    }
    joined.shutdown().await;
    drop(connection.out);
    let _ = connection.driver.await;
}

/// Two channels per port: 2n for data, 2n+1 for errors. Each begins with its port number.
async fn forward_channels(io: Io, encoding: Encoding, ports: Vec<u16>, target: ForwardTarget) {
    let socket = websocket::over(io, Role::Server).await;
    let Channels { mut arriving, out, gone, driver } = websocket::start(socket, encoding);
    let mut senders: Vec<mpsc::Sender<Bytes>> = Vec::new();
    let mut joined = JoinSet::new();
    for (index, port) in ports.into_iter().enumerate() {
        let (sender, reader) = ChannelReader::new();
        senders.push(sender);
        let (data, error) = (index as u32 * 2, index as u32 * 2 + 1);
        for channel in [data, error] {
            let bytes = Bytes::copy_from_slice(&port.to_le_bytes());
            let _ = out.send(Outgoing::Data { channel, bytes }).await;
        }
        let (target, out) = (target.clone(), out.clone());
        joined.spawn(async move {
            if let Err(message) = target.join(port, reader, ChannelWriter::new(data, &out)).await {
                let _ = out.send(Outgoing::Data { channel: error, bytes: message.into() }).await;
            }
        });
    }
    drop(out);
    loop {
        tokio::select! {
            () = gone.cancelled() => break,
            ended = joined.join_next() => if ended.is_none() { break },
            message = arriving.recv() => {
                if let Some(Message::Data { channel, bytes }) = message
                    && channel % 2 == 0
                    && let Some(sender) = senders.get(usize::from(channel / 2))
                {
                    // The pod no longer reads; its response may still be on the way.
                    let _ = sender.send(bytes).await;
                }
            }
        }
    }
    joined.shutdown().await;
    let _ = driver.await;
}
