//! Safe mode: after a restore or an import the control plane removes nothing from members until an administrator confirms. Records the
//! changes it held back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use api::safe_mode::Held;
use parking_lot::Mutex;

/// Changes recorded; further ones are only counted.
const HELD_MAX: usize = 10_000;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// One per control plane; clones share it. The default is off, for control planes that were never restored.
#[derive(Clone)]
pub struct SafeMode {
    shared: Arc<State>,
}

struct State {
    mode: AtomicU8,
    held: Mutex<BTreeMap<Held, u64>>,
    /// All refusals, recorded or not.
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

    /// The state before the store has been read: treated as on.
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

    /// Records a change that was held back; true when it was not recorded before.
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
    fn a_held_change_is_new_once_and_cleared_when_the_mode_ends() {
        let mode = SafeMode::unknown();
        assert!(mode.is_on() && !mode.is_known());
        mode.set(true);
        let is_new: Vec<bool> = ["m1", "m1", "m2"].map(|cluster| mode.hold(held(cluster))).into();
        assert_eq!(is_new, [true, false, true]);
        assert_eq!((mode.held().len(), mode.refusals()), (2, 3));
        mode.set(false);
        assert!(!mode.is_on() && mode.held().is_empty());
    }

    #[test]
    fn the_list_of_held_changes_is_bounded() {
        let mode = SafeMode::unknown();
        for number in 0..HELD_MAX + 5 {
            mode.hold(held(&format!("m{number}")));
        }
        assert_eq!((mode.held().len(), mode.refusals()), (HELD_MAX, HELD_MAX as u64 + 5));
    }
}
