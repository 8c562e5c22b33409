//! The pace of evictions: a cluster that fails must not bring down the others by everything arriving at once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Between two evictions when the rate is zero.
const INTERVAL_MAX: Duration = Duration::from_secs(1800);

/// The time between two evictions at a rate per second.
pub fn interval(rate: f32) -> Duration {
    if rate <= 0.0 { INTERVAL_MAX } else { Duration::from_secs_f32(1.0 / rate).min(INTERVAL_MAX) }
}

/// Delay of turns that is compensated at most: on a busy machine each turn comes a little late.
const MADE_UP_MAX: Duration = Duration::from_millis(100);

/// Grants turns, an interval apart, in the order of requests. Idle time is not saved up, and of time in
/// which no request could be served no more than `MADE_UP_MAX`, to avoid a burst.
pub struct Pace {
    interval: Duration,
    /// The next turn; other requests wait.
    line: Semaphore,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub fn new(interval: Duration) -> Self {
        Self { interval, line: Semaphore::new(1), next: Mutex::new(None) }
    }

    pub async fn turn(&self) {
        let asked = Instant::now();
        // The line is never closed; were it, there would be no pace to keep.
        let _first = self.line.acquire().await;
        let planned = self.next.lock().map_or(asked, |next| next.max(asked));
        tokio::time::sleep_until(planned).await;
        let now = Instant::now();
        let earliest = now.checked_sub(MADE_UP_MAX).unwrap_or(now);
        *self.next.lock() = Some((planned + self.interval).max(earliest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_follows_the_rate() {
        assert_eq!(interval(0.5), Duration::from_secs(2));
        assert_eq!(interval(0.0), INTERVAL_MAX);
        assert_eq!(interval(4.0), Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_are_an_interval_apart_and_do_not_accumulate() {
        let pace = Pace::new(Duration::from_millis(100));
        let start = Instant::now();
        tokio::join!(pace.turn(), pace.turn(), pace.turn());
        assert_eq!(start.elapsed(), Duration::from_millis(200));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let start = Instant::now();
        tokio::join!(pace.turn(), pace.turn());
        assert_eq!(start.elapsed(), Duration::from_millis(100));
    }
}
