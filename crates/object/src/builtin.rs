//! The built-in resources of Kubernetes that our components read and write.

use crate::GroupVersionResource;

/// A resource of the core group.
pub fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

pub fn config_maps() -> GroupVersionResource {
    core("configmaps")
}

pub fn endpoints() -> GroupVersionResource {
    core("endpoints")
}

pub fn events() -> GroupVersionResource {
    core("events")
}

pub fn namespaces() -> GroupVersionResource {
    core("namespaces")
}

pub fn nodes() -> GroupVersionResource {
    core("nodes")
}

pub fn persistent_volume_claims() -> GroupVersionResource {
    core("persistentvolumeclaims")
}

pub fn persistent_volumes() -> GroupVersionResource {
    core("persistentvolumes")
}

pub fn pods() -> GroupVersionResource {
    core("pods")
}

pub fn replication_controllers() -> GroupVersionResource {
    core("replicationcontrollers")
}

pub fn resource_quotas() -> GroupVersionResource {
    core("resourcequotas")
}

pub fn secrets() -> GroupVersionResource {
    core("secrets")
}

pub fn service_accounts() -> GroupVersionResource {
    core("serviceaccounts")
}

pub fn services() -> GroupVersionResource {
    core("services")
}

pub fn controller_revisions() -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", "controllerrevisions")
}

pub fn daemon_sets() -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", "daemonsets")
}

pub fn deployments() -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", "deployments")
}

pub fn replica_sets() -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", "replicasets")
}

pub fn stateful_sets() -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", "statefulsets")
}

pub fn cron_jobs() -> GroupVersionResource {
    GroupVersionResource::new("batch", "v1", "cronjobs")
}

pub fn jobs() -> GroupVersionResource {
    GroupVersionResource::new("batch", "v1", "jobs")
}

pub fn endpoint_slices() -> GroupVersionResource {
    GroupVersionResource::new("discovery.k8s.io", "v1", "endpointslices")
}

pub fn storage_classes() -> GroupVersionResource {
    GroupVersionResource::new("storage.k8s.io", "v1", "storageclasses")
}

pub fn pod_disruption_budgets() -> GroupVersionResource {
    GroupVersionResource::new("policy", "v1", "poddisruptionbudgets")
}

pub fn leases() -> GroupVersionResource {
    GroupVersionResource::new("coordination.k8s.io", "v1", "leases")
}

pub fn horizontal_pod_autoscalers() -> GroupVersionResource {
    GroupVersionResource::new("autoscaling", "v2", "horizontalpodautoscalers")
}

pub fn pod_metrics() -> GroupVersionResource {
    GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pods")
}

pub fn certificate_signing_requests() -> GroupVersionResource {
    GroupVersionResource::new("certificates.k8s.io", "v1", "certificatesigningrequests")
}

pub fn cluster_roles() -> GroupVersionResource {
    GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "clusterroles")
}

pub fn priority_classes() -> GroupVersionResource {
    GroupVersionResource::new("scheduling.k8s.io", "v1", "priorityclasses")
}

pub fn subject_access_reviews() -> GroupVersionResource {
    GroupVersionResource::new("authorization.k8s.io", "v1", "subjectaccessreviews")
}
