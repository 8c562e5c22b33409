//! A TCP relay on loopback that blocks, resets or delays connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The mode of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayMode {
    Open,
    /// Delays all data.
    Slow(Duration),
    /// Forwards nothing and keeps connections open.
    Silent,
    /// Resets existing and new connections.
    Reset,
}

/// Stops with its listener when dropped.
pub struct Relay {
    pub port: u16,
    mode: Arc<watch::Sender<RelayMode>>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// Listens on a free loopback port and forwards to the target.
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mode = Arc::new(watch::Sender::new(RelayMode::Open));
        let accepting = Arc::clone(&mode);
        let task = tokio::spawn(async move {
            while let Ok((inward, _)) = listener.accept().await {
                tokio::spawn(connect(inward, target, accepting.subscribe()));
            }
        });
        Ok(Self { port, mode, task })
    }

    pub fn set(&self, mode: RelayMode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
        // Existing connections notice this and end.
        self.mode.send_replace(RelayMode::Reset);
    }
}

async fn connect(inward: TcpStream, target: SocketAddr, mut mode: watch::Receiver<RelayMode>) {
    let mut resets = mode.clone();
    let through = async {
        passable(&mut mode).await;
        let Ok(outward) = TcpStream::connect(target).await else { return };
        let _ = inward.set_nodelay(true);
        let _ = outward.set_nodelay(true);
        let ((from_in, to_in), (from_out, to_out)) = (inward.into_split(), outward.into_split());
        let back = mode.clone();
        tokio::select! {
            () = pump(from_in, to_out, mode) => {}
            () = pump(from_out, to_in, back) => {}
        }
    };
    tokio::select! {
        () = through => {}
        _ = resets.wait_for(|mode| *mode == RelayMode::Reset) => {}
    }
}

/// Waits while the relay is blocked.
async fn passable(mode: &mut watch::Receiver<RelayMode>) {
    // An error means that the relay is gone, and this connection ends too.
    let _ = mode.wait_for(|mode| *mode != RelayMode::Silent).await;
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<RelayMode>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let now = *mode.borrow();
        if let RelayMode::Slow(delay) = now {
            tokio::time::sleep(delay).await;
        }
        passable(&mut mode).await;
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
