//! `apps.karmada.io`: rescheduling requests.

use serde::{Deserialize, Serialize};

use crate::resource::Resource;

pub const GROUP: &str = "apps.karmada.io";
pub const WORKLOAD_REBALANCERS: Resource =
    Resource::cluster(GROUP, "v1alpha1", "WorkloadRebalancer", "workloadrebalancers");

pub const RESULT_FAILED: &str = "Failed";
pub const RESULT_SUCCESSFUL: &str = "Successful";
pub const REASON_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";

/// `spec` of WorkloadRebalancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RebalancerSpec {
    pub workloads: Vec<WorkloadReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// `status` of WorkloadRebalancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RebalancerStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<ObservedWorkload>,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservedWorkload {
    pub workload: WorkloadReference,
    /// `Failed`, `Successful`, or empty while pending.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
