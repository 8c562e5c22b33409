//! Newest known capacity of every watched member.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capacity::ClusterNodes;
use parking_lot::RwLock;
use tokio::sync::watch;

/// Node and quota capacity by member. One per control plane; clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemberCapacity {
    clusters: Arc<RwLock<BTreeMap<String, Arc<ClusterNodes>>>>,
    /// Counts publications.
    published: Arc<watch::Sender<u64>>,
}

impl MemberCapacity {
    pub fn publish(&self, cluster: &str, nodes: ClusterNodes) {
        self.clusters.write().insert(cluster.to_owned(), Arc::new(nodes));
        self.published.send_modify(|count| *count += 1);
    }

    /// Changes with every publication.
    pub fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Removes a member that is no longer watched, so that stale capacity is not used.
    pub fn forget(&self, cluster: &str) {
        self.clusters.write().remove(cluster);
    }

    pub fn get(&self, cluster: &str) -> Option<Arc<ClusterNodes>> {
        self.clusters.read().get(cluster).cloned()
    }
}
