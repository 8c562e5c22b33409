//! `multicluster.x-k8s.io`: services that members export and import.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Resource;

pub const GROUP: &str = "multicluster.x-k8s.io";
pub const SERVICE_EXPORTS: Resource = Resource::namespaced(GROUP, "v1alpha1", "ServiceExport", "serviceexports");
pub const SERVICE_IMPORTS: Resource = Resource::namespaced(GROUP, "v1alpha1", "ServiceImport", "serviceimports");

/// `spec` of ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportSpec {
    pub ports: Vec<ImportPort>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// `ClusterSetIP` or `Headless`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_affinity: String,
    /// As in core/v1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportPort {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    pub port: i32,
}
