//! The Work that carries a template to a member, and the change an existing one needs.

pub mod ownership;
mod prune;
mod targets;

use std::collections::BTreeMap;

use api::cluster::LABEL_MANAGED;
use api::names::{execution_namespace, work_name};
use api::policy::{ANNOTATION_APPLIED_CLUSTER_OVERRIDES, ANNOTATION_APPLIED_OVERRIDES};
use api::work::{
    ANNOTATION_BINDING_NAME, ANNOTATION_BINDING_NAMESPACE, ANNOTATION_CLUSTER_BINDING_NAME,
    ANNOTATION_CONFLICT_RESOLUTION, ANNOTATION_MANAGED_ANNOTATIONS, ANNOTATION_MANAGED_LABELS,
    ANNOTATION_TEMPLATE_GENERATION, ANNOTATION_TEMPLATE_UID, ANNOTATION_WORK_NAME, ANNOTATION_WORK_NAMESPACE,
    BindingSpec, FINALIZER_EXECUTION, LABEL_BINDING_ID, LABEL_CLUSTER_BINDING_ID, LABEL_WORK_ID, WORKS,
};
use object::Object;
use serde_json::{Map, Value, json};

use crate::overrides::Recorded;

pub use crate::works::prune::{prune, prune_server_fields};
pub use crate::works::targets::{
    divide_completions, existing_clusters, is_suspended, preserved_labels, purged_first, set_completions, targets,
};

/// The binding a Work comes from. The namespace of a ClusterResourceBinding is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingRef<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub id: &'a str,
}

impl<'a> BindingRef<'a> {
    pub fn of(binding: &'a Object) -> Self {
        let label = binding_id_label(binding.namespace());
        Self { namespace: binding.namespace(), name: binding.name(), id: binding.label(label).unwrap_or_default() }
    }
}

/// The label with which works name their binding, for bindings in this namespace.
pub fn binding_id_label(namespace: &str) -> &'static str {
    if namespace.is_empty() { LABEL_CLUSTER_BINDING_ID } else { LABEL_BINDING_ID }
}

/// The template as a binding delivers it to one member.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    pub binding: BindingRef<'a>,
    pub spec: &'a BindingSpec,
    pub cluster: &'a str,
    /// The template with its replicas revised and its overrides applied.
    pub manifest: Object,
    pub overrides: Recorded,
    /// Labels a workload takes along when it moves.
    pub preserved_labels: Option<&'a BTreeMap<String, String>>,
}

/// The desired state of a Work; other labels and annotations of an existing one are left alone.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredWork {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Labels and annotations that name a binding of the other scope. An existing Work loses them.
    pub(crate) stale: [&'static [&'static str]; 2],
    /// Added to those of an existing Work.
    pub finalizers: Vec<&'static str>,
    /// Set when the Work is made, never changed afterwards.
    pub owner: Option<Value>,
    pub suspend_dispatching: Option<bool>,
    pub preserve_resources: Option<bool>,
    manifest: Object,
}

/// The write a Work needs.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkChange {
    Unchanged,
    Create(Object),
    /// A merge patch that holds for the version it names only.
    Patch(Value),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    #[error("work {namespace}/{name} is being deleted")]
    BeingDeleted { namespace: String, name: String },
    #[error("work {namespace}/{name} belongs to {owner} and is not taken over")]
    OwnedByOther { namespace: String, name: String, owner: String },
    #[error("work {namespace}/{name} carries another object, {object}, and is not taken over")]
    OtherObject { namespace: String, name: String, object: String },
}

impl DesiredWork {
    /// A Work that carries any object to a member.
    pub fn new(cluster: &str, manifest: Object) -> Self {
        let name = work_name(manifest.kind(), manifest.name(), manifest.namespace());
        Self::named(cluster, name, manifest)
    }

    /// A Work whose name does not follow from the object it carries.
    pub fn named(cluster: &str, name: String, mut manifest: Object) -> Self {
        let namespace = execution_namespace(cluster);
        let uid = manifest.uid().to_owned();
        manifest.set_label(LABEL_MANAGED, "true");
        manifest.set_annotation(ANNOTATION_TEMPLATE_UID, &uid);
        manifest.set_annotation(ANNOTATION_WORK_NAME, &name);
        manifest.set_annotation(ANNOTATION_WORK_NAMESPACE, &namespace);
        prune(&mut manifest);
        Self {
            namespace,
            name,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            stale: [&[], &[]],
            finalizers: vec![FINALIZER_EXECUTION],
            owner: None,
            suspend_dispatching: None,
            preserve_resources: None,
            manifest,
        }
    }

    /// The Work of a binding for one of its members.
    pub fn of_binding(delivery: Delivery<'_>) -> Self {
        let Delivery { binding, spec, cluster, mut manifest, overrides, preserved_labels } = delivery;
        let generation = manifest.generation();
        if generation > 0 {
            manifest.set_annotation(ANNOTATION_TEMPLATE_GENERATION, &generation.to_string());
        }
        let id_label = binding_id_label(binding.namespace);
        let mut annotations = BTreeMap::new();
        if binding.namespace.is_empty() {
            annotations.insert(ANNOTATION_CLUSTER_BINDING_NAME.to_owned(), binding.name.to_owned());
        } else {
            annotations.insert(ANNOTATION_BINDING_NAMESPACE.to_owned(), binding.namespace.to_owned());
            annotations.insert(ANNOTATION_BINDING_NAME.to_owned(), binding.name.to_owned());
        }
        let resolution = conflict_resolution(&manifest, spec);
        annotations.insert(ANNOTATION_CONFLICT_RESOLUTION.to_owned(), resolution.to_owned());
        for (key, value) in &annotations {
            manifest.set_annotation(key, value);
        }
        manifest.set_label(id_label, binding.id);
        for (key, value) in preserved_labels.into_iter().flatten() {
            manifest.set_label(key, value);
        }
        annotations.extend(overrides.cluster.map(|text| (ANNOTATION_APPLIED_CLUSTER_OVERRIDES.to_owned(), text)));
        annotations.extend(overrides.namespaced.map(|text| (ANNOTATION_APPLIED_OVERRIDES.to_owned(), text)));
        Self {
            labels: BTreeMap::from([(id_label.to_owned(), binding.id.to_owned())]),
            annotations,
            stale: match binding.namespace {
                "" => [&[LABEL_BINDING_ID], &[ANNOTATION_BINDING_NAMESPACE, ANNOTATION_BINDING_NAME]],
                _ => [&[LABEL_CLUSTER_BINDING_ID], &[ANNOTATION_CLUSTER_BINDING_NAME]],
            },
            suspend_dispatching: Some(is_suspended(spec, cluster)),
            preserve_resources: Some(spec.preserve_resources_on_deletion.unwrap_or(false)),
            ..Self::new(cluster, manifest)
        }
    }

    /// Returns the write that makes the Work as desired. Fails while an existing one is being deleted.
    pub fn plan(mut self, existing: Option<&Object>) -> Result<WorkChange, WorkError> {
        let Some(existing) = existing else { return Ok(WorkChange::Create(self.into_object())) };
        if existing.is_deleting() {
            return Err(WorkError::BeingDeleted { namespace: self.namespace, name: self.name });
        }
        record_managed(&mut self.manifest, existing.label(LABEL_WORK_ID));
        let mut metadata = Map::new();
        let [stale_labels, stale_annotations] = self.stale;
        put_missing(&mut metadata, "labels", &self.labels, stale_labels, |key| existing.label(key));
        put_missing(&mut metadata, "annotations", &self.annotations, stale_annotations, |key| existing.annotation(key));
        let is_missing = |finalizer: &&str| !existing.has_finalizer(finalizer);
        let missing: Vec<&str> = self.finalizers.iter().copied().filter(is_missing).collect();
        if !missing.is_empty() {
            let finalizers: Vec<&str> = existing.finalizers().chain(missing).collect();
            metadata.insert("finalizers".to_owned(), finalizers.into());
        }
        let mut spec = Map::new();
        if existing.bool_at(&["spec", "suspendDispatching"]) != self.suspend_dispatching {
            spec.insert("suspendDispatching".to_owned(), self.suspend_dispatching.into());
        }
        if existing.bool_at(&["spec", "preserveResourcesOnDeletion"]) != self.preserve_resources {
            spec.insert("preserveResourcesOnDeletion".to_owned(), self.preserve_resources.into());
        }
        let carried = existing.items(&["spec", "workload", "manifests"]);
        if carried.len() != 1 || carried[0].as_object() != Some(self.manifest.as_map()) {
            spec.insert("workload".to_owned(), json!({"manifests": [self.manifest.into_value()]}));
        }
        if metadata.is_empty() && spec.is_empty() {
            return Ok(WorkChange::Unchanged);
        }
        metadata.insert("resourceVersion".to_owned(), existing.resource_version().into());
        metadata.insert("uid".to_owned(), existing.uid().into());
        let mut patch = json!({"metadata": metadata});
        if !spec.is_empty() {
            patch["spec"] = Value::Object(spec);
        }
        Ok(WorkChange::Patch(patch))
    }

    /// A new Work. Its permanent id is given by admission, which then records it in the manifest.
    fn into_object(mut self) -> Object {
        record_managed(&mut self.manifest, self.labels.get(LABEL_WORK_ID).map(String::as_str));
        let mut work = WORKS.object(&self.namespace, &self.name);
        if !self.finalizers.is_empty() {
            work.set(&["metadata", "finalizers"], json!(self.finalizers));
        }
        if !self.labels.is_empty() {
            work.set(&["metadata", "labels"], json!(self.labels));
        }
        if !self.annotations.is_empty() {
            work.set(&["metadata", "annotations"], json!(self.annotations));
        }
        if let Some(owner) = self.owner {
            work.set(&["metadata", "ownerReferences"], vec![owner]);
        }
        if let Some(suspend) = self.suspend_dispatching {
            work.set(&["spec", "suspendDispatching"], suspend);
        }
        if let Some(preserve) = self.preserve_resources {
            work.set(&["spec", "preserveResourcesOnDeletion"], preserve);
        }
        work.set(&["spec", "workload", "manifests"], vec![self.manifest.into_value()]);
        work
    }
}

/// Notes in a manifest which of its annotations and labels are Karmada's, so that one taken away later is also taken
/// away in the member while those of others stay. The id of the Work is itself such a label, but nothing that is noted
/// before it counts it among the annotations.
pub fn record_managed(manifest: &mut Object, work_id: Option<&str>) {
    let own = [ANNOTATION_MANAGED_ANNOTATIONS, ANNOTATION_MANAGED_LABELS];
    let others = manifest.annotations().map(|(key, _)| key).filter(|key| !own.contains(key));
    let mut annotations: Vec<&str> = others.chain(own).collect();
    annotations.sort_unstable();
    let annotations = annotations.join(",");
    manifest.set_annotation(ANNOTATION_MANAGED_ANNOTATIONS, &annotations);
    if let Some(id) = work_id.filter(|id| !id.is_empty()) {
        manifest.set_label(LABEL_WORK_ID, id);
    }
    let mut labels: Vec<&str> = manifest.labels().map(|(key, _)| key).collect();
    labels.sort_unstable();
    let labels = labels.join(",");
    manifest.set_annotation(ANNOTATION_MANAGED_LABELS, &labels);
}

/// Returns the resolution for an object that exists in the member: the template's annotation, then the binding's field.
pub fn conflict_resolution(template: &Object, spec: &BindingSpec) -> &'static str {
    match template.annotation(ANNOTATION_CONFLICT_RESOLUTION) {
        Some("overwrite") => "overwrite",
        Some("abort") => "abort",
        _ if spec.conflict_resolution == "Overwrite" => "overwrite",
        _ => "abort",
    }
}

/// Puts the entries that differ into a patch, and nulls for stale ones that exist.
fn put_missing<'a>(
    patch: &mut Map<String, Value>,
    field: &str,
    wanted: &BTreeMap<String, String>,
    stale: &[&str],
    existing: impl Fn(&str) -> Option<&'a str>,
) {
    let missing = wanted.iter().filter(|(key, value)| existing(key) != Some(value.as_str()));
    let mut missing: Map<String, Value> = missing.map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let stale = stale.iter().filter(|key| existing(key).is_some());
    missing.extend(stale.map(|key| ((*key).to_owned(), Value::Null)));
    if !missing.is_empty() {
        patch.insert(field.to_owned(), Value::Object(missing));
    }
}

#[cfg(test)]
mod tests;
