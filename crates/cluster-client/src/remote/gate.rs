//! A gate on everything a client sends: once it is closed, not even buffered data is sent.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::remote::connect::Stream;

/// Reports whether bytes may be sent. Once closed it must stay closed: connections break on it.
#[derive(Clone)]
pub struct Gate(Arc<dyn Fn() -> bool + Send + Sync>);

impl Gate {
    pub fn new(is_open: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_open))
    }

    fn check(&self) -> io::Result<()> {
        if (self.0)() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "this process may no longer send here"))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&(self.0)()).finish()
    }
}

/// A connection behind a gate.
pub struct Gated {
    pub stream: Box<dyn Stream>,
    pub gate: Gate,
}

impl AsyncRead for Gated {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Gated {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.gate.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.gate.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_closed_gate_sends_nothing() {
        let (near, mut far) = tokio::io::duplex(64);
        let open = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&open);
        let gate = Gate::new(move || seen.load(Ordering::Relaxed));
        let mut gated = Gated { stream: Box::new(near), gate };
        gated.write_all(b"one").await.expect("open");
        open.store(false, Ordering::Relaxed);
        assert_eq!(gated.write_all(b"two").await.expect_err("shut").kind(), io::ErrorKind::PermissionDenied);
        far.write_all(b"answer").await.expect("receiving still works");
        let mut answer = [0; 6];
        gated.read_exact(&mut answer).await.expect("read");
        drop(gated);
        let mut arrived = String::new();
        far.read_to_string(&mut arrived).await.expect("read");
        assert_eq!(arrived, "one");
    }
}
