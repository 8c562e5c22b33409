//! Bindings of either scope by one key: a ResourceBinding has a namespace, a ClusterResourceBinding has none.

use std::sync::Arc;

use api::Resource;
use api::work::{
    CLUSTER_RESOURCE_BINDINGS, FINALIZER_BINDING, FINALIZER_CLUSTER_BINDING, LABEL_BINDING_ID,
    LABEL_CLUSTER_BINDING_ID, ObjectReference, RESOURCE_BINDINGS,
};
use object::Object;
use propagation::binding_scope::{ScopeError, check_propagated};
use propagation::works::BindingRef;
use propagation::works::ownership::{is_made_by, named_bindings};
use reconcile::{Mirror, ObjectKey, Recorder, Regarding};
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;

pub fn mirror_of<'a>(plane: &'a Plane, key: &ObjectKey) -> &'a Mirror {
    if key.namespace.is_empty() { &plane.cluster_bindings } else { &plane.bindings }
}

pub fn resource_of(key: &ObjectKey) -> Resource {
    if key.namespace.is_empty() { CLUSTER_RESOURCE_BINDINGS } else { RESOURCE_BINDINGS }
}

pub fn finalizer_of(key: &ObjectKey) -> &'static str {
    if key.namespace.is_empty() { FINALIZER_CLUSTER_BINDING } else { FINALIZER_BINDING }
}

/// As events name a binding: `ResourceBinding(default/nginx-deployment)`.
pub fn title(key: &ObjectKey) -> String {
    format!("{}({key})", resource_of(key).kind)
}

/// The binding a work comes from, where it comes from one.
pub fn binding_of_work(work: &Object) -> Option<ObjectKey> {
    named_bindings(work).first().map(|named| ObjectKey::new(named.namespace, named.name))
}

/// The works a mirror shows for a binding: those it made. A binding without an id has none.
pub fn works_of(plane: &Plane, binding: BindingRef<'_>) -> Vec<Arc<Object>> {
    if binding.id.is_empty() {
        return Vec::new();
    }
    let mut works = plane.works_by_binding.list(binding.id);
    works.retain(|work| is_made_by(work, binding));
    works
}

/// Refuses bindings that reach beyond their own scope, stored ones included, and those of namespaces that are not
/// propagated.
pub fn check_scope(plane: &Plane, binding: &Object) -> Result<(), ScopeError> {
    check_propagated(binding, &plane.settings.skipped_namespaces)
}

pub fn binding_ids(work: &Object) -> Vec<String> {
    let labels = [LABEL_BINDING_ID, LABEL_CLUSTER_BINDING_ID];
    let ids = labels.into_iter().filter_map(|label| work.label(label)).filter(|id| !id.is_empty());
    ids.map(str::to_owned).collect()
}

pub fn template_kind(binding: &Object) -> Vec<String> {
    let reference = |field: &str| binding.str_at(&["spec", "resource", field]);
    vec![kind_key(reference("apiVersion"), reference("kind"))]
}

pub fn kind_key(api_version: &str, kind: &str) -> String {
    format!("{api_version}|{kind}")
}

/// The template as events name it.
pub fn template_of(reference: &ObjectReference) -> Regarding {
    Regarding {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        namespace: reference.namespace.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
    }
}

/// Event recorders of the controllers of both scopes, which have different names in Karmada.
pub struct Recorders {
    namespaced: Recorder,
    cluster: Recorder,
}

impl Recorders {
    pub fn start(plane: &Plane, namespaced: &'static str, cluster: &'static str, cancel: &CancellationToken) -> Self {
        let start = |name| Recorder::start(plane.client.clone(), name, Arc::clone(&plane.clock), cancel.clone());
        Self { namespaced: start(namespaced), cluster: start(cluster) }
    }

    pub fn of(&self, key: &ObjectKey) -> &Recorder {
        if key.namespace.is_empty() { &self.cluster } else { &self.namespaced }
    }
}
