//! What Flotilla adds to Karmada's failover: the names it goes by, and the moves a binding remembers.

use serde::{Deserialize, Serialize};

use crate::work::TargetCluster;

/// On a policy: what left a cluster by failover returns to it. `DURATION`, or `after=DURATION,rate=PER_SECOND`.
pub const ANNOTATION_FAILBACK: &str = "flotilla.dev/failback";
/// On a binding: its last moves, as a JSON list of `Move`.
pub const ANNOTATION_HISTORY: &str = "flotilla.dev/failover-history";

/// Of a Cluster: has it a node that is ready and takes pods? `Unknown` where it has no nodes at all.
pub const CONDITION_SCHEDULABLE_NODES: &str = "SchedulableNodes";
/// Its reasons, where it has none.
pub const REASON_NODES_CORDONED: &str = "AllNodesCordoned";
pub const REASON_NODES_NOT_READY: &str = "NoNodeReady";

/// On a Cluster without a node that takes pods; its value says which way.
pub const TAINT_NODES_UNSCHEDULABLE: &str = "flotilla.dev/unschedulable";
/// Pods there are run on.
pub const VALUE_CORDONED: &str = "cordoned";
/// Nothing runs.
pub const VALUE_NOT_READY: &str = "not-ready";

/// The reason of tasks and moves that bring a workload back.
pub const REASON_FAILBACK: &str = "Failback";

/// One move of a workload out of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Move {
    /// When it had to leave.
    pub time: String,
    pub from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Who decided it.
    pub by: String,
    /// Where replicas came to be instead; `None` while that is not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<TargetCluster>>,
    /// When that was decided.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub placed: String,
    /// When the old copy was given up, and what allowed it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// When the workload was given to this cluster again.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub returned: String,
}
