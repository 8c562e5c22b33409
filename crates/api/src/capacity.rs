//! Free capacity of the nodes and quotas of a member, in the form the scheduler reads.

use std::collections::BTreeMap;

use object::taints::Taint;
use serde::{Deserialize, Serialize};

/// Path on the control plane where an agent reports the capacity of its member; followed by the name of the cluster.
pub const REPORT_PATH: &str = "/flotilla/v1alpha1/capacity/";

/// Amounts by resource name: thousandths for `cpu`, whole units (rounded up) for everything else, `pods` included.
pub type Amounts = BTreeMap<String, i64>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCapacity {
    pub name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    #[serde(rename = "unschedulable", skip_serializing_if = "std::ops::Not::not")]
    pub is_unschedulable: bool,
    pub allocatable: Amounts,
    /// Requests of the pods on the node; `pods` is their number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requested: Amounts,
}

/// Remaining amounts of a ResourceQuota, for the resources that pods request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaCapacity {
    /// Limits the quota to pods that match one of these; it covers all pods when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<QuotaScope>,
    /// Negative when usage exceeds the quota.
    pub free: Amounts,
}

/// A scope of a ResourceQuota, as a requirement on `name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
