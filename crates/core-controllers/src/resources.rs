//! Objects and request targets built by name.

use cluster_client::ResourceRef;
use object::{GroupVersionKind, GroupVersionResource, Object};
use reconcile::ObjectKey;

pub fn core_object(kind: &str, namespace: &str, name: &str) -> Object {
    Object::new(&GroupVersionKind::new("", "v1", kind), Some(namespace), name)
}

pub fn target(gvr: &GroupVersionResource, key: &ObjectKey) -> ResourceRef {
    match key.namespace.as_str() {
        "" => ResourceRef::cluster(gvr, &key.name),
        namespace => ResourceRef::namespaced(gvr, namespace, &key.name),
    }
}
