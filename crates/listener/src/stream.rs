//! A connection's byte stream that is counted and reports when its client stops reading.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::Activity;
use crate::admission::Permit;

/// Holds the connection's permit for as long as the socket is open: an upgraded connection outlives its HTTP one.
pub struct WatchedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    _permit: Permit,
    is_blocked: bool,
}

impl<S> WatchedStream<S> {
    pub fn new(stream: S, activity: Arc<Activity>, permit: Permit) -> Self {
        Self { stream, activity, _permit: permit, is_blocked: false }
    }

    /// Reports changes only: most writes are accepted at once and take no lock.
    fn note<T>(&mut self, written: Poll<T>) -> Poll<T> {
        if written.is_pending() != self.is_blocked {
            self.is_blocked = written.is_pending();
            if self.is_blocked { self.activity.write_blocked() } else { self.activity.write_accepted() }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.note(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.note(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.note(closed)
    }
}
