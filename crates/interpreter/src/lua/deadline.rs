//! The time limit of a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Shared by a state and everything that runs in it.
#[derive(Clone)]
pub struct Deadline {
    stopwatch: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Nanoseconds on the stopwatch.
    end: Arc<AtomicU64>,
    /// Milliseconds a script may take, for the message.
    budget_ms: Arc<AtomicU64>,
}

impl Deadline {
    /// No limit until it is started.
    pub fn new(stopwatch: Arc<dyn Fn() -> Duration + Send + Sync>) -> Self {
        let never = || Arc::new(AtomicU64::new(u64::MAX));
        Self { stopwatch, end: never(), budget_ms: never() }
    }

    pub fn start(&self, budget: Duration) {
        let end = (self.stopwatch)().saturating_add(budget);
        self.end.store(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.budget_ms.store(u64::try_from(budget.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Disables the limit between scripts.
    pub fn stop(&self) {
        self.end.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        end != u64::MAX && (self.stopwatch)().as_nanos() >= u128::from(end)
    }

    pub fn check(&self) -> Result<(), String> {
        if self.is_over() { Err(self.message()) } else { Ok(()) }
    }

    pub fn message(&self) -> String {
        format!("script stopped: it ran longer than {} ms", self.budget_ms.load(Ordering::Relaxed))
    }
}
