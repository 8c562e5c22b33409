//! The resources used by the controllers.

use cluster_client::ResourceRef;
use object::{GroupVersionKind, GroupVersionResource, Object};
use reconcile::ObjectKey;
use serde_json::Value;

pub fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

pub fn signing_requests() -> GroupVersionResource {
    GroupVersionResource::new("certificates.k8s.io", "v1", "certificatesigningrequests")
}

pub fn cluster_roles() -> GroupVersionResource {
    GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "clusterroles")
}

pub fn jobs() -> GroupVersionResource {
    GroupVersionResource::new("batch", "v1", "jobs")
}

pub fn core_object(kind: &str, namespace: &str, name: &str) -> Object {
    Object::new(&GroupVersionKind::new("", "v1", kind), Some(namespace), name)
}

pub fn target(gvr: &GroupVersionResource, key: &ObjectKey) -> ResourceRef {
    match key.namespace.as_str() {
        "" => ResourceRef::cluster(gvr, &key.name),
        namespace => ResourceRef::namespaced(gvr, namespace, &key.name),
    }
}

/// Returns the condition of that type, if present.
pub fn condition<'a>(object: &'a Object, condition_type: &str) -> Option<&'a Value> {
    object.items(&["status", "conditions"]).iter().find(|c| c["type"] == condition_type)
}
