//! Writes that can wait a moment: they join the next transaction instead of causing one.

use std::time::Duration;

use parking_lot::Mutex;

use crate::embedded::batch::Request;

/// Longest wait for a transaction of other writes.
pub(crate) const DEFERRED_FOR: Duration = Duration::from_millis(20);
/// With this many waiting, a transaction of their own is worth its flush.
const WAITING_MAX: usize = 256;

/// As many wait as there are callers, each of which waits for its answer.
pub(crate) struct DeferredWrites {
    /// `None` once the store is closed.
    waiting: Mutex<Option<Vec<Request>>>,
}

/// The place of a write among those that wait; it says which of them starts the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// A transaction must begin within [`DEFERRED_FOR`].
    First,
    Behind,
    /// A transaction must begin now.
    Full,
    /// There will be no more transactions; the write is dropped.
    Closed,
}

impl DeferredWrites {
    pub fn new() -> Self {
        Self { waiting: Mutex::new(Some(Vec::new())) }
    }

    pub fn add(&self, request: Request) -> Queued {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = &mut *waiting else { return Queued::Closed };
        waiting.push(request);
        match waiting.len() {
            1 => Queued::First,
            length if length % WAITING_MAX == 0 => Queued::Full,
            _ => Queued::Behind,
        }
    }

    /// Everything that waits, for the transaction that begins.
    pub fn take(&self) -> Vec<Request> {
        self.waiting.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Fails what waits, and every later write.
    pub fn close(&self) {
        drop(self.waiting.lock().take());
    }
}
