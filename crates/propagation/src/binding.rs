//! The binding of a template: what it must say of the template and its policy, and what that changes in one that exists.
//!
//! ResourceBinding and ClusterResourceBinding share this code; `Twin` holds all that differs.

use api::Resource;
use api::features::Features;
use api::names::binding_name;
use api::policy::{PolicySchedulePriority, WorkloadAffinity};
use api::work::{
    CLUSTER_RESOURCE_BINDINGS, Component, FINALIZER_BINDING, FINALIZER_CLUSTER_BINDING, LABEL_BINDING_ID,
    LABEL_CLUSTER_BINDING_ID, RESOURCE_BINDINGS, ReplicaRequirements,
};
use object::{Object, Status};
use serde_json::{Map, Value, json};

use crate::claim::{claim, unclaim};
use crate::policy::{Policy, Scope};

/// The scope of a template's binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Twin {
    /// ResourceBinding, for namespaced templates.
    Namespaced,
    /// ClusterResourceBinding, for all others.
    Cluster,
}

/// The replicas or components of a template, as the interpreter reports them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Interpreted {
    /// It has no replicas, or its kind has no interpreter for them.
    #[default]
    Nothing,
    Replicas(i32, Option<ReplicaRequirements>),
    Components(Vec<Component>),
}

/// Everything a binding is made of.
pub struct BindingInputs<'a> {
    /// As the API has it after it was claimed: the binding records its version.
    pub template: &'a Object,
    pub policy: &'a Policy,
    pub interpreted: Interpreted,
    /// The value of the class that `wanted_priority_class` names.
    pub schedule_priority: Option<i64>,
    pub features: &'a Features,
}

/// The write a binding needs.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingPlan {
    Create(Object),
    /// The whole object as it should be, and which parts differ.
    Update(Object, Vec<&'static str>),
    Unchanged,
    /// It is on its way out; another can be made once it is gone.
    WaitForDeletion,
    /// It belongs to an earlier template of this name; the garbage collector removes it.
    WaitForCollection,
}

/// The difference of a binding whose template got a new version and nothing else.
pub const ONLY_VERSION: &[&str] = &["spec.resource.resourceVersion"];

/// Parts of the spec that follow template and policy, on both twins.
const FOLLOWED: &[(&str, &str)] = &[
    ("replicaRequirements", "spec.replicaRequirements"),
    ("replicas", "spec.replicas"),
    ("components", "spec.components"),
    ("schedulerName", "spec.schedulerName"),
    ("placement", "spec.placement"),
    ("failover", "spec.failover"),
    ("conflictResolution", "spec.conflictResolution"),
    ("preserveResourcesOnDeletion", "spec.preserveResourcesOnDeletion"),
];

/// Parts that a ResourceBinding follows too; a ClusterResourceBinding keeps what it was made with, as in Karmada.
const FOLLOWED_NAMESPACED: &[(&str, &str)] = &[
    ("propagateDeps", "spec.propagateDeps"),
    ("schedulePriority", "spec.schedulePriority"),
    ("workloadAffinityGroups", "spec.workloadAffinityGroups"),
];

impl Twin {
    /// The twin for templates of a namespace, which is empty for cluster-wide ones.
    pub fn of(namespace: &str) -> Self {
        if namespace.is_empty() { Self::Cluster } else { Self::Namespaced }
    }

    pub fn resource(self) -> Resource {
        match self {
            Self::Namespaced => RESOURCE_BINDINGS,
            Self::Cluster => CLUSTER_RESOURCE_BINDINGS,
        }
    }

    /// Holds a binding until its works are gone.
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced => FINALIZER_BINDING,
            Self::Cluster => FINALIZER_CLUSTER_BINDING,
        }
    }

    pub fn id_label(self) -> &'static str {
        match self {
            Self::Namespaced => LABEL_BINDING_ID,
            Self::Cluster => LABEL_CLUSTER_BINDING_ID,
        }
    }

    fn followed(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let more = if self == Self::Namespaced { FOLLOWED_NAMESPACED } else { &[] };
        FOLLOWED.iter().chain(more)
    }
}

/// The priority class a policy wants its templates scheduled by, where the gate is on.
pub fn wanted_priority_class(policy: &Policy, features: &Features) -> Result<Option<String>, Status> {
    if !features.priority_based_scheduling {
        return Ok(None);
    }
    let wanted: Option<PolicySchedulePriority> = api::read_at(&policy.object, &["spec", "schedulePriority"])?;
    let Some(wanted) = wanted else { return Ok(None) };
    match wanted.priority_class_source.as_str() {
        "KubePriorityClass" => Ok(Some(wanted.priority_class_name)),
        source @ ("PodPriorityClass" | "FederatedPriorityClass") => {
            Err(Status::bad_request(format!("priority class source is {source}, but {source} is not supported yet")))
        }
        _ => Err(Status::bad_request("unsupported priority class source")),
    }
}

/// The binding a template should have, were there none.
pub fn desired_binding(inputs: &BindingInputs<'_>) -> Object {
    let BindingInputs { template, policy, features, .. } = inputs;
    let twin = Twin::of(template.namespace());
    let mut binding = twin.resource().object(template.namespace(), &binding_name(template.kind(), template.name()));
    claim(&mut binding, policy);
    binding.set(&["metadata", "finalizers"], json!([twin.finalizer()]));
    binding.set(&["metadata", "ownerReferences"], json!([owner_reference(template)]));
    let mut spec = Map::new();
    spec.insert("resource".into(), resource_reference(template));
    spec.insert("placement".into(), policy_field(policy, "placement").unwrap_or_else(|| json!({})));
    for field in ["schedulerName", "failover", "conflictResolution", "preserveResourcesOnDeletion", "suspension"] {
        insert(&mut spec, field, policy_field(policy, field));
    }
    // Said only when true: a binding that does not is the same.
    insert(&mut spec, "propagateDeps", policy_field(policy, "propagateDeps").filter(|value| value == true));
    insert_interpreted(&mut spec, inputs);
    if twin == Twin::Namespaced {
        insert(&mut spec, "schedulePriority", inputs.schedule_priority.map(|priority| json!({"priority": priority})));
        if features.workload_affinity {
            insert(&mut spec, "workloadAffinityGroups", affinity_groups(template, policy));
        }
    }
    binding.set(&["spec"], spec);
    binding
}

fn insert_interpreted(spec: &mut Map<String, Value>, inputs: &BindingInputs<'_>) {
    match &inputs.interpreted {
        Interpreted::Nothing => {}
        Interpreted::Components(components) => {
            insert(spec, "components", Some(json!(components)).filter(|_| !components.is_empty()));
        }
        Interpreted::Replicas(replicas, requirements) => {
            insert(spec, "replicas", Some(json!(replicas)).filter(|_| *replicas != 0));
            let mut requirements = requirements.clone();
            // Pod templates name no namespace, and a quota is one of a namespace.
            if let Some(requirements) = &mut requirements
                && inputs.features.resource_quota_estimate
                && requirements.namespace.is_empty()
            {
                requirements.namespace = inputs.template.namespace().to_owned();
            }
            insert(spec, "replicaRequirements", requirements.map(|requirements| json!(requirements)));
        }
    }
}

/// Plans the change from the existing binding to the desired one. Only fields that follow template and policy are
/// changed: never the clusters, eviction tasks, dependents or the time of rescheduling.
pub fn plan_binding(desired: Object, existing: Option<&Object>, policy: &Policy) -> BindingPlan {
    let Some(existing) = existing else { return BindingPlan::Create(desired) };
    if is_of_other_owner(existing, &desired) {
        return BindingPlan::WaitForCollection;
    }
    if existing.is_deleting() {
        return BindingPlan::WaitForDeletion;
    }
    let differences = differences(&desired, existing, policy);
    if differences.is_empty() {
        return BindingPlan::Unchanged;
    }
    BindingPlan::Update(merged(&desired, existing, policy), differences)
}

/// Is there nothing to write? Answers without copying anything.
pub fn is_as_desired(desired: &Object, existing: &Object, policy: &Policy) -> bool {
    !is_of_other_owner(existing, desired)
        && !existing.is_deleting()
        && differences(desired, existing, policy).is_empty()
}

/// Does the binding belong to another object than the desired one would?
pub fn is_of_other_owner(existing: &Object, desired: &Object) -> bool {
    let controller = |object: &Object| object.owner_references().into_iter().find(|owner| owner.controller);
    controller(existing).is_some_and(|owner| controller(desired).is_some_and(|wanted| wanted.uid != owner.uid))
}

fn differences(desired: &Object, existing: &Object, policy: &Policy) -> Vec<&'static str> {
    let mut differences = Vec::new();
    let must_lose_claim = policy.scope() == Scope::Namespaced && existing.label(Scope::Cluster.id_label()).is_some();
    if must_lose_claim || desired.labels().any(|(key, value)| existing.label(key) != Some(value)) {
        differences.push("metadata.labels");
    }
    if desired.annotations().any(|(key, value)| existing.annotation(key) != Some(value)) {
        differences.push("metadata.annotations");
    }
    if desired.finalizers().any(|finalizer| !existing.has_finalizer(finalizer)) {
        differences.push("metadata.finalizers");
    }
    let owners = ["metadata", "ownerReferences"];
    if existing.get(&owners) != desired.get(&owners) {
        differences.push("metadata.ownerReferences");
    }
    differences.extend(resource_difference(desired, existing));
    for (field, name) in Twin::of(existing.namespace()).followed() {
        if present(existing.get(&["spec", field])) != desired.get(&["spec", field]) {
            differences.push(name);
        }
    }
    let suspension = present(existing.get(&["spec", "suspension"]));
    if suspension != merged_suspension(suspension, policy).as_ref() {
        differences.push("spec.suspension");
    }
    differences
}

fn resource_difference(desired: &Object, existing: &Object) -> Option<&'static str> {
    let (Some(Value::Object(new)), old) = (desired.get(&["spec", "resource"]), existing.get(&["spec", "resource"]))
    else {
        return None;
    };
    let Some(old) = old.and_then(Value::as_object) else { return Some("spec.resource") };
    let has_all_else = new.iter().all(|(key, value)| key == "resourceVersion" || old.get(key) == Some(value));
    if !has_all_else || old.keys().any(|key| !new.contains_key(key)) {
        return Some("spec.resource");
    }
    (old.get("resourceVersion") != new.get("resourceVersion")).then_some(ONLY_VERSION[0])
}

fn merged(desired: &Object, existing: &Object, policy: &Policy) -> Object {
    let mut merged = existing.clone();
    if policy.scope() == Scope::Namespaced && existing.label(Scope::Cluster.id_label()).is_some() {
        unclaim(&mut merged, Scope::Cluster);
    }
    for (key, value) in desired.labels() {
        merged.set_label(key, value);
    }
    for (key, value) in desired.annotations() {
        merged.set_annotation(key, value);
    }
    for finalizer in desired.finalizers() {
        merged.add_finalizer(finalizer);
    }
    replace(&mut merged, desired, &["metadata", "ownerReferences"]);
    replace(&mut merged, desired, &["spec", "resource"]);
    for (field, _) in Twin::of(existing.namespace()).followed() {
        replace(&mut merged, desired, &["spec", field]);
    }
    match merged_suspension(present(existing.get(&["spec", "suspension"])), policy) {
        Some(suspension) => merged.set(&["spec", "suspension"], suspension),
        None => drop(merged.remove(&["spec", "suspension"])),
    }
    merged
}

/// Dispatching follows the policy; whether scheduling is suspended is said on the binding and stays.
fn merged_suspension(existing: Option<&Value>, policy: &Policy) -> Option<Value> {
    let scheduling = present(existing.and_then(|suspension| suspension.get("scheduling")));
    let wanted = policy_field(policy, "suspension");
    if wanted.is_none() && scheduling.is_none() {
        return None;
    }
    let mut merged = match wanted {
        Some(Value::Object(wanted)) => wanted,
        _ => Map::new(),
    };
    if let Some(scheduling) = scheduling {
        merged.insert("scheduling".into(), scheduling.clone());
    }
    Some(Value::Object(merged))
}

/// The groups a template is kept together with and apart from, by its labels.
fn affinity_groups(template: &Object, policy: &Policy) -> Option<Value> {
    let wanted = policy.object.get(&["spec", "placement", "workloadAffinity"])?;
    let wanted: WorkloadAffinity = serde::Deserialize::deserialize(wanted).ok()?;
    let group = |key: &str| Some(format!("{key}={}", template.label(key)?));
    let mut groups = Map::new();
    let affinity = wanted.affinity.and_then(|term| group(&term.group_by_label_key));
    insert(&mut groups, "affinityGroup", affinity.map(Value::from));
    let anti_affinity = wanted.anti_affinity.and_then(|term| group(&term.group_by_label_key));
    insert(&mut groups, "antiAffinityGroup", anti_affinity.map(Value::from));
    (!groups.is_empty()).then_some(Value::Object(groups))
}

/// The template as a binding names it.
pub(crate) fn resource_reference(template: &Object) -> Value {
    let mut reference = Map::new();
    reference.insert("apiVersion".into(), template.api_version().into());
    reference.insert("kind".into(), template.kind().into());
    let namespace = template.namespace();
    insert(&mut reference, "namespace", (!namespace.is_empty()).then(|| namespace.into()));
    reference.insert("name".into(), template.name().into());
    reference.insert("uid".into(), template.uid().into());
    reference.insert("resourceVersion".into(), template.resource_version().into());
    Value::Object(reference)
}

/// The template as the owner of its binding, which the garbage collector removes after it.
pub(crate) fn owner_reference(template: &Object) -> Value {
    json!({"apiVersion": template.api_version(), "kind": template.kind(), "name": template.name(),
        "uid": template.uid(), "controller": true, "blockOwnerDeletion": true})
}

fn policy_field(policy: &Policy, field: &str) -> Option<Value> {
    present(policy.object.get(&["spec", field])).cloned()
}

/// Null and absent are the same.
fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn insert(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

pub(crate) fn replace(target: &mut Object, source: &Object, path: &[&str]) {
    match source.get(path) {
        Some(value) => target.set(path, value.clone()),
        None => drop(target.remove(path)),
    }
}

#[cfg(test)]
mod tests;
