//! Backoff before a failed daemon pod is replaced, per node.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use reconcile::ObjectKey;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// Maximum number of tracked nodes; beyond it expired entries are dropped, then all.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Default)]
pub struct Backoffs {
    entries: Mutex<HashMap<(ObjectKey, String), NodeBackoff>>,
}

struct NodeBackoff {
    wait: Duration,
    since: Instant,
}

impl Backoffs {
    /// Returns zero if the pod may be deleted now, which starts the next backoff; otherwise the remaining wait.
    pub fn admit(&self, set: &ObjectKey, node: &str) -> Duration {
        let mut entries = self.entries.lock();
        let now = Instant::now();
        if entries.len() >= REMEMBERED_MAX {
            entries.retain(|_, entry| now.duration_since(entry.since) < 2 * LONGEST);
            if entries.len() >= REMEMBERED_MAX {
                entries.clear();
            }
        }
        let Some(entry) = entries.get_mut(&(set.clone(), node.to_owned())) else {
            entries.insert((set.clone(), node.to_owned()), NodeBackoff { wait: FIRST, since: now });
            return Duration::ZERO;
        };
        let left = entry.wait.saturating_sub(now.duration_since(entry.since));
        if left.is_zero() {
            let is_over = now.duration_since(entry.since) > 2 * LONGEST;
            entry.wait = if is_over { FIRST } else { (entry.wait * 2).min(LONGEST) };
            entry.since = now;
        }
        left
    }

    pub fn forget(&self, set: &ObjectKey) {
        self.entries.lock().retain(|(key, _), _| key != set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_makes_the_next_wait_longer() {
        let (backoffs, set) = (Backoffs::default(), ObjectKey::new("a", "d"));
        assert_eq!(backoffs.admit(&set, "n"), Duration::ZERO);
        assert_eq!(backoffs.admit(&set, "n"), FIRST);
        assert_eq!(backoffs.admit(&set, "other"), Duration::ZERO);
        tokio::time::advance(FIRST).await;
        assert_eq!(backoffs.admit(&set, "n"), Duration::ZERO);
        assert_eq!(backoffs.admit(&set, "n"), 2 * FIRST);
        backoffs.forget(&set);
        assert_eq!(backoffs.admit(&set, "n"), Duration::ZERO);
    }
}
