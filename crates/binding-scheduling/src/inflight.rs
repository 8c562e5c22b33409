//! What was decided or written and does not show in the mirrors yet.

use std::collections::HashMap;

use api::work::TargetCluster;
use object::Object;
use reconcile::ObjectKey;

/// By binding; as many at most as are being written or on their way back.
#[derive(Default)]
pub struct InFlight {
    bindings: HashMap<ObjectKey, Entry>,
}

#[derive(Default)]
struct Entry {
    /// Where it is about to be: what workloads that want to be together or apart need to know of each other.
    clusters: Vec<String>,
    /// The newest version this scheduler wrote or was told of.
    version: Option<u64>,
    /// Somebody wanted to decide on it, and is to be called when the mirror has that version.
    is_awaited: bool,
}

impl InFlight {
    pub fn decided(&mut self, key: &ObjectKey, targets: &[TargetCluster]) {
        let clusters = targets.iter().map(|target| target.name.clone()).collect();
        self.bindings.insert(key.clone(), Entry { clusters, ..Entry::default() });
    }

    /// It was written as `object`; `seen` is what the mirror has.
    pub fn written(&mut self, key: &ObjectKey, object: &Object, seen: Option<&Object>) {
        self.bindings.entry(key.clone()).or_default().version = Some(version(object));
        match seen {
            // Whoever writes it has it, so that nobody else can wait for it.
            Some(seen) => {
                self.seen(key, seen);
            }
            // It is gone already.
            None => self.forget(key),
        }
    }

    /// The mirror has this now. Tells whether somebody waited for it.
    pub fn seen(&mut self, key: &ObjectKey, object: &Object) -> bool {
        let is_known = |entry: &Entry| entry.version.is_some_and(|own| own <= version(object));
        let is_known = self.bindings.get(key).is_some_and(is_known);
        is_known && self.bindings.remove(key).is_some_and(|entry| entry.is_awaited)
    }

    /// All that was to be written is: where that was nothing, the mirror has it.
    pub fn finished(&mut self, key: &ObjectKey) {
        if self.bindings.get(key).is_some_and(|entry| entry.version.is_none()) {
            self.bindings.remove(key);
        }
    }

    pub fn forget(&mut self, key: &ObjectKey) {
        self.bindings.remove(key);
    }

    /// Does the mirror have an older version than the one written here? Then `seen` tells when that is over.
    pub fn must_wait(&mut self, key: &ObjectKey, object: &Object) -> bool {
        let Some(entry) = self.bindings.get_mut(key) else { return false };
        entry.is_awaited = entry.version.is_some_and(|own| own > version(object));
        entry.is_awaited
    }

    /// Where a binding is about to be, if that is not what the mirror says.
    pub fn clusters(&self, key: &ObjectKey) -> Option<&[String]> {
        self.bindings.get(key).map(|entry| entry.clusters.as_slice()).filter(|clusters| !clusters.is_empty())
    }
}

/// A version that is no number is older than all others.
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
    fn what_was_written_counts_until_the_mirror_has_it() {
        let key = ObjectKey::new("a", "x");
        let mut in_flight = InFlight::default();
        let target = TargetCluster { name: "m1".to_owned(), replicas: 1 };
        in_flight.decided(&key, std::slice::from_ref(&target));
        in_flight.seen(&key, &binding(5));
        assert_eq!(in_flight.clusters(&key), Some(["m1".to_owned()].as_slice()), "not written yet");
        in_flight.written(&key, &binding(7), Some(&binding(5)));
        assert!(!in_flight.must_wait(&key, &binding(7)) && in_flight.must_wait(&key, &binding(6)));
        assert!(!in_flight.seen(&key, &binding(6)), "that is not what was waited for");
        assert!(in_flight.seen(&key, &binding(8)), "who waited is called");
        assert!(!in_flight.seen(&key, &binding(9)), "once");
        assert_eq!(in_flight.clusters(&key), None);
        in_flight.written(&key, &binding(9), Some(&binding(9)));
        assert!(!in_flight.must_wait(&key, &binding(1)), "the mirror was faster");
    }
}
