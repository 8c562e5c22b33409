//! Tracks writes that a mirror may not show yet: a decision on an older copy could revert them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use object::Object;
use parking_lot::Mutex;

/// At this count, entries that the mirror shows are dropped.
const REMEMBERED_MAX: usize = 4096;

/// Versions by key. All are of one API, where versions count upwards.
pub struct Written<K> {
    versions: Mutex<HashMap<K, u64>>,
}

impl<K> Default for Written<K> {
    fn default() -> Self {
        Self { versions: Mutex::default() }
    }
}

impl<K: Eq + Hash> Written<K> {
    /// Remembers a version. `shown` is what the mirror has; what it no longer has needs no memory.
    pub fn note(&self, key: K, written: &Object, shown: impl Fn(&K) -> Option<Arc<Object>>) {
        let Some(version) = version(written) else { return };
        let mut versions = self.versions.lock();
        if versions.len() >= REMEMBERED_MAX {
            versions.retain(|key, version| shown(key).is_some_and(|object| is_older(&object, *version)));
        }
        versions.insert(key, version);
    }

    /// Is this copy older than what was written? Once it is not, the memory goes.
    pub fn is_ahead_of(&self, key: &K, mirrored: &Object) -> bool {
        let mut versions = self.versions.lock();
        let is_ahead = versions.get(key).is_some_and(|version| is_older(mirrored, *version));
        if !is_ahead {
            versions.remove(key);
        }
        is_ahead
    }

    pub fn forget(&self, key: &K) {
        self.versions.lock().remove(key);
    }
}

fn version(object: &Object) -> Option<u64> {
    object.resource_version().parse().ok()
}

fn is_older(object: &Object, than: u64) -> bool {
    version(object).is_some_and(|version| version < than)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64) -> Arc<Object> {
        let mut object = Object::default();
        object.set_resource_version(version);
        Arc::new(object)
    }

    #[test]
    fn a_copy_is_behind_until_it_shows_what_was_written() {
        let written = Written::default();
        assert!(!written.is_ahead_of(&"a", &at(1)));
        written.note("a", &at(5), |_| None);
        assert!(written.is_ahead_of(&"a", &at(4)));
        assert!(!written.is_ahead_of(&"b", &at(4)));
        assert!(!written.is_ahead_of(&"a", &at(6)));
        assert!(!written.is_ahead_of(&"a", &at(4)), "it was seen");
        written.note("a", &at(7), |_| None);
        written.forget(&"a");
        assert!(!written.is_ahead_of(&"a", &at(4)));
    }

    #[test]
    fn what_the_mirror_shows_or_lost_is_forgotten_when_there_is_much() {
        let written = Written::default();
        for key in 0..REMEMBERED_MAX {
            written.note(key, &at(5), |_| None);
        }
        let shown = |key: &usize| match key {
            0 => Some(at(4)),
            1 => Some(at(5)),
            _ => None,
        };
        written.note(REMEMBERED_MAX, &at(9), shown);
        assert!(written.is_ahead_of(&0, &at(4)) && !written.is_ahead_of(&1, &at(4)));
        assert!(written.is_ahead_of(&REMEMBERED_MAX, &at(4)) && !written.is_ahead_of(&2, &at(4)));
    }
}
