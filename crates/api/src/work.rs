//! `work.karmada.io`: bindings of templates to members, and the works sent there.

use std::collections::BTreeMap;

use object::taints::Toleration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::{Condition, ResourceList};
use crate::policy::{FailoverBehavior, Placement, SuspendClusters};
use crate::resource::Resource;

pub const GROUP: &str = "work.karmada.io";
pub const WORKS: Resource = Resource::namespaced(GROUP, "v1alpha1", "Work", "works");
pub const RESOURCE_BINDINGS: Resource = Resource::namespaced(GROUP, "v1alpha2", "ResourceBinding", "resourcebindings");
pub const CLUSTER_RESOURCE_BINDINGS: Resource =
    Resource::cluster(GROUP, "v1alpha2", "ClusterResourceBinding", "clusterresourcebindings");
/// The older version of the bindings, still served.
pub const RESOURCE_BINDINGS_V1ALPHA1: Resource =
    Resource::namespaced(GROUP, "v1alpha1", "ResourceBinding", "resourcebindings");
pub const CLUSTER_RESOURCE_BINDINGS_V1ALPHA1: Resource =
    Resource::cluster(GROUP, "v1alpha1", "ClusterResourceBinding", "clusterresourcebindings");

pub const LABEL_BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
pub const LABEL_CLUSTER_BINDING_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";
pub const LABEL_WORK_ID: &str = "work.karmada.io/permanent-id";
pub const ANNOTATION_BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
pub const ANNOTATION_BINDING_NAME: &str = "resourcebinding.karmada.io/name";
pub const ANNOTATION_CLUSTER_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
pub const ANNOTATION_WORK_NAMESPACE: &str = "work.karmada.io/namespace";
pub const ANNOTATION_WORK_NAME: &str = "work.karmada.io/name";
pub const ANNOTATION_CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
pub const ANNOTATION_TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
pub const ANNOTATION_TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
pub const ANNOTATION_MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
pub const ANNOTATION_MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
pub const LABEL_DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
pub const LABEL_RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
pub const LABEL_CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
pub const LABEL_SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
pub const LABEL_BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
pub const LABEL_DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
pub const ANNOTATION_DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";

pub const FINALIZER_EXECUTION: &str = "karmada.io/execution-controller";
pub const FINALIZER_BINDING: &str = "karmada.io/binding-controller";
pub const FINALIZER_CLUSTER_BINDING: &str = "karmada.io/cluster-resource-binding-controller";
pub const FINALIZER_DEPENDENCIES: &str = "karmada.io/binding-dependencies-distributor";

pub const CONDITION_APPLIED: &str = "Applied";
/// On a Work with `Applied=False`: the reason is an [`ApplyFailure`]. Karmada has only the message of `Applied`.
pub const CONDITION_APPLY_FAILURE: &str = "flotilla.dev/ApplyFailure";
pub const CONDITION_DISPATCHING: &str = "Dispatching";
pub const CONDITION_SCHEDULED: &str = "Scheduled";
pub const CONDITION_FULLY_APPLIED: &str = "FullyApplied";

/// The reason why a member did not take a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplyFailure {
    /// No answer, or an answer that may be different later.
    Unreachable,
    CredentialsRejected,
    /// The object exists and does not belong to this control plane.
    AlreadyExists,
    KindNotServed,
    NamespaceMissing,
    QuotaExceeded,
    AdmissionDenied,
    Forbidden,
    Invalid,
    /// The interpreter of the kind failed.
    Interpreter,
    Other,
}

impl ApplyFailure {
    const ALL: [Self; 11] = [
        Self::Unreachable,
        Self::CredentialsRejected,
        Self::AlreadyExists,
        Self::KindNotServed,
        Self::NamespaceMissing,
        Self::QuotaExceeded,
        Self::AdmissionDenied,
        Self::Forbidden,
        Self::Invalid,
        Self::Interpreter,
        Self::Other,
    ];

    /// Returns the reason of the condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::CredentialsRejected => "CredentialsRejected",
            Self::AlreadyExists => "AlreadyExists",
            Self::KindNotServed => "KindNotServed",
            Self::NamespaceMissing => "NamespaceMissing",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::AdmissionDenied => "AdmissionDenied",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid",
            Self::Interpreter => "Interpreter",
            Self::Other => "Other",
        }
    }

    /// Reads the conditions of a Work; `Other` if none says more, as on Works applied by Karmada's agent.
    pub fn of(conditions: &[Condition]) -> Self {
        let reason =
            crate::core::find_condition(conditions, CONDITION_APPLY_FAILURE).map(|found| found.reason.as_str());
        Self::ALL.into_iter().find(|failure| Some(failure.reason()) == reason).unwrap_or(Self::Other)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifest_statuses: Vec<ManifestStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManifestStatus {
    pub identifier: ResourceIdentifier,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceIdentifier {
    pub ordinal: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Required by the schema, always empty.
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// `spec` of ResourceBinding and ClusterResourceBinding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSpec {
    pub resource: ObjectReference,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub propagate_deps: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub conflict_resolution: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaRequirements {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaim {
    /// A core/v1 NodeSelector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One pod template of a workload that has several. Its requirements carry no namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Component {
    pub name: String,
    pub replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetCluster {
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// The replicas of each component of a workload with several pod templates (Karmada 1.19).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// The replicas of one component in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetComponent {
    pub name: String,
    pub replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GracefulEvictionTask {
    pub from_cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub purge_mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub producer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BindingSnapshot {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSuspension {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulePriority {
    pub priority: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityGroups {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub affinity_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub anti_affinity_group: String,
}

/// `status` of ResourceBinding and ClusterResourceBinding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_generation: Option<i64>,
    #[serde(rename = "schedulerObservingAffinityName", skip_serializing_if = "String::is_empty")]
    pub scheduler_observed_affinity_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedStatusItem {
    pub cluster_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
}

/// Field of a workload's status in which works and bindings report unschedulable pods; Flotilla's own.
pub const STATUS_UNSCHEDULABLE: &str = "unschedulable";

/// Pods of a workload that no node in a member can run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unschedulable {
    pub replicas: i64,
    /// Number of pods by the time since they are unschedulable.
    pub since: BTreeMap<String, i64>,
    /// The message of the member's scheduler.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl BindingSpec {
    /// Reports whether the template runs pods.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.replica_requirements.is_some() || !self.components.is_empty()
    }

    pub fn target(&self, cluster: &str) -> Option<&TargetCluster> {
        self.clusters.iter().find(|target| target.name == cluster)
    }
}

impl GracefulEvictionTask {
    /// Reports whether the old cluster's copy must be removed before a new one starts.
    pub fn purges_first(&self) -> bool {
        matches!(self.purge_mode.as_str(), "Immediately" | "Directly")
    }
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}
