//! The resources used by the controllers.

use object::GroupVersionResource;

fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

fn apps(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", resource)
}

fn batch(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("batch", "v1", resource)
}

pub fn pods() -> GroupVersionResource {
    core("pods")
}

pub fn nodes() -> GroupVersionResource {
    core("nodes")
}

pub fn claims() -> GroupVersionResource {
    core("persistentvolumeclaims")
}

pub fn replication_controllers() -> GroupVersionResource {
    core("replicationcontrollers")
}

pub fn deployments() -> GroupVersionResource {
    apps("deployments")
}

pub fn replica_sets() -> GroupVersionResource {
    apps("replicasets")
}

pub fn stateful_sets() -> GroupVersionResource {
    apps("statefulsets")
}

pub fn daemon_sets() -> GroupVersionResource {
    apps("daemonsets")
}

pub fn revisions() -> GroupVersionResource {
    apps("controllerrevisions")
}

pub fn jobs() -> GroupVersionResource {
    batch("jobs")
}

pub fn cron_jobs() -> GroupVersionResource {
    batch("cronjobs")
}
