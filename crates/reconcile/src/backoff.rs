//! Exponential backoff for retries.

use std::time::Duration;

/// Doubles from `base` to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub base: Duration,
    pub max: Duration,
}

/// For a key whose reconcile failed; client-go's values for controllers.
pub const KEY_BACKOFF: Backoff = Backoff { base: Duration::from_millis(5), max: Duration::from_secs(1000) };

/// For a mirror whose API server fails; client-go's values for reflectors.
pub const MIRROR_BACKOFF: Backoff = Backoff { base: Duration::from_millis(800), max: Duration::from_secs(30) };

impl Backoff {
    /// The delay after this many failures; the first is failure 0.
    pub fn wait(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.base.checked_mul(factor).unwrap_or(self.max).min(self.max)
    }

    /// Up to twice the delay, so that many clients of one server do not retry in sync.
    pub fn jittered(&self, failures: u32) -> Duration {
        jittered(self.wait(failures), 1.0)
    }
}

/// Between `wait` and `wait * (1 + factor)`.
pub fn jittered(wait: Duration, factor: f64) -> Duration {
    wait.mul_f64(1.0 + rand::random::<f64>() * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_maximum() {
        let waits: Vec<u128> = [0, 1, 2, 17, 18, 31, 32, 1000].map(|n| KEY_BACKOFF.wait(n).as_millis()).into();
        assert_eq!(waits, [5, 10, 20, 655_360, 1_000_000, 1_000_000, 1_000_000, 1_000_000]);
    }
}
