//! Tracks writes that a mirror may not show yet; reconciling before that would repeat them.

use std::collections::HashMap;
use std::time::Duration;

use object::Object;
use parking_lot::Mutex;
use reconcile::{Mirror, ObjectKey};
use tokio::time::Instant;

/// After this time the mirror is trusted again; the written object may be deleted already.
const DOUBT_MAX: Duration = Duration::from_secs(5);

/// Versions of objects, and when they were written.
type Versions = HashMap<ObjectKey, (u64, Instant)>;

/// Pending writes by owner key.
#[derive(Default)]
pub struct PendingWrites {
    written: Mutex<HashMap<ObjectKey, Versions>>,
}

impl PendingWrites {
    pub fn remember(&self, owner: &ObjectKey, object: &Object) {
        let Ok(version) = object.resource_version().parse() else { return };
        self.written.lock().entry(owner.clone()).or_default().insert(ObjectKey::of(object), (version, Instant::now()));
    }

    /// Reports whether the mirror lacks a write for this key. Drops the writes it shows.
    pub fn is_ahead_of(&self, owner: &ObjectKey, mirror: &Mirror) -> bool {
        let mut written = self.written.lock();
        let Some(objects) = written.get_mut(owner) else { return false };
        let version_of = |object: &Object| object.resource_version().parse::<u64>().unwrap_or(u64::MAX);
        objects.retain(|key, (version, at)| {
            at.elapsed() < DOUBT_MAX && mirror.get(key).is_none_or(|object| version_of(&object) < *version)
        });
        if objects.is_empty() {
            written.remove(owner);
            return false;
        }
        true
    }
}
