//! `networking.karmada.io`: services and ingresses that span members.

use serde::{Deserialize, Serialize};

use crate::resource::Resource;

pub const GROUP: &str = "networking.karmada.io";
pub const MULTI_CLUSTER_INGRESSES: Resource =
    Resource::namespaced(GROUP, "v1alpha1", "MultiClusterIngress", "multiclusteringresses");
pub const MULTI_CLUSTER_SERVICES: Resource =
    Resource::namespaced(GROUP, "v1alpha1", "MultiClusterService", "multiclusterservices");

pub const LABEL_SERVICE_ID: &str = "multiclusterservice.karmada.io/permanent-id";
/// A label on works, an annotation on templates and bindings.
pub const SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
pub const SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
pub const LABEL_SLICE_NAMESPACE: &str = "endpointslice.karmada.io/namespace";
pub const LABEL_SLICE_NAME: &str = "endpointslice.karmada.io/name";
pub const LABEL_SLICE_MANAGED_BY: &str = "endpointslice.karmada.io/managed-by";
pub const ANNOTATION_SLICE_PROVIDER: &str = "endpointslice.karmada.io/provision-cluster";

pub const FINALIZER_SERVICE: &str = "karmada.io/multiclusterservice-controller";
pub const FINALIZER_SLICES: &str = "karmada.io/endpointslice-controller";
pub const FINALIZER_SLICE_DISPATCH: &str = "karmada.io/mcs-endpointslice-dispatch-controller";

pub const TYPE_CROSS_CLUSTER: &str = "CrossCluster";
pub const CONDITION_SERVICE_APPLIED: &str = "ServiceApplied";
pub const CONDITION_SLICES_DISPATCHED: &str = "EndpointSliceDispatched";
/// Flotilla's own: `False` while consumers are known not to reach endpoints of a provider; absent otherwise.
pub const CONDITION_ENDPOINTS_REACHABLE: &str = "flotilla.dev/EndpointsReachable";

/// Kubernetes' own labels of EndpointSlices.
pub const LABEL_SLICE_SERVICE: &str = "kubernetes.io/service-name";
pub const LABEL_SLICE_CONTROLLER: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`LABEL_SLICE_CONTROLLER`] on slices dispatched for a MultiClusterService.
pub const CONTROLLER_DISPATCH: &str = "endpointslice-dispatch-controller.karmada.io";
/// Value of [`LABEL_SLICE_CONTROLLER`] on slices imported for a ServiceImport.
pub const CONTROLLER_IMPORT: &str = "endpointslice-controller.karmada.io";

/// `spec` of MultiClusterService.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    pub types: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ExposurePort>,
    /// Deprecated.
    pub range: ExposureRange,
    /// Deprecated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_provision_clusters: Vec<String>,
    /// Deprecated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_consumption_clusters: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provider_clusters: Vec<ClusterSelector>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consumer_clusters: Vec<ClusterSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExposurePort {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub port: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExposureRange {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSelector {
    pub name: String,
}
