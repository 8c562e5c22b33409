//! How a long-running command is told to end: SIGTERM or Ctrl-C.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from when it is made, so that a signal during the start is not lost.
pub struct Termination(Signal);

impl Termination {
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::terminate()).context("cannot listen for signals")?))
    }

    pub async fn asked(&mut self) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = self.0.recv() => {}
        }
    }

    /// Fails when `broken` comes first: the process has to end all the same, and not as if all were well.
    pub async fn asked_unless(&mut self, broken: impl Future<Output = anyhow::Error>) -> anyhow::Result<()> {
        tokio::select! {
            () = self.asked() => Ok(()),
            error = broken => Err(error),
        }
    }
}
