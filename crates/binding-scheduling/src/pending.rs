//! Placements that are decided and not written yet, needed by workloads with affinity or anti-affinity to them.

use std::collections::HashMap;

use api::work::TargetCluster;
use reconcile::ObjectKey;

/// The clusters of pending placements by binding; bounded by the number of concurrent writes.
#[derive(Default)]
pub struct PendingPlacements {
    clusters: HashMap<ObjectKey, Vec<String>>,
}

impl PendingPlacements {
    pub fn decided(&mut self, key: &ObjectKey, targets: &[TargetCluster]) {
        self.clusters.insert(key.clone(), targets.iter().map(|target| target.name.clone()).collect());
    }

    /// The placement was written, and the mirror shows it, or it was given up.
    pub fn end(&mut self, key: &ObjectKey) {
        self.clusters.remove(key);
    }

    /// Returns the clusters of a pending placement.
    pub fn clusters(&self, key: &ObjectKey) -> Option<&[String]> {
        self.clusters.get(key).map(Vec::as_slice).filter(|clusters| !clusters.is_empty())
    }
}
