//! The binding a Work belongs to, and whether another binding may take the Work over.

use api::names::{cluster_of_execution_namespace, work_name};
use api::policy::ANNOTATION_APPLIED_CLUSTER_OVERRIDES;
use api::work::{
    ANNOTATION_BINDING_NAME, ANNOTATION_BINDING_NAMESPACE, ANNOTATION_CLUSTER_BINDING_NAME, LABEL_BINDING_ID,
    LABEL_CLUSTER_BINDING_ID,
};
use object::{GroupVersion, Object};
use serde_json::Value;

use crate::works::{BindingRef, WorkError, binding_id_label};

/// The bindings a Work names, by its annotations and labels: one of either scope at most.
pub fn named_bindings(work: &Object) -> Vec<BindingRef<'_>> {
    let label = |key| work.label(key).unwrap_or_default();
    let mut named = Vec::new();
    if let (Some(namespace), Some(name)) =
        (work.annotation(ANNOTATION_BINDING_NAMESPACE), work.annotation(ANNOTATION_BINDING_NAME))
    {
        named.push(BindingRef { namespace, name, id: label(LABEL_BINDING_ID) });
    }
    if let Some(name) = work.annotation(ANNOTATION_CLUSTER_BINDING_NAME) {
        named.push(BindingRef { namespace: "", name, id: label(LABEL_CLUSTER_BINDING_ID) });
    }
    named
}

/// Reports whether the binding made this Work. The id alone does not say so: any user that may write bindings may write
/// any id into one.
pub fn is_made_by(work: &Object, binding: BindingRef<'_>) -> bool {
    let is_named = || named_bindings(work).contains(&binding);
    // Overrides of the whole cluster may change anything, namespaces included.
    let is_renamed = || work.annotation(ANNOTATION_APPLIED_CLUSTER_OVERRIDES).is_some();
    let namespace_of = |manifest: &Value| manifest["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let manifests = work.items(&["spec", "workload", "manifests"]);
    !binding.id.is_empty()
        && work.label(binding_id_label(binding.namespace)) == Some(binding.id)
        && cluster_of_execution_namespace(work.namespace()).is_some()
        && is_named()
        && (manifests.iter().all(|manifest| namespace_of(manifest) == binding.namespace) || is_renamed())
}

/// Reports whether a binding that a Work names still stands behind it: it has the id, and the Work carries its template.
pub fn stands_behind(binding: &Object, named: BindingRef<'_>, work: &Object) -> bool {
    let resource = |field: &str| binding.str_at(&["spec", "resource", field]);
    BindingRef::of(binding) == named
        && work.name() == work_name(resource("kind"), resource("name"), resource("namespace"))
}

/// Refuses to overwrite a Work that carries another object under the same name.
pub fn check_same_object(work: &Object, template: &Object) -> Result<(), WorkError> {
    let identity = |manifest: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&manifest["apiVersion"]);
        let group = GroupVersion::parse(&version).unwrap_or_default().group;
        [group, text(&manifest["kind"]), text(&manifest["metadata"]["namespace"]), text(&manifest["metadata"]["name"])]
    };
    let gvk = template.gvk();
    let [namespace, name] = [template.namespace(), template.name()].map(str::to_owned);
    let wanted = [gvk.group, gvk.kind, namespace, name];
    let other = work.items(&["spec", "workload", "manifests"]).iter().map(identity).find(|found| *found != wanted);
    match other {
        Some([_, kind, namespace, name]) => Err(WorkError::OtherObject {
            namespace: work.namespace().to_owned(),
            name: work.name().to_owned(),
            object: if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") },
        }),
        None => Ok(()),
    }
}
