//! `autoscaling.karmada.io`: replicas that follow load or a schedule, across members.

use serde::{Deserialize, Serialize};

use crate::resource::Resource;

pub const GROUP: &str = "autoscaling.karmada.io";
pub const FEDERATED_HPAS: Resource = Resource::namespaced(GROUP, "v1alpha1", "FederatedHPA", "federatedhpas");
pub const CRON_FEDERATED_HPAS: Resource =
    Resource::namespaced(GROUP, "v1alpha1", "CronFederatedHPA", "cronfederatedhpas");

/// The member that usage of a pod or a node was measured in.
pub const ANNOTATION_QUERY_SOURCE: &str = "resource.karmada.io/query-from-cluster";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleTarget {
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
}

/// `spec` of CronFederatedHPA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronHpaSpec {
    pub scale_target_ref: ScaleTarget,
    pub rules: Vec<CronRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronRule {
    pub name: String,
    pub schedule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_min_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_max_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful_history_limit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_history_limit: Option<i32>,
}

/// `status` of CronFederatedHPA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronHpaStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub execution_histories: Vec<ExecutionHistory>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecutionHistory {
    pub rule_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_execution_time: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub successful_executions: Vec<SuccessfulExecution>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_executions: Vec<FailedExecution>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessfulExecution {
    pub schedule_time: String,
    pub execution_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_max_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_min_replicas: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedExecution {
    pub schedule_time: String,
    pub execution_time: String,
    pub message: String,
}
