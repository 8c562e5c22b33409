//! Tracks decisions and writes that the mirrors do not show yet.

use std::collections::HashMap;

use api::work::TargetCluster;
use object::Object;
use reconcile::ObjectKey;

/// Keyed by binding; bounded by the number of writes in progress or not yet observed.
#[derive(Default)]
pub struct InFlight {
    bindings: HashMap<ObjectKey, InFlightBinding>,
}

#[derive(Default)]
struct InFlightBinding {
    /// The clusters of the pending placement, needed by workloads with affinity or anti-affinity to it.
    clusters: Vec<String>,
    /// The newest version this scheduler wrote or observed.
    version: Option<u64>,
    /// A decision waits for the mirror to have that version.
    is_awaited: bool,
}

impl InFlight {
    pub fn decided(&mut self, key: &ObjectKey, targets: &[TargetCluster]) {
        let clusters = targets.iter().map(|target| target.name.clone()).collect();
        self.bindings.insert(key.clone(), InFlightBinding { clusters, ..InFlightBinding::default() });
    }

    /// Records a write of `object`; `seen` is the version in the mirror.
    pub fn written(&mut self, key: &ObjectKey, object: &Object, seen: Option<&Object>) {
        self.bindings.entry(key.clone()).or_default().version = Some(version(object));
        match seen {
            // The writer itself has it, so no decision waits for it.
            Some(seen) => {
                self.seen(key, seen);
            }
            // Already deleted.
            None => self.forget(key),
        }
    }

    /// Records a version observed by the mirror. Reports whether a decision waited for it.
    pub fn seen(&mut self, key: &ObjectKey, object: &Object) -> bool {
        let is_known = |entry: &InFlightBinding| entry.version.is_some_and(|own| own <= version(object));
        let is_known = self.bindings.get(key).is_some_and(is_known);
        is_known && self.bindings.remove(key).is_some_and(|entry| entry.is_awaited)
    }

    /// Ends tracking of a placement. If nothing was written, the mirror is already current.
    pub fn finished(&mut self, key: &ObjectKey) {
        if self.bindings.get(key).is_some_and(|entry| entry.version.is_none()) {
            self.bindings.remove(key);
        }
    }

    pub fn forget(&mut self, key: &ObjectKey) {
        self.bindings.remove(key);
    }

    /// Reports whether the mirror is older than the last write; `seen` then reports when it has caught up.
    pub fn must_wait(&mut self, key: &ObjectKey, object: &Object) -> bool {
        let Some(entry) = self.bindings.get_mut(key) else { return false };
        entry.is_awaited = entry.version.is_some_and(|own| own > version(object));
        entry.is_awaited
    }

    /// Returns the clusters of a pending placement.
    pub fn clusters(&self, key: &ObjectKey) -> Option<&[String]> {
        self.bindings.get(key).map(|entry| entry.clusters.as_slice()).filter(|clusters| !clusters.is_empty())
    }
}

/// An unparsable version sorts before all others.
fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(version: u64) -> Object {
        Object::from_value(json!({"metadata": {"name": "x", "resourceVersion": version.to_string()}})).expect("a map")
    }

    #[test]
    fn a_write_is_tracked_until_the_mirror_has_it() {
        let key = ObjectKey::new("a", "x");
        let mut in_flight = InFlight::default();
        let target = TargetCluster { name: "m1".to_owned(), replicas: 1 };
        in_flight.decided(&key, std::slice::from_ref(&target));
        in_flight.seen(&key, &binding(5));
        assert_eq!(in_flight.clusters(&key), Some(["m1".to_owned()].as_slice()), "not written yet");
        in_flight.written(&key, &binding(7), Some(&binding(5)));
        assert!(!in_flight.must_wait(&key, &binding(7)) && in_flight.must_wait(&key, &binding(6)));
        assert!(!in_flight.seen(&key, &binding(6)), "an older version than the awaited one");
        assert!(in_flight.seen(&key, &binding(8)), "the waiting decision is resumed");
        assert!(!in_flight.seen(&key, &binding(9)), "once");
        assert_eq!(in_flight.clusters(&key), None);
        in_flight.written(&key, &binding(9), Some(&binding(9)));
        assert!(!in_flight.must_wait(&key, &binding(1)), "the mirror was faster");
    }
}
