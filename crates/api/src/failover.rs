//! Flotilla's additions to Karmada's failover: annotations, conditions and taints, and the moves recorded on a
//! binding.

use serde::{Deserialize, Serialize};

use crate::work::TargetCluster;

/// On a policy: workloads moved by failover return to their cluster. `DURATION`, or `after=DURATION,rate=PER_SECOND`.
pub const ANNOTATION_FAILBACK: &str = "flotilla.dev/failback";
/// On a binding: its latest moves, as a JSON list of `Move`.
pub const ANNOTATION_HISTORY: &str = "flotilla.dev/failover-history";

/// On a Cluster: whether it has a ready, schedulable node. `Unknown` if it has no nodes at all.
pub const CONDITION_SCHEDULABLE_NODES: &str = "SchedulableNodes";
/// Its reasons if there is none.
pub const REASON_NODES_CORDONED: &str = "AllNodesCordoned";
pub const REASON_NODES_NOT_READY: &str = "NoNodeReady";

/// On a Cluster without a schedulable node; the value names the cause.
pub const TAINT_NODES_UNSCHEDULABLE: &str = "flotilla.dev/unschedulable";
/// Existing pods keep running.
pub const VALUE_CORDONED: &str = "cordoned";
/// Nothing runs.
pub const VALUE_NOT_READY: &str = "not-ready";

/// The reason of tasks and moves that return a workload to its cluster.
pub const REASON_FAILBACK: &str = "Failback";

/// One move of a workload out of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Move {
    /// Time of the eviction.
    pub time: String,
    pub from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The component that decided it.
    pub by: String,
    /// The clusters that got the replicas instead; `None` while undecided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<TargetCluster>>,
    /// Time of that decision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub placed: String,
    /// Time the old copy was removed, and what permitted it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// Time the workload returned to this cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub returned: String,
}
