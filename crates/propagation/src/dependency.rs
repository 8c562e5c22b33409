//! Propagates the dependencies of a template with it, through bindings attached to the template's own.
//!
//! The binding that needs is the dependent, the one that carries what is needed is attached. An attached binding
//! records the bindings that need it, and their clusters, in `spec.requiredBy`; it may be claimed by a policy of its own as well.

use std::fmt;

use api::config::DependentObjectReference;
use api::names::{binding_name, binding_reference_key};
use api::work::{
    ANNOTATION_DEPENDENCIES, BindingSnapshot, FINALIZER_BINDING, LABEL_BINDING_ID, LABEL_DEPENDED_BY_PREFIX,
    ObjectReference, RESOURCE_BINDINGS,
};
use object::Object;
use serde_json::{Value, json};

use crate::binding::{is_of_other_owner, owner_reference, replace, resource_reference};
use crate::claim::remove_entry;

/// Conflict resolution and preservation of a binding's objects. Attached bindings inherit both from their dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// Take over objects that are there already.
    pub overwrites: bool,
    /// Leave the objects in the members when the binding goes.
    pub preserves: bool,
}

/// Two dependents want what they need treated differently; the stronger wish is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreatmentConflict {
    ConflictResolution,
    PreserveOnDeletion,
}

/// The write that attaches a binding.
#[derive(Clone, Debug, PartialEq)]
pub enum Attachment {
    Create(Object),
    Update(Object),
    Unchanged,
    /// It belongs to an earlier object of this name; the garbage collector removes it.
    WaitForCollection,
}

/// The label on attached bindings that stands for a dependent; its value is the dependent's permanent id.
pub fn dependent_label(namespace: &str, name: &str) -> String {
    format!("{LABEL_DEPENDED_BY_PREFIX}{}", binding_reference_key(namespace, name))
}

/// Returns the recorded dependencies of a binding.
pub fn recorded_dependencies(binding: &Object) -> Result<Vec<DependentObjectReference>, serde_json::Error> {
    match binding.annotation(ANNOTATION_DEPENDENCIES) {
        None | Some("") => Ok(Vec::new()),
        // Others write `null` where nothing is needed.
        Some(text) => serde_json::from_str::<Option<_>>(text).map(Option::unwrap_or_default),
    }
}

/// The text under which dependencies are recorded on a binding.
pub fn dependencies_text(dependencies: &[DependentObjectReference]) -> String {
    serde_json::to_string(dependencies).expect("plain data encodes to memory")
}

/// Does the reference mean an object that is called so and has these labels? `None` as labels means there is no such
/// object, which no label selector means.
pub fn refers_to(reference: &DependentObjectReference, target: &ObjectReference, object: Option<&Object>) -> bool {
    let is_of_kind = reference.api_version == target.api_version
        && reference.kind == target.kind
        && reference.namespace == target.namespace;
    if !is_of_kind {
        return false;
    }
    if !reference.name.is_empty() {
        return reference.name == target.name;
    }
    let selector = reference.label_selector.as_ref().and_then(|selector| selector.compile().ok());
    selector.is_some_and(|selector| object.is_some_and(|object| selector.matches(object)))
}

/// Splits dependencies into those of a namespace and the others, which are refused: the template that names them may be
/// written by users without permission to read them.
pub fn split_by_namespace(
    dependencies: Vec<DependentObjectReference>,
    namespace: &str,
) -> (Vec<DependentObjectReference>, Vec<DependentObjectReference>) {
    dependencies.into_iter().partition(|dependency| dependency.namespace == namespace)
}

/// The binding that carries an object the dependent needs, were there none. It is in the namespace of the dependent.
pub fn attached_binding(dependent: &Object, needed: &Object) -> Object {
    let name = binding_name(needed.kind(), needed.name());
    let mut binding = RESOURCE_BINDINGS.object(dependent.namespace(), &name);
    let id = dependent.label(LABEL_BINDING_ID).unwrap_or_default();
    binding.set_label(&dependent_label(dependent.namespace(), dependent.name()), id);
    binding.set(&["metadata", "finalizers"], json!([FINALIZER_BINDING]));
    binding.set(&["metadata", "ownerReferences"], json!([owner_reference(needed)]));
    binding.set(&["spec", "resource"], resource_reference(needed));
    binding.set(&["spec", "requiredBy"], json!([snapshot_of(dependent)]));
    binding
}

/// Plans the attachment of a binding. `treatment_of` returns the treatment a dependent requests;
/// dependents that are gone have no say.
pub fn plan_attachment(
    attached: Object,
    existing: Option<&Object>,
    treatment_of: impl Fn(&BindingSnapshot) -> Option<Treatment>,
) -> (Attachment, Vec<TreatmentConflict>) {
    if existing.is_some_and(|existing| is_of_other_owner(existing, &attached)) {
        return (Attachment::WaitForCollection, Vec::new());
    }
    let mut merged = existing.unwrap_or(&attached).clone();
    for (key, value) in attached.labels() {
        merged.set_label(key, value);
    }
    replace(&mut merged, &attached, &["spec", "resource"]);
    let snapshots = merge_snapshots(merged.items(&["spec", "requiredBy"]), attached.items(&["spec", "requiredBy"]));
    let conflicts = treat(&mut merged, &snapshots, treatment_of);
    merged.set(&["spec", "requiredBy"], snapshots);
    let attachment = match existing {
        None => Attachment::Create(merged),
        Some(existing) if *existing == merged => Attachment::Unchanged,
        Some(_) => Attachment::Update(merged),
    };
    (attachment, conflicts)
}

/// The attached binding as it is once the dependent no longer needs what it carries.
pub fn detached(
    attached: &Object,
    dependent_namespace: &str,
    dependent_name: &str,
    treatment_of: impl Fn(&BindingSnapshot) -> Option<Treatment>,
) -> Object {
    let mut binding = attached.clone();
    remove_entry(&mut binding, "labels", &dependent_label(dependent_namespace, dependent_name));
    let kept = attached.items(&["spec", "requiredBy"]).iter();
    let kept: Vec<Value> =
        kept.filter(|snapshot| !is_of(snapshot, dependent_namespace, dependent_name)).cloned().collect();
    if kept.is_empty() {
        binding.remove(&["spec", "requiredBy"]);
        if is_only_attached(attached) {
            binding.remove(&["spec", "conflictResolution"]);
            binding.remove(&["spec", "preserveResourcesOnDeletion"]);
        }
    } else {
        treat(&mut binding, &kept, treatment_of);
        binding.set(&["spec", "requiredBy"], kept);
    }
    binding
}

/// Is the binding there only because others need what it carries? One with a placement was claimed by a policy, which
/// says how things are treated.
pub fn is_only_attached(binding: &Object) -> bool {
    binding.get(&["spec", "placement"]).is_none_or(Value::is_null)
}

/// Returns the treatment a binding requests for its objects.
pub fn treatment(binding: &Object) -> Treatment {
    Treatment {
        overwrites: binding.str_at(&["spec", "conflictResolution"]) == "Overwrite",
        preserves: binding.bool_at(&["spec", "preserveResourcesOnDeletion"]).unwrap_or(false),
    }
}

/// Sets how a binding that is only attached is treated: as the strongest wish of its dependents.
fn treat(
    binding: &mut Object,
    snapshots: &[Value],
    treatment_of: impl Fn(&BindingSnapshot) -> Option<Treatment>,
) -> Vec<TreatmentConflict> {
    if !is_only_attached(binding) {
        return Vec::new();
    }
    let snapshots = snapshots.iter().filter_map(|snapshot| serde_json::from_value(snapshot.clone()).ok());
    let wishes: Vec<Treatment> = snapshots.filter_map(|snapshot| treatment_of(&snapshot)).collect();
    let overwriting = wishes.iter().filter(|wish| wish.overwrites).count();
    let preserving = wishes.iter().filter(|wish| wish.preserves).count();
    let resolution = if overwriting > 0 { "Overwrite" } else { "Abort" };
    binding.set(&["spec", "conflictResolution"], resolution);
    binding.set(&["spec", "preserveResourcesOnDeletion"], preserving > 0);
    let is_mixed = |number: usize| number > 0 && number < wishes.len();
    let mut conflicts = Vec::new();
    if is_mixed(overwriting) {
        conflicts.push(TreatmentConflict::ConflictResolution);
    }
    if is_mixed(preserving) {
        conflicts.push(TreatmentConflict::PreserveOnDeletion);
    }
    conflicts
}

fn snapshot_of(dependent: &Object) -> Value {
    let mut snapshot = json!({"namespace": dependent.namespace(), "name": dependent.name()});
    if let Some(clusters) = dependent.get(&["spec", "clusters"]).filter(|clusters| !clusters.is_null()) {
        snapshot["clusters"] = clusters.clone();
    }
    snapshot
}

/// One snapshot per dependent, in the order they came; the newer clusters count.
fn merge_snapshots(existing: &[Value], newer: &[Value]) -> Vec<Value> {
    let mut merged = existing.to_vec();
    for snapshot in newer {
        let (namespace, name) = identity(snapshot);
        match merged.iter_mut().find(|known| is_of(known, namespace, name)) {
            Some(known) => *known = snapshot.clone(),
            None => merged.push(snapshot.clone()),
        }
    }
    merged
}

fn identity(snapshot: &Value) -> (&str, &str) {
    (snapshot["namespace"].as_str().unwrap_or_default(), snapshot["name"].as_str().unwrap_or_default())
}

fn is_of(snapshot: &Value, namespace: &str, name: &str) -> bool {
    identity(snapshot) == (namespace, name)
}

impl fmt::Display for TreatmentConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConflictResolution => "ConflictResolution conflicted (Overwrite vs Abort)",
            Self::PreserveOnDeletion => "PreserveResourcesOnDeletion conflicted (true vs false)",
        })
    }
}

#[cfg(test)]
mod tests;
