//! A server that fails on purpose: a share of what comes over the wire is answered with 503, for tests of its callers.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use object::Status;

use crate::extension::EXTENSIONS_PATH;

/// Off unless it is switched on.
#[derive(Debug, Default)]
pub struct Disturbance {
    error_percent: AtomicU8,
    asked: AtomicU64,
}

impl Disturbance {
    /// From now on this many of a hundred requests fail; above a hundred counts as all.
    pub fn set_error_percent(&self, percent: u8) {
        self.error_percent.store(percent.min(100), Ordering::Relaxed);
    }

    pub fn error_percent(&self) -> u8 {
        self.error_percent.load(Ordering::Relaxed)
    }

    /// Fails evenly: of any hundred requests in a row as many as were asked for. What switches it off always works.
    pub fn strike(&self, path: &str) -> Result<(), Status> {
        let percent = u64::from(self.error_percent());
        if percent == 0 || path.starts_with(EXTENSIONS_PATH) {
            return Ok(());
        }
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let due = |count: u64| count.wrapping_mul(percent) / 100;
        if due(number.wrapping_add(1)) > due(number) {
            return Err(Status::unavailable("this server is set to fail"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_share_of_requests_fails() {
        let disturbance = Disturbance::default();
        for percent in [0, 1, 33, 50, 100, 200] {
            disturbance.set_error_percent(percent);
            let failed = (0..1000).filter(|_| disturbance.strike("/api/v1/pods").is_err()).count();
            let expected = usize::from(percent.min(100)) * 10;
            assert!(failed.abs_diff(expected) <= 1, "{percent}: {failed}");
        }
        assert!(disturbance.strike("/flotilla/v1alpha1/disturbance").is_ok());
    }
}
