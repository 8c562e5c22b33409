//! What the nodes of members can still take, as the scheduler wants to know it: published by whoever watches a member.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::core::Taint;

/// Amounts by resource name: thousandths for `cpu`, whole units (rounded up) for everything else, `pods` included.
pub type Amounts = BTreeMap<String, i64>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapacity {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Amounts,
    /// What the pods on it ask for; `pods` is their number.
    pub requested: Amounts,
}

/// What a ResourceQuota leaves, of the resources that pods ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaCapacity {
    /// It is about pods that one of these means; about all pods when there are none.
    pub scopes: Vec<QuotaScope>,
    /// Less than nothing where more is used than is allowed by now.
    pub free: Amounts,
}

/// A scope of a ResourceQuota, as a requirement on `name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaScope {
    #[serde(rename = "scopeName")]
    pub name: String,
    pub operator: String,
    pub values: Vec<String>,
}

/// The nodes of one member at one time, and the quotas in its namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNodes {
    pub nodes: Vec<NodeCapacity>,
    /// By namespace; none where nobody looks at quotas.
    pub quotas: BTreeMap<String, Vec<QuotaCapacity>>,
}

/// The newest known nodes of every watched member. One per control plane; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Board {
    clusters: Arc<RwLock<BTreeMap<String, Arc<ClusterNodes>>>>,
}

impl Board {
    pub fn publish(&self, cluster: &str, nodes: ClusterNodes) {
        self.clusters.write().insert(cluster.to_owned(), Arc::new(nodes));
    }

    /// Forgets a member that is no longer watched: what is not known is not guessed.
    pub fn forget(&self, cluster: &str) {
        self.clusters.write().remove(cluster);
    }

    pub fn get(&self, cluster: &str) -> Option<Arc<ClusterNodes>> {
        self.clusters.read().get(cluster).cloned()
    }
}
