//! The time limit of a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared by a state and everything that runs in it.
#[derive(Clone)]
pub struct Deadline {
    origin: Instant,
    /// Nanoseconds after the origin.
    end: Arc<AtomicU64>,
    /// Milliseconds a script may take, for the message.
    budget_ms: Arc<AtomicU64>,
}

impl Default for Deadline {
    fn default() -> Self {
        let never = || Arc::new(AtomicU64::new(u64::MAX));
        Self { origin: Instant::now(), end: never(), budget_ms: never() }
    }
}

impl Deadline {
    pub fn start(&self, budget: Duration) {
        let end = self.origin.elapsed().saturating_add(budget);
        self.end.store(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.budget_ms.store(u64::try_from(budget.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Disables the limit between scripts.
    pub fn stop(&self) {
        self.end.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        end != u64::MAX && self.origin.elapsed().as_nanos() >= u128::from(end)
    }

    pub fn check(&self) -> Result<(), String> {
        if self.is_over() { Err(self.message()) } else { Ok(()) }
    }

    pub fn message(&self) -> String {
        format!("script stopped: it ran longer than {} ms", self.budget_ms.load(Ordering::Relaxed))
    }
}
