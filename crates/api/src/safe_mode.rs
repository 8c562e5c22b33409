//! Safe mode: after a restore the plane takes nothing away until somebody confirms; what it held back is written down here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Begins every text by which users learn of it.
pub const HELD_BACK: &str = "held back by safe mode";
/// Reason of the Dispatching condition of a Work that waits for it.
pub const REASON: &str = "SafeMode";
/// Answers whoever is known whether the plane is in safe mode, and administrators what it holds back.
pub const STATE_PATH: &str = "/flotilla/v1alpha1/safe-mode";
/// Ends it.
pub const CONFIRM_PATH: &str = "/flotilla/v1alpha1/safe-mode/confirm";

/// What was held back is written down up to this many; the rest is only counted.
const HELD_MAX: usize = 10_000;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Something that would be taken away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    pub cluster: String,
    /// What would happen: `delete`, `remove from cluster`, `evict`, `change`, `bring back`.
    pub action: String,
    /// Kind, namespace and name, as people write them.
    pub object: String,
}

/// One for a control plane; clones share it. The default is off, for planes that were never restored.
#[derive(Clone)]
pub struct SafeMode {
    shared: Arc<State>,
}

struct State {
    mode: AtomicU8,
    held: Mutex<BTreeMap<Held, u64>>,
    /// All refusals, written down or not.
    refusals: AtomicU64,
}

impl Default for SafeMode {
    fn default() -> Self {
        Self::new(OFF)
    }
}

impl std::fmt::Debug for SafeMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafeMode").field("is_on", &self.is_on()).finish_non_exhaustive()
    }
}

impl SafeMode {
    fn new(mode: u8) -> Self {
        let state = State { mode: AtomicU8::new(mode), held: Mutex::default(), refusals: AtomicU64::new(0) };
        Self { shared: Arc::new(state) }
    }

    /// Of a plane that has not read yet whether it was restored: as good as on.
    pub fn unknown() -> Self {
        Self::new(UNKNOWN)
    }

    pub fn is_known(&self) -> bool {
        self.shared.mode.load(Ordering::Acquire) != UNKNOWN
    }

    pub fn is_on(&self) -> bool {
        self.shared.mode.load(Ordering::Acquire) != OFF
    }

    pub fn set(&self, is_on: bool) {
        self.shared.mode.store(if is_on { ON } else { OFF }, Ordering::Release);
        if !is_on {
            self.shared.held.lock().clear();
        }
    }

    /// Writes down what is not done; true when it is news.
    pub fn hold(&self, held: Held) -> bool {
        self.shared.refusals.fetch_add(1, Ordering::Relaxed);
        let mut known = self.shared.held.lock();
        if let Some(times) = known.get_mut(&held) {
            *times += 1;
            return false;
        }
        if known.len() >= HELD_MAX {
            return false;
        }
        known.insert(held, 1);
        true
    }

    pub fn held(&self) -> Vec<Held> {
        self.shared.held.lock().keys().cloned().collect()
    }

    pub fn refusals(&self) -> u64 {
        self.shared.refusals.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cluster: &str) -> Held {
        Held { cluster: cluster.into(), action: "delete".into(), object: "ConfigMap default/a".into() }
    }

    #[test]
    fn what_is_held_back_is_news_once_and_gone_with_the_mode() {
        let mode = SafeMode::unknown();
        assert!(mode.is_on() && !mode.is_known());
        mode.set(true);
        let told: Vec<bool> = ["m1", "m1", "m2"].map(|cluster| mode.hold(held(cluster))).into();
        assert_eq!(told, [true, false, true]);
        assert_eq!((mode.held().len(), mode.refusals()), (2, 3));
        mode.set(false);
        assert!(!mode.is_on() && mode.held().is_empty());
    }

    #[test]
    fn the_list_is_bounded() {
        let mode = SafeMode::unknown();
        for number in 0..HELD_MAX + 5 {
            mode.hold(held(&format!("m{number}")));
        }
        assert_eq!((mode.held().len(), mode.refusals()), (HELD_MAX, HELD_MAX as u64 + 5));
    }
}
