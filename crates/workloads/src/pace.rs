//! Batches the pod events of an owner: reading all pods of a large owner for every change would be quadratic.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use reconcile::ObjectKey;

const PACE_PER_POD: Duration = Duration::from_micros(50);
const PACE_MAX: Duration = Duration::from_millis(500);

/// The number of pods of each owner as last read, dropped with the owner.
#[derive(Default)]
pub struct OwnerPace {
    pods: Mutex<HashMap<ObjectKey, usize>>,
}

impl OwnerPace {
    pub fn set(&self, owner: &ObjectKey, pods: usize) {
        self.pods.lock().insert(owner.clone(), pods);
    }

    pub fn forget(&self, owner: &ObjectKey) {
        self.pods.lock().remove(owner);
    }

    /// Returns how long to batch events of the owner.
    pub fn wait(&self, owner: &ObjectKey) -> Duration {
        let pods = self.pods.lock().get(owner).copied().unwrap_or(0);
        PACE_PER_POD.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX)).min(PACE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_large_owners_are_batched_for_longer() {
        let (pace, owner) = (OwnerPace::default(), ObjectKey::new("a", "set"));
        assert_eq!(pace.wait(&owner), Duration::ZERO);
        pace.set(&owner, 100);
        assert_eq!(pace.wait(&owner), Duration::from_millis(5));
        pace.set(&owner, 1_000_000);
        assert_eq!(pace.wait(&owner), PACE_MAX);
        pace.forget(&owner);
        assert_eq!(pace.wait(&owner), Duration::ZERO);
    }
}
