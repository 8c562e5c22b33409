//! `policy.karmada.io`: propagation, override, quota and taint policies.

use std::collections::BTreeMap;

use object::taints::Toleration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::{LabelSelector, ResourceList, SelectorRequirement};
use crate::resource::Resource;

pub const GROUP: &str = "policy.karmada.io";
pub const PROPAGATION_POLICIES: Resource =
    Resource::namespaced(GROUP, "v1alpha1", "PropagationPolicy", "propagationpolicies");
pub const CLUSTER_PROPAGATION_POLICIES: Resource =
    Resource::cluster(GROUP, "v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies");
pub const OVERRIDE_POLICIES: Resource = Resource::namespaced(GROUP, "v1alpha1", "OverridePolicy", "overridepolicies");
pub const CLUSTER_OVERRIDE_POLICIES: Resource =
    Resource::cluster(GROUP, "v1alpha1", "ClusterOverridePolicy", "clusteroverridepolicies");
pub const FEDERATED_RESOURCE_QUOTAS: Resource =
    Resource::namespaced(GROUP, "v1alpha1", "FederatedResourceQuota", "federatedresourcequotas");
pub const CLUSTER_TAINT_POLICIES: Resource =
    Resource::cluster(GROUP, "v1alpha1", "ClusterTaintPolicy", "clustertaintpolicies");

pub const LABEL_PROPAGATION_ID: &str = "propagationpolicy.karmada.io/permanent-id";
pub const LABEL_CLUSTER_PROPAGATION_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
pub const ANNOTATION_PROPAGATION_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
pub const ANNOTATION_PROPAGATION_NAME: &str = "propagationpolicy.karmada.io/name";
pub const ANNOTATION_CLUSTER_PROPAGATION_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
pub const FINALIZER_PROPAGATION: &str = "karmada.io/propagation-policy-controller";
pub const FINALIZER_CLUSTER_PROPAGATION: &str = "karmada.io/cluster-propagation-policy-controller";
pub const ANNOTATION_APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
pub const ANNOTATION_APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
pub const ANNOTATION_APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";

/// On the works that carry a member's share of a quota.
pub const LABEL_QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
pub const LABEL_QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";

pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// `spec` of PropagationPolicy and ClusterPropagationPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PropagationSpec {
    pub resource_selectors: Vec<ResourceSelector>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub propagate_deps: bool,
    pub placement: Placement,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `Always` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preemption: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// `Abort` or `Overwrite`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub conflict_resolution: String,
    /// `Lazy` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub activation_preference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<PolicySchedulePriority>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSelector {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldSelector {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinityTerm {
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow_affinities: Option<Vec<OverflowAffinityTerm>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverflowAffinityTerm {
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// `cluster`, `region`, `zone` or `provider`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spread_by_field: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spread_by_label: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_groups: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub min_groups: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSchedulingStrategy {
    /// `Duplicated` or `Divided`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_scheduling_type: String,
    /// `Aggregated` or `Weighted`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_division_preference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPreferences {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// `AvailableReplicas` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dynamic_weight: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterWeight {
    pub target_cluster: ClusterAffinity,
    pub weight: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityTerm {
    pub group_by_label_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailoverBehavior {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationFailoverBehavior {
    pub decision_conditions: DecisionConditions,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub purge_mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DecisionConditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterFailoverBehavior {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub purge_mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservation {
    pub rules: Vec<StatePreservationRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservationRule {
    pub alias_label_name: String,
    pub json_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Suspension {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspendClusters {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySchedulePriority {
    pub priority_class_source: String,
    pub priority_class_name: String,
}

/// `spec` of OverridePolicy and ClusterOverridePolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideSpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<OverrideRule>,
    /// Deprecated, used if there are no rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Deprecated, used if there are no rules.
    pub overriders: Overriders,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    pub overriders: Overriders,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overriders {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

/// `operator` is `add`, `remove` or `replace` in every overrider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlaintextOverrider {
    pub path: String,
    pub operator: String,
    /// Serialized as null if missing.
    pub value: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageOverrider {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// `Registry`, `Repository` or `Tag`.
    pub component: String,
    pub operator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImagePredicate {
    pub path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandArgsOverrider {
    pub container_name: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelAnnotationOverrider {
    pub operator: String,
    pub value: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldOverrider {
    pub field_path: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<FieldPatchOperation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<FieldPatchOperation>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldPatchOperation {
    pub sub_path: String,
    pub operator: String,
    /// Serialized as null if missing.
    pub value: Option<Value>,
}

/// `spec` of FederatedResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaSpec {
    pub overall: ResourceList,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterAssignment {
    pub cluster_name: String,
    pub hard: ResourceList,
}

/// `status` of FederatedResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaStatus {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overall: ResourceList,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overall_used: ResourceList,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
}

/// One member's status of its share of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQuotaStatus {
    pub cluster_name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hard: ResourceList,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub used: ResourceList,
}

/// `spec` of ClusterTaintPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaintPolicySpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
    /// All must match to add the taints; an empty list never adds them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// All must match to remove the taints; an empty list never removes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_on_conditions: Vec<MatchCondition>,
    pub taints: Vec<PolicyTaint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchCondition {
    pub condition_type: String,
    /// `In` or `NotIn`.
    pub operator: String,
    pub status_values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyTaint {
    pub key: String,
    pub effect: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

impl ReplicaSchedulingStrategy {
    pub fn is_divided(&self) -> bool {
        self.replica_scheduling_type == "Divided"
    }
}

/// Reports whether replicas are divided by the clusters' free capacity.
pub fn is_dynamic(placement: &Placement) -> bool {
    let Some(strategy) = placement.replica_scheduling.as_ref().filter(|strategy| strategy.is_divided()) else {
        return false;
    };
    let by_weight = strategy.weight_preference.as_ref().is_some_and(|weights| !weights.dynamic_weight.is_empty());
    match strategy.replica_division_preference.as_str() {
        "Aggregated" => true,
        "Weighted" => by_weight,
        _ => false,
    }
}

impl Placement {
    /// Reports whether the replicas are divided among the clusters, rather than duplicated in each.
    pub fn is_divided(&self) -> bool {
        self.replica_scheduling.as_ref().is_some_and(ReplicaSchedulingStrategy::is_divided)
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
