//! Client-side rate limiting.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Average requests per second, and at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    pub per_second: f64,
    pub burst: u32,
}

/// Grants turns at the rate of its limit.
pub struct Throttle {
    limit: RateLimit,
    state: Mutex<ThrottleState>,
}

struct ThrottleState {
    /// Negative while callers wait for turns already granted.
    turns: f64,
    at: Instant,
}

impl Throttle {
    pub fn new(limit: RateLimit) -> Self {
        let state = ThrottleState { turns: f64::from(limit.burst), at: Instant::now() };
        Self { limit, state: Mutex::new(state) }
    }

    /// Waits for the caller's turn.
    pub async fn turn(&self) {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn reserve(&self, now: Instant) -> Duration {
        let mut state = self.state.lock();
        let earned = now.saturating_duration_since(state.at).as_secs_f64() * self.limit.per_second;
        state.turns = (state.turns + earned).min(f64::from(self.limit.burst)) - 1.0;
        state.at = now;
        if state.turns >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-state.turns / self.limit.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_immediate_and_the_rest_is_throttled() {
        let throttle = Throttle::new(RateLimit { per_second: 10.0, burst: 5 });
        let start = Instant::now();
        for _ in 0..5 {
            throttle.turn().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            throttle.turn().await;
        }
        let took = start.elapsed();
        assert!((990..=1100).contains(&took.as_millis()), "{took:?}");
    }
}
