//! Free capacity of the nodes and quotas of a member, in the form the scheduler reads.

use std::collections::BTreeMap;

use object::taints::Taint;

/// Amounts by resource name: thousandths for `cpu`, whole units (rounded up) for everything else, `pods` included.
pub type Amounts = BTreeMap<String, i64>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapacity {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Amounts,
    /// Requests of the pods on the node; `pods` is their number.
    pub requested: Amounts,
}

/// Remaining amounts of a ResourceQuota, for the resources that pods request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaCapacity {
    /// Limits the quota to pods that match one of these; it covers all pods when there are none.
    pub scopes: Vec<QuotaScope>,
    /// Negative when usage exceeds the quota.
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
    /// By namespace; empty when quotas are not watched.
    pub quotas: BTreeMap<String, Vec<QuotaCapacity>>,
}
