//! A forwarded port with fault injection: pass, delay, or drop all data.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum number of concurrent connections per port; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// Maximum bytes in flight per direction while delayed.
const LATE_BYTES_MAX: usize = 256 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The network fault of a forwarded port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkFault {
    #[default]
    Pass,
    /// Delays every byte in both directions.
    Delay { millis: u64 },
    /// Accepts connections and drops all data, like a firewall that drops packets.
    Swallow,
}

impl NetworkFault {
    fn delay(self) -> Duration {
        match self {
            Self::Delay { millis } => Duration::from_millis(millis),
            Self::Pass | Self::Swallow => Duration::ZERO,
        }
    }
}

/// Both directions of a connection.
pub trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// Connects to the target. Called for each connection, so that the target may change.
#[async_trait]
pub trait Dial: Send + Sync {
    async fn dial(&self) -> io::Result<Box<dyn Pipe>>;
}

/// Always the same HOST:PORT.
pub struct Address(pub String);

#[async_trait]
impl Dial for Address {
    async fn dial(&self) -> io::Result<Box<dyn Pipe>> {
        let stream = TcpStream::connect(&self.0).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// An open port. Closed, with all its connections, when dropped.
pub struct ForwardedPort {
    address: SocketAddr,
    wire: watch::Sender<NetworkFault>,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl ForwardedPort {
    pub async fn open(listen: SocketAddr, dial: Arc<dyn Dial>) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (wire, seen) = watch::channel(NetworkFault::Pass);
        let (cancel, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(accept(listener, dial, seen, cancel.clone(), tasks.clone()));
        Ok(Self { address, wire, cancel, tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn wire(&self) -> NetworkFault {
        *self.wire.borrow()
    }

    pub fn set_wire(&self, wire: NetworkFault) {
        self.wire.send_replace(wire);
    }

    /// Returns when the port is free again.
    pub async fn close(self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for ForwardedPort {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    dial: Arc<dyn Dial>,
    wire: watch::Receiver<NetworkFault>,
    cancel: CancellationToken,
    tasks: TaskTracker,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = cancel.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((client, _)) => {
                let (dial, wire, cancel) = (Arc::clone(&dial), wire.clone(), cancel.clone());
                tasks.spawn(async move {
                    let _slot = slot;
                    tokio::select! {
                        () = cancel.cancelled() => {}
                        ended = carry(client, dial, wire) => if let Err(error) = ended {
                            tracing::debug!(%error, "a forwarded connection ended");
                        }
                    }
                });
            }
            // Out of file descriptors, or the client disconnected: retry.
            Err(error) => {
                tracing::warn!(%error, "failed to accept connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn carry(client: TcpStream, dial: Arc<dyn Dial>, mut wire: watch::Receiver<NetworkFault>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let gone = || io::Error::other("the port was closed");
    let delay = wire.wait_for(|wire| *wire != NetworkFault::Swallow).await.map_err(|_| gone())?.delay();
    tokio::time::sleep(delay).await;
    let far = tokio::time::timeout(DIAL_TIMEOUT, dial.dial()).await;
    let far = far.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let (near_read, near_write) = tokio::io::split(client);
    let (far_read, far_write) = tokio::io::split(far);
    tokio::try_join!(flow(near_read, far_write, wire.clone()), flow(far_read, near_write, wire))?;
    Ok(())
}

/// Copies one direction until its end has been forwarded.
async fn flow(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    mut wire: watch::Receiver<NetworkFault>,
) -> io::Result<()> {
    let mut late: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut late_bytes = 0;
    let mut is_at_end = false;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let mode = *wire.borrow_and_update();
        if is_at_end && late.is_empty() && mode != NetworkFault::Swallow {
            return writer.shutdown().await;
        }
        let due = late.front().map_or_else(Instant::now, |(due, _)| *due);
        tokio::select! {
            read = reader.read(&mut chunk), if !is_at_end && late_bytes < LATE_BYTES_MAX => match read? {
                0 => is_at_end = true,
                length if mode == NetworkFault::Pass && late.is_empty() => writer.write_all(&chunk[..length]).await?,
                length => {
                    late_bytes += length;
                    late.push_back((Instant::now() + mode.delay(), chunk[..length].to_vec()));
                }
            },
            () = tokio::time::sleep_until(due), if !late.is_empty() && mode != NetworkFault::Swallow => {
                if let Some((_, bytes)) = late.pop_front() {
                    late_bytes -= bytes.len();
                    writer.write_all(&bytes).await?;
                }
            }
            changed = wire.changed() => if changed.is_err() {
                return Err(io::Error::other("the port was closed"));
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server.
    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        address
    }

    async fn port() -> ForwardedPort {
        let dial = Arc::new(Address(echo().await));
        ForwardedPort::open("127.0.0.1:0".parse().unwrap(), dial).await.unwrap()
    }

    async fn say(stream: &mut TcpStream, text: &[u8]) -> Vec<u8> {
        stream.write_all(text).await.unwrap();
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn data_and_eof_pass_both_ways() {
        let port = port().await;
        let mut stream = TcpStream::connect(port.address()).await.unwrap();
        let large = vec![7; 3 * LATE_BYTES_MAX];
        let (mut read, mut write) = stream.split();
        let mut answer = Vec::new();
        let sent = async {
            write.write_all(&large).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let ((), received) = tokio::join!(sent, read.read_to_end(&mut answer));
        received.unwrap();
        assert_eq!(answer.len(), large.len());
        port.close().await;
    }

    #[tokio::test]
    async fn a_delay_applies_in_each_direction() {
        let port = port().await;
        let mut stream = TcpStream::connect(port.address()).await.unwrap();
        assert_eq!(say(&mut stream, b"quick").await, b"quick");
        port.set_wire(NetworkFault::Delay { millis: 40 });
        let start = Instant::now();
        assert_eq!(say(&mut stream, b"slow").await, b"slow");
        assert!(start.elapsed() >= Duration::from_millis(80), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn dropped_data_is_held_back_until_the_fault_is_removed() {
        let port = port().await;
        let mut old = TcpStream::connect(port.address()).await.unwrap();
        assert_eq!(say(&mut old, b"before").await, b"before");
        port.set_wire(NetworkFault::Swallow);
        let mut new = TcpStream::connect(port.address()).await.unwrap();
        for stream in [&mut old, &mut new] {
            stream.write_all(b"lost").await.unwrap();
            let mut byte = [0];
            let answer = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut byte)).await;
            assert!(answer.is_err(), "no data may arrive");
        }
        port.set_wire(NetworkFault::Pass);
        for stream in [&mut old, &mut new] {
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"lost");
        }
    }

    #[tokio::test]
    async fn closing_a_port_frees_it_and_ends_its_connections() {
        let port = port().await;
        let address = port.address();
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(say(&mut stream, b"hello").await, b"hello");
        port.close().await;
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
        assert!(TcpListener::bind(address).await.is_ok());
    }
}
