//! Wall-clock time, real or virtual. Waiting goes through tokio, whose time tests can pause.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// Waits until a time; never returns if none is set.
pub async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Starts at a given time and follows tokio's time: it stops when paused and moves when advanced.
pub struct VirtualClock {
    base: Timestamp,
    start: Instant,
}

impl VirtualClock {
    pub fn new(base: Timestamp) -> Self {
        Self { base, start: Instant::now() }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}
