//! `cluster.karmada.io`: the member clusters.

use std::collections::BTreeMap;

use object::taints::Taint;
use serde::{Deserialize, Serialize};

use crate::core::{Condition, QuantityText, ResourceList, find_condition};
use crate::resource::Resource;

pub const GROUP: &str = "cluster.karmada.io";
pub const CLUSTERS: Resource = Resource::cluster(GROUP, "v1alpha1", "Cluster", "clusters");

pub const FINALIZER: &str = "karmada.io/cluster-controller";
pub const TAINT_UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
pub const TAINT_NOT_READY: &str = "cluster.karmada.io/not-ready";
pub const TAINT_UNREACHABLE: &str = "cluster.karmada.io/unreachable";

pub const CONDITION_READY: &str = "Ready";
pub const CONDITION_COMPLETE_APIS: &str = "CompleteAPIEnablements";

/// Keys in the secret of a member.
pub const SECRET_TOKEN: &str = "token";
pub const SECRET_CA_BUNDLE: &str = "caBundle";

/// Marks objects of the control plane itself.
pub const LABEL_SYSTEM: &str = "karmada.io/system";
/// Marks objects the control plane created in members.
pub const LABEL_MANAGED: &str = "karmada.io/managed";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncMode {
    #[default]
    Push,
    Pull,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub sync_mode: SyncMode,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<SecretReference>,
    #[serde(rename = "insecureSkipTLSVerification", skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verification: bool,
    #[serde(rename = "proxyURL", skip_serializing_if = "String::is_empty")]
    pub proxy_url: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_header: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_models: Vec<ResourceModel>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceModel {
    pub grade: u32,
    pub ranges: Vec<ResourceModelRange>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceModelRange {
    pub name: String,
    pub min: QuantityText,
    pub max: QuantityText,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    #[serde(rename = "apiEnablements", skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<ApiEnablement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEnablement {
    pub group_version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<EnabledResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnabledResource {
    pub name: String,
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    pub total_num: i32,
    pub ready_num: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSummary {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocating: ResourceList,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatableModeling {
    pub grade: u32,
    pub count: i32,
}

/// The support of an API by a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiSupport {
    Enabled,
    Disabled,
    /// The list of its APIs is incomplete.
    Unknown,
}

impl ClusterSpec {
    /// The zones from either of the two fields.
    pub fn all_zones(&self) -> Vec<&str> {
        if self.zones.is_empty() && !self.zone.is_empty() {
            return vec![&self.zone];
        }
        self.zones.iter().map(String::as_str).collect()
    }
}

impl ClusterStatus {
    pub fn is_ready(&self) -> bool {
        find_condition(&self.conditions, CONDITION_READY).is_some_and(|ready| ready.is_true())
    }

    pub fn api_support(&self, api_version: &str, kind: &str) -> ApiSupport {
        let group = self.api_enablements.iter().find(|group| group.group_version == api_version);
        if group.is_some_and(|group| group.resources.iter().any(|resource| resource.kind == kind)) {
            return ApiSupport::Enabled;
        }
        match find_condition(&self.conditions, CONDITION_COMPLETE_APIS) {
            Some(complete) if complete.is_true() => ApiSupport::Disabled,
            _ => ApiSupport::Unknown,
        }
    }
}
