//! The versions of one key, newest last.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::kv::{Event, EventKind, KeyValue, LeaseId, Revision};
use crate::local::kept::Kept;

/// One version of a key; without a value it marks a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub mod_revision: Revision,
    pub create_revision: Revision,
    pub lease: Option<LeaseId>,
    pub value: Option<Bytes>,
}

impl Version {
    pub fn to_kv(&self, key: &Arc<str>) -> Option<KeyValue> {
        self.clone().into_kv(key)
    }

    pub fn into_kv(self, key: &Arc<str>) -> Option<KeyValue> {
        self.value.map(|value| KeyValue {
            key: key.clone(),
            value,
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            lease: self.lease,
        })
    }
}

/// Most keys have one version, so the newest is stored separately and an empty history costs nothing.
#[derive(Debug)]
pub(crate) struct Chain {
    newest: Kept,
    older: VecDeque<Kept>,
}

impl Chain {
    pub fn new(version: Kept) -> Self {
        Chain { newest: version, older: VecDeque::new() }
    }

    pub fn newest(&self) -> &Kept {
        &self.newest
    }

    pub fn push(&mut self, version: Kept) {
        debug_assert!(version.mod_revision > self.newest.mod_revision, "versions of a key are written in order");
        self.older.push_back(std::mem::replace(&mut self.newest, version));
    }

    /// The version in force at `revision`, which may be a deletion.
    pub fn at(&self, revision: Revision) -> Option<&Kept> {
        if self.newest.mod_revision <= revision {
            return Some(&self.newest);
        }
        let after = self.older.partition_point(|version| version.mod_revision <= revision);
        after.checked_sub(1).and_then(|last| self.older.get(last))
    }

    /// The event that wrote the version at exactly `revision`.
    pub fn event_at(&self, key: &Arc<str>, revision: Revision) -> Option<Event> {
        let version = self.at(revision).filter(|version| version.mod_revision == revision)?;
        let prev = self.at(revision - 1).and_then(|prev| prev.to_kv(key));
        Some(event_of(key, &version.version(), prev))
    }

    /// Removes versions that are unreadable once `revision` is compacted. Returns `true` if nothing of the key
    /// remains.
    pub fn prune(&mut self, revision: Revision, mut pruned: impl FnMut(&Kept)) -> bool {
        let newest_is_old = self.newest.mod_revision <= revision;
        let keep_from = if newest_is_old {
            self.older.len()
        } else {
            // A read at `revision` shows the last version at or below it; for a deletion it shows nothing.
            let after = self.older.partition_point(|version| version.mod_revision <= revision);
            match after.checked_sub(1).and_then(|last| self.older.get(last)) {
                Some(shown) if !shown.is_deletion() => after - 1,
                _ => after,
            }
        };
        self.older.drain(..keep_from).for_each(|version| pruned(&version));
        if self.older.is_empty() {
            self.older.shrink_to_fit();
        }
        let gone = newest_is_old && self.newest.is_deletion();
        if gone {
            pruned(&self.newest);
        }
        gone
    }
}

pub(crate) fn event_of(key: &Arc<str>, version: &Version, prev: Option<KeyValue>) -> Event {
    let kind = if version.value.is_some() { EventKind::Put } else { EventKind::Delete };
    let kv = version.to_kv(key).unwrap_or_else(|| KeyValue {
        key: key.clone(),
        value: Bytes::new(),
        create_revision: 0,
        mod_revision: version.mod_revision,
        lease: None,
    });
    Event { kind, kv, prev }
}
