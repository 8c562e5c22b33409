//! The resources used by the controllers.

use object::GroupVersionResource;

fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

pub fn pods() -> GroupVersionResource {
    core("pods")
}

pub fn nodes() -> GroupVersionResource {
    core("nodes")
}

pub fn namespaces() -> GroupVersionResource {
    core("namespaces")
}

pub fn services() -> GroupVersionResource {
    core("services")
}

pub fn endpoints() -> GroupVersionResource {
    core("endpoints")
}

pub fn claims() -> GroupVersionResource {
    core("persistentvolumeclaims")
}

pub fn volumes() -> GroupVersionResource {
    core("persistentvolumes")
}

pub fn slices() -> GroupVersionResource {
    GroupVersionResource::new("discovery.k8s.io", "v1", "endpointslices")
}

pub fn storage_classes() -> GroupVersionResource {
    GroupVersionResource::new("storage.k8s.io", "v1", "storageclasses")
}

pub fn budgets() -> GroupVersionResource {
    GroupVersionResource::new("policy", "v1", "poddisruptionbudgets")
}

pub fn leases() -> GroupVersionResource {
    GroupVersionResource::new("coordination.k8s.io", "v1", "leases")
}

pub fn autoscalers() -> GroupVersionResource {
    GroupVersionResource::new("autoscaling", "v2", "horizontalpodautoscalers")
}

pub fn pod_metrics() -> GroupVersionResource {
    GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pods")
}
