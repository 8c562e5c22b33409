//! The prediction for one template: its policy, its members, and the changes in each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::ClusterSpec;
use api::features::Features;
use api::policy::ANNOTATION_APPLIED_PLACEMENT;
use api::work::{BindingSpec, BindingStatus, TargetCluster};
use interpreter::question::{Components, Replicas, ReviseReplicas};
use interpreter::{Interpreter, Operation, WebhookAnswer};
use interpreter_runtime::CurrentInterpreter;
use jiff::Timestamp;
use object::{Object, Status};
use propagation::binding::{BindingInputs, BindingPlan, Interpreted, desired_binding, plan_binding};
use propagation::claim::{Decision, decide};
use propagation::overrides::{self, Member};
use propagation::policy::Policy;
use propagation::policy_choice::explain_choice;
use propagation::policy_index::PolicyIndex;
use propagation::works::{BindingRef, Delivery, DesiredWork, WorkChange, targets};
use scheduler::{ClusterSnapshot, Explanation, Peers, Request, SchedulerOptions, explain, need};
use serde::Serialize;
use serde_json::Value;

use crate::gather::{Explainer, Overrides};
use crate::reason::Reason;
use crate::scheduling;
use crate::why::placement::clusters_missing;
use crate::why::policy;

/// Changed fields listed one by one.
const FIELDS_MAX: usize = 10;

/// The inputs of all decisions, as they would be.
pub struct PredictedState {
    pub policies: PolicyIndex,
    pub overrides: Overrides,
    pub clusters: Vec<Arc<Object>>,
    pub snapshot: ClusterSnapshot,
    /// The caller may read Works, so that the objects of members can be shown before and after.
    pub shows_manifests: bool,
}

/// An object of a member before and after a change; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestChange {
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// The predicted change of the template in one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    pub cluster: String,
    pub what: What,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_before: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_after: Option<i32>,
    /// Fields that would differ, by their path in the manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The reason why it would fail.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// The object itself, if it changes and the caller may read it. Values of Secrets are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum What {
    Place,
    Change,
    Keep,
    Remove,
}

/// The prediction for a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// The policy that would apply.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    pub actions: Vec<Action>,
    /// The obstacle, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub problem: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Facts the user should know that stop nothing, such as clusters without capacity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Prediction {
    fn problem(text: impl Into<String>) -> Self {
        Self { problem: text.into(), ..Self::default() }
    }

    /// Size of the objects of members in it.
    pub fn manifest_bytes(&self) -> usize {
        let size = |manifest: &Option<Value>| manifest.as_ref().map_or(0, |manifest| manifest.to_string().len());
        let changes = self.actions.iter().filter_map(|action| action.manifest.as_ref());
        changes.map(|change| size(&change.before) + size(&change.after)).sum()
    }

    pub fn drop_manifests(&mut self) {
        self.actions.iter_mut().for_each(|action| action.manifest = None);
    }

    /// Returns true if it can be placed, and delivered to every cluster.
    pub fn is_ok(&self) -> bool {
        self.problem.is_empty() && self.actions.iter().all(|action| action.problem.is_empty())
    }
}

impl Explainer {
    /// Runs a template through every decision without writing anything.
    pub(crate) async fn foresee(&self, world: &PredictedState, template: &Object) -> Result<Prediction, Status> {
        if let Some(stage) = policy::exempt(&self.parts.rules, template) {
            return Ok(Prediction { notes: vec![stage.summary], ..Prediction::default() });
        }
        let policy = match decide(&world.policies, template) {
            Decision::Apply(policy) => policy,
            other => return Ok(self.unpropagated(&other, world, template)),
        };
        let existing = self.binding(template).await?;
        let interpreter = self.parts.interpreter.load();
        let interpreted = match interpret(&interpreter, &self.parts.features, template).await {
            Ok(interpreted) => interpreted,
            Err(problem) => return Ok(Prediction { policy: policy.display_name(), ..Prediction::problem(problem) }),
        };
        let binding = match bind(template, &policy, interpreted, existing.as_deref(), &self.parts.features) {
            Ok(binding) => binding,
            Err(problem) => return Ok(Prediction { policy: policy.display_name(), ..Prediction::problem(problem) }),
        };
        let before = match &existing {
            Some(binding) => targets(&api::read(binding)?),
            None => Vec::new(),
        };
        let mut spec: BindingSpec = api::read(&binding)?;
        let status: BindingStatus = match &existing {
            Some(existing) => api::read_at(existing, &["status"])?,
            None => BindingStatus::default(),
        };
        let mut outcome = Prediction { policy: policy.display_name(), ..Prediction::default() };
        self.schedule(world, &binding, &mut spec, &status, &mut outcome);
        if let Some(Reason::ClustersMissing { names, .. }) =
            spec.placement.as_ref().and_then(|placement| clusters_missing(placement, &world.clusters))
        {
            outcome.notes.push(format!("the policy names clusters that do not exist: {}", names.join(", ")));
        }
        let numbers = targets(&spec).iter().filter(|_| spec.is_workload()).map(|target| target.replicas).collect();
        let revisions = interpreter.fetch_revisions(template, numbers).await;
        let interpreted =
            InterpretedTemplate { template, rules: &interpreter.rules, revisions, now: interpreter.now() };
        for target in targets(&spec) {
            let action = self.deliver(world, &interpreted, &binding, &spec, &target, &before).await?;
            outcome.actions.push(action);
        }
        for old in before.iter().filter(|old| !targets(&spec).iter().any(|new| new.name == old.name)) {
            let mut action = Action::new(&old.name, What::Remove);
            action.replicas_before = Some(old.replicas).filter(|replicas| *replicas > 0);
            if world.shows_manifests
                && let Some(work) = self.work(&old.name, template).await?
            {
                action.manifest = Some(ManifestChange::of(first_manifest(&work), None));
            }
            outcome.actions.push(action);
        }
        Ok(outcome)
    }

    fn schedule(
        &self,
        world: &PredictedState,
        binding: &Object,
        spec: &mut BindingSpec,
        status: &BindingStatus,
        outcome: &mut Prediction,
    ) {
        let (peers, options) = (Peers::default(), SchedulerOptions::new(&self.parts.features));
        let applied = binding.annotation(ANNOTATION_APPLIED_PLACEMENT).unwrap_or_default();
        if need(&world.snapshot, spec, status, applied, &options).is_none() {
            return;
        }
        let (decision, explanation) =
            explain(&world.snapshot, &Request { spec, status, peers: &peers, options: &options, answers: None });
        outcome.reasons = scheduling::lines(&explanation);
        match decision.result {
            Ok(clusters) => {
                outcome.notes.extend(lack_of_capacity(&clusters, spec, &explanation));
                spec.clusters = clusters;
            }
            Err(error) => {
                outcome.problem = error.to_string();
                // Current targets are only removed if no cluster fits.
                if matches!(error, scheduler::ScheduleError::NoFit(_)) {
                    spec.clusters.clear();
                }
            }
        }
    }

    fn unpropagated(&self, decision: &Decision, world: &PredictedState, template: &Object) -> Prediction {
        if policy::is_synced_namespace(&world.policies, template) {
            let not_synced = self.parts.rules.skipped_namespaces.not_synced(template).map(policy::not_synced);
            let note = not_synced.unwrap_or("it is created in every cluster, as all namespaces are");
            return Prediction { notes: vec![note.to_owned()], ..Prediction::default() };
        }
        let text = match decision {
            Decision::TakenBy(other) => format!("propagated by {other}, not by a policy"),
            Decision::HolderDeleting(policy) => format!("{} is being deleted", policy.display_name()),
            Decision::HolderSelectsOther(policy) => {
                format!("{} no longer selects it; propagated copies stay", policy.display_name())
            }
            Decision::HolderGone(claim) => format!("{} was deleted; propagated copies stay", claim.policy),
            Decision::Unmatched | Decision::Apply(_) => "no policy selects it, so it is not propagated".to_owned(),
        };
        let nearest = explain_choice(&world.policies, template).nearest;
        let near = nearest.iter().map(|miss| format!("nearly: {miss}"));
        Prediction { notes: std::iter::once(text).chain(near).collect(), ..Prediction::default() }
    }

    async fn deliver(
        &self,
        world: &PredictedState,
        interpreted: &InterpretedTemplate<'_>,
        binding: &Object,
        spec: &BindingSpec,
        target: &TargetCluster,
        before: &[TargetCluster],
    ) -> Result<Action, Status> {
        let had = before.iter().find(|old| old.name == target.name);
        let mut action = Action::new(&target.name, if had.is_some() { What::Keep } else { What::Place });
        action.replicas_before = had.map(|old| old.replicas).filter(|replicas| *replicas > 0);
        action.replicas_after = Some(target.replicas).filter(|replicas| *replicas > 0);
        let manifest = match manifest_of(world, interpreted, spec, target) {
            Ok(manifest) => manifest,
            Err(problem) => return Ok(Action { problem, ..action }),
        };
        let Some(existing) = self.work(&target.name, interpreted.template).await? else {
            let shown = world.shows_manifests.then(|| ManifestChange::of(None, Some(manifest.0.as_value().clone())));
            return Ok(Action { what: What::Place, manifest: shown, ..action });
        };
        let (manifest, overrides) = manifest;
        let id = BindingRef::of(binding);
        let delivery =
            Delivery { binding: id, spec, cluster: &target.name, manifest, overrides, preserved_labels: None };
        if let Ok(WorkChange::Patch(patch)) = DesiredWork::of_binding(delivery).plan(Some(&existing)) {
            action.what = What::Change;
            let old = first_manifest(&existing).unwrap_or_default();
            let new = &patch["spec"]["workload"]["manifests"][0];
            if !new.is_null() {
                differing(&old, new, "", &mut action.fields);
                action.manifest = world.shows_manifests.then(|| ManifestChange::of(Some(old), Some(new.clone())));
            }
        }
        Ok(action)
    }
}

/// A template with the answers of a webhook that revises its replicas, if there is one, by the number of replicas.
struct InterpretedTemplate<'a> {
    template: &'a Object,
    rules: &'a Interpreter,
    revisions: BTreeMap<i32, WebhookAnswer>,
    now: Timestamp,
}

/// The template as the member would get it.
fn manifest_of(
    world: &PredictedState,
    interpreted: &InterpretedTemplate<'_>,
    spec: &BindingSpec,
    target: &TargetCluster,
) -> Result<(Object, overrides::Recorded), String> {
    let InterpretedTemplate { template, rules, revisions, now } = interpreted;
    let mut manifest = match spec.is_workload() && rules.has_hook(&template.gvk(), Operation::ReviseReplica) {
        true => {
            let question = ReviseReplicas { object: Cow::Borrowed(*template), replicas: target.replicas.into() };
            let revised = rules.answer(question, *now, revisions.get(&target.replicas));
            revised.map_err(|error| error.to_string())?
        }
        false => Object::clone(template),
    };
    let cluster = world.clusters.iter().find(|cluster| cluster.name() == target.name);
    let cluster = cluster.ok_or_else(|| "there is no such cluster".to_owned())?;
    let cluster_spec: ClusterSpec = api::read(cluster).map_err(|status| status.to_string())?;
    let member = Member { cluster, spec: &cluster_spec };
    let policies = world.overrides.of(template.namespace());
    let applied = overrides::apply(&mut manifest, member, &world.overrides.cluster, policies);
    let recorded = applied.map_err(|failure| format!("overrides cannot be applied: {failure}"))?.recorded();
    Ok((manifest, recorded))
}

impl Action {
    fn new(cluster: &str, what: What) -> Self {
        Self {
            cluster: cluster.to_owned(),
            what,
            replicas_before: None,
            replicas_after: None,
            fields: Vec::new(),
            problem: String::new(),
            manifest: None,
        }
    }
}

/// The manifest in a Work; each has one.
fn first_manifest(work: &Object) -> Option<Value> {
    work.items(&["spec", "workload", "manifests"]).first().cloned()
}

impl ManifestChange {
    /// Hides the values of Secrets but shows which of them change.
    fn of(mut before: Option<Value>, mut after: Option<Value>) -> Self {
        let is_secret = |manifest: &Option<Value>| {
            manifest.as_ref().is_some_and(|manifest| manifest["kind"] == "Secret" && manifest["apiVersion"] == "v1")
        };
        if is_secret(&before) || is_secret(&after) {
            let former = before.clone();
            hide_values(&mut before, |_, _| "(hidden)");
            hide_values(&mut after, |field, key| match (&former, key) {
                (Some(former), (key, value)) if former[field].get(key) != Some(value) => "(hidden, changed)",
                _ => "(hidden)",
            });
        }
        Self { before, after }
    }
}

/// Replaces every value of a Secret by the text for its field and key.
fn hide_values(secret: &mut Option<Value>, text: impl Fn(&str, (&str, &Value)) -> &'static str) {
    let Some(secret) = secret else { return };
    for field in ["data", "stringData"] {
        let Some(values) = secret.get_mut(field).and_then(Value::as_object_mut) else { continue };
        for (key, value) in values {
            *value = text(field, (key, value)).into();
        }
    }
}

/// Clusters that get more replicas than their estimated capacity: duplicated and statically weighted replicas ignore it.
fn lack_of_capacity(targets: &[TargetCluster], spec: &BindingSpec, explanation: &Explanation) -> Vec<String> {
    let candidates = explanation.attempts.last().map(|attempt| attempt.candidates.as_slice()).unwrap_or_default();
    let lacks = targets.iter().filter_map(|target| {
        let candidate = candidates.iter().find(|candidate| candidate.cluster == target.name)?;
        let more = target.replicas - spec.target(&target.name).map_or(0, |had| had.replicas);
        let is_lacking = !candidate.estimates.is_empty() && more > candidate.allocatable;
        is_lacking.then(|| format!("{} has capacity for {} of {more} replicas", target.name, candidate.allocatable))
    });
    lacks.collect()
}

async fn interpret(
    interpreter: &CurrentInterpreter,
    features: &Features,
    template: &Object,
) -> Result<Interpreted, String> {
    let gvk = template.gvk();
    if features.multiple_pod_templates && interpreter.has_hook(&gvk, Operation::InterpretComponent) {
        let components = interpreter.ask(Components(template)).await.map_err(|error| error.to_string())?;
        return Ok(Interpreted::Components(components));
    }
    if interpreter.has_hook(&gvk, Operation::InterpretReplica) {
        let (replicas, requirements) = interpreter.ask(Replicas(template)).await.map_err(|error| error.to_string())?;
        return Ok(Interpreted::Replicas(replicas, requirements));
    }
    Ok(Interpreted::Nothing)
}

/// The binding as it would be.
fn bind(
    template: &Object,
    policy: &Policy,
    interpreted: Interpreted,
    existing: Option<&Object>,
    features: &Features,
) -> Result<Object, String> {
    let inputs = BindingInputs { template, policy, interpreted, schedule_priority: None, features };
    match plan_binding(desired_binding(&inputs), existing, policy) {
        BindingPlan::Create(binding) | BindingPlan::Update(binding, _) => Ok(binding),
        BindingPlan::Unchanged => existing.cloned().ok_or_else(|| "the binding does not exist".to_owned()),
        BindingPlan::WaitForDeletion => Err("its binding is being deleted".to_owned()),
        BindingPlan::WaitForCollection => Err("its binding belongs to an earlier object of this name".to_owned()),
    }
}

/// The paths at which two values differ.
fn differing(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    if old == new || found.len() >= FIELDS_MAX {
        return;
    }
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let (old, new) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                differing(old, new, &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (old, new)) in a.iter().zip(b).enumerate() {
                differing(old, new, &format!("{path}[{index}]"), found);
            }
        }
        // The control plane's own bookkeeping is not interesting to a user.
        _ if path.contains("resourcetemplate.karmada.io/") => {}
        _ => found.push(path.trim_start_matches('.').to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_secrets_are_hidden_and_their_changes_are_not() {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": value, "b": "c2FtZQ=="}});
        let change = ManifestChange::of(Some(secret("b2xk")), Some(secret("bmV3")));
        assert_eq!(change.before.unwrap()["data"], json!({"a": "(hidden)", "b": "(hidden)"}));
        assert_eq!(change.after.unwrap()["data"], json!({"a": "(hidden, changed)", "b": "(hidden)"}));
        let created = ManifestChange::of(None, Some(secret("bmV3")));
        assert_eq!(created.after.unwrap()["data"], json!({"a": "(hidden)", "b": "(hidden)"}));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        assert_eq!(ManifestChange::of(None, Some(map.clone())).after, Some(map));
    }

    #[test]
    fn changed_fields_are_listed_by_path() {
        let old =
            json!({"spec": {"replicas": 1, "template": {"containers": [{"image": "a", "name": "x"}]}}, "same": 1});
        let new =
            json!({"spec": {"replicas": 2, "template": {"containers": [{"image": "b", "name": "x"}]}}, "same": 1});
        let mut found = Vec::new();
        differing(&old, &new, "", &mut found);
        assert_eq!(found, ["spec.replicas", "spec.template.containers[0].image"]);
    }
}
