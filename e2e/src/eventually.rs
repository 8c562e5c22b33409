//! Waits for a condition with a deadline.

use std::time::{Duration, Instant};

/// Panics with the description if the condition is not met in time.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "timed out after {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
