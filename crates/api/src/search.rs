//! `search.karmada.io`: searchable resources of members.

use serde::{Deserialize, Serialize};

use crate::cluster::SecretReference;
use crate::policy::ClusterAffinity;
use crate::resource::Resource;

pub const GROUP: &str = "search.karmada.io";
pub const RESOURCE_REGISTRIES: Resource =
    Resource::cluster(GROUP, "v1alpha1", "ResourceRegistry", "resourceregistries");

/// `search/cache/PATH`: members' objects under a path of the Kubernetes API.
pub const SEARCHES: Resource = Resource::cluster(GROUP, "v1alpha1", "Search", "search");
/// `proxying/NAME/proxy/PATH`: all members as one API.
pub const PROXYINGS: Resource = Resource::cluster(GROUP, "v1alpha1", "Proxying", "proxying");

/// On objects from a cache: the member they were read from.
pub const ANNOTATION_CACHED_FROM: &str = "resource.karmada.io/cached-from-cluster";

/// `spec` of ResourceRegistry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySpec {
    pub target_cluster: ClusterAffinity,
    pub resource_selectors: Vec<RegistrySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_store: Option<BackendStore>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySelector {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendStore {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_search: Option<OpenSearch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenSearch {
    pub addresses: Vec<String>,
    pub secret_ref: SecretReference,
}
