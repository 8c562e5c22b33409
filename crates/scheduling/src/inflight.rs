//! Placements that are decided and do not show in the mirror yet: what workloads that want to be together or apart need
//! to know of each other.

use std::collections::HashMap;

use api::work::TargetCluster;
use object::Object;
use reconcile::ObjectKey;

/// By binding; as many at most as are being written or on their way back.
#[derive(Default)]
pub struct InFlight {
    placements: HashMap<ObjectKey, Placement>,
}

struct Placement {
    clusters: Vec<String>,
    /// The version it has in the API, once it is written.
    version: Option<u64>,
}

impl InFlight {
    pub fn decided(&mut self, key: &ObjectKey, targets: &[TargetCluster]) {
        let clusters = targets.iter().map(|target| target.name.clone()).collect();
        self.placements.insert(key.clone(), Placement { clusters, version: None });
    }

    /// It was written as `object`; `seen` is what the mirror has.
    pub fn written(&mut self, key: &ObjectKey, object: &Object, seen: Option<&Object>) {
        if let Some(placement) = self.placements.get_mut(key) {
            placement.version = Some(version(object));
        }
        if let Some(seen) = seen {
            self.seen(key, seen);
        }
    }

    /// The mirror has this now.
    pub fn seen(&mut self, key: &ObjectKey, object: &Object) {
        let is_known = |placement: &Placement| placement.version.is_some_and(|own| own <= version(object));
        if self.placements.get(key).is_some_and(is_known) {
            self.placements.remove(key);
        }
    }

    pub fn forget(&mut self, key: &ObjectKey) {
        self.placements.remove(key);
    }

    /// Where a binding is about to be, if that is not what the mirror says.
    pub fn clusters(&self, key: &ObjectKey) -> Option<&[String]> {
        self.placements.get(key).map(|placement| placement.clusters.as_slice())
    }
}

/// A version that is no number is older than all others.
fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or(0)
}
