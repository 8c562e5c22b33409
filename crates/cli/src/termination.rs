//! Termination of long-running commands: SIGTERM or Ctrl-C.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its creation, so that a signal during startup is not lost.
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

    /// Fails if `broken` completes first: the process then ends with an error.
    pub async fn asked_unless(&mut self, broken: impl Future<Output = anyhow::Error>) -> anyhow::Result<()> {
        tokio::select! {
            () = self.asked() => Ok(()),
            error = broken => Err(error),
        }
    }
}
