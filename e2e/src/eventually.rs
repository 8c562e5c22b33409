//! Waits for a condition, with a deadline: tests never sleep to be lucky.

use std::time::{Duration, Instant};

/// Panics with what was waited for when it does not come true in time.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
