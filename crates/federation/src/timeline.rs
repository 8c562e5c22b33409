//! Records the steps of every propagation as the mirrors show them: binding, scheduling, works, answers of members.

use std::sync::Arc;

use api::Resource;
use api::names::cluster_of_execution_namespace;
use api::work::{
    CLUSTER_RESOURCE_BINDINGS, CONDITION_APPLIED, CONDITION_FULLY_APPLIED, CONDITION_SCHEDULED, RESOURCE_BINDINGS,
    WORKS,
};
use jiff::Timestamp;
use object::{Object, conditions};
use plane_state::Propagations;
use plane_state::propagations::{PropagationStep, StepKind, StepTarget, TARGETS_MAX};
use reconcile::{Change, Clock, Mirror, Mirrors, ObjectKey};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bindings::binding_of_work;

/// The mirrors whose changes are steps. Every replica has them, so that a change of the leader loses no step.
pub struct Timeline {
    bindings: Mirror,
    cluster_bindings: Mirror,
    works: Mirror,
    clock: Arc<dyn Clock>,
    propagations: Propagations,
}

impl Timeline {
    /// Controllers that use these mirrors or others within them share what is started here.
    pub fn new(mirrors: &Mirrors, clock: Arc<dyn Clock>, propagations: Propagations) -> Self {
        let packed = |resource: Resource| mirrors.packed(&resource.gvr());
        let (bindings, cluster_bindings) = (packed(RESOURCE_BINDINGS), packed(CLUSTER_RESOURCE_BINDINGS));
        Self { bindings, cluster_bindings, works: packed(WORKS), clock, propagations }
    }

    /// Records until cancelled.
    pub async fn record(self, cancel: CancellationToken) {
        // Objects from before this process watched have no time here.
        tokio::select! {
            () = cancel.cancelled() => return,
            () = async {
                self.bindings.synced().await;
                self.cluster_bindings.synced().await;
                self.works.synced().await;
            } => {}
        }
        let mut bindings = self.bindings.subscribe_to_changes();
        let mut cluster_bindings = self.cluster_bindings.subscribe_to_changes();
        let mut works = self.works.subscribe_to_changes();
        loop {
            let (change, is_work) = tokio::select! {
                () = cancel.cancelled() => return,
                change = bindings.next() => (change, false),
                change = cluster_bindings.next() => (change, false),
                change = works.next() => (change, true),
            };
            let Some(change) = change else { return };
            let now = self.clock.now();
            match is_work {
                true => self.record_work(&change, now),
                false if change.now.is_none() => self.propagations.forget(&change.key.to_string()),
                false => self.propagations.record(&change.key.to_string(), steps_of_binding(&change, now)),
            }
        }
    }

    /// The steps of a work belong to its binding. One that is gone has none: a new one of its name starts without them.
    fn record_work(&self, change: &Change, now: Timestamp) {
        let Some(work) = change.now.as_ref().or(change.before.as_ref()) else { return };
        let Some(binding) = binding_of_work(work).filter(|key| self.is_known(key)) else { return };
        self.propagations.record(&binding.to_string(), steps_of_work(change, now));
    }

    fn is_known(&self, binding: &ObjectKey) -> bool {
        let mirror = if binding.namespace.is_empty() { &self.cluster_bindings } else { &self.bindings };
        mirror.kept(binding).is_some()
    }
}

fn steps_of_binding(change: &Change, time: Timestamp) -> Vec<PropagationStep> {
    let Some(now) = change.now.as_deref() else { return Vec::new() };
    let before = change.before.as_deref();
    let mut steps = Vec::new();
    let differs = |path: &[&str]| before.is_none_or(|before| before.get(path) != now.get(path));
    match before {
        None => steps.push(PropagationStep::new(time, StepKind::BindingCreated)),
        Some(_) if differs(&["spec", "resource", "resourceVersion"]) => {
            steps.push(PropagationStep::new(time, StepKind::TemplateObserved));
        }
        Some(_) => {}
    }
    let targets = now.items(&["spec", "clusters"]);
    if differs(&["spec", "clusters"]) && (before.is_some() || !targets.is_empty()) {
        let targets = targets.iter().take(TARGETS_MAX).map(target).collect();
        steps.push(PropagationStep { targets, ..PropagationStep::new(time, StepKind::Scheduled) });
    }
    steps.extend(evictions(before, now, time));
    if let Some(scheduled) = conditions::find(now, CONDITION_SCHEDULED).filter(|one| one.is_false())
        && before.and_then(|before| conditions::find(before, CONDITION_SCHEDULED)).map(|one| one.message())
            != Some(scheduled.message())
    {
        steps.push(PropagationStep::new(time, StepKind::SchedulingFailed).saying(scheduled.message()));
    }
    if becomes_true(before, now, CONDITION_FULLY_APPLIED) {
        steps.push(PropagationStep::new(time, StepKind::FullyApplied));
    }
    steps
}

fn target(value: &Value) -> StepTarget {
    let name = value["name"].as_str().unwrap_or_default().to_owned();
    StepTarget { name, replicas: value["replicas"].as_i64().unwrap_or(0) }
}

/// The clusters a binding began and finished to leave.
fn evictions(before: Option<&Object>, now: &Object, time: Timestamp) -> Vec<PropagationStep> {
    let tasks = |binding: &Object| -> Vec<(String, String)> {
        let text = |task: &Value, field: &str| task[field].as_str().unwrap_or_default().to_owned();
        let read = |task: &Value| (text(task, "fromCluster"), text(task, "reason"));
        binding.items(&["spec", "gracefulEvictionTasks"]).iter().map(read).collect()
    };
    let (earlier, later) = (before.map(tasks).unwrap_or_default(), tasks(now));
    let lacks = |tasks: &[(String, String)], cluster: &str| tasks.iter().all(|(from, _)| from != cluster);
    let begun = later.iter().filter(|(cluster, _)| lacks(&earlier, cluster));
    let ended = earlier.iter().filter(|(cluster, _)| lacks(&later, cluster));
    let step = |kind, cluster: &str| PropagationStep::new(time, kind).in_cluster(cluster);
    begun
        .map(|(cluster, reason)| step(StepKind::EvictionStarted, cluster).saying(reason))
        .chain(ended.map(|(cluster, _)| step(StepKind::EvictionEnded, cluster)))
        .collect()
}

fn steps_of_work(change: &Change, time: Timestamp) -> Vec<PropagationStep> {
    let Some(cluster) = cluster_of_execution_namespace(&change.key.namespace) else { return Vec::new() };
    let step = |kind| PropagationStep::new(time, kind).in_cluster(cluster);
    let before = change.before.as_deref();
    let Some(now) = change.now.as_deref() else { return vec![step(StepKind::WorkRemoved)] };
    let mut steps = Vec::new();
    match before {
        None => steps.push(step(StepKind::WorkCreated)),
        Some(before) if before.generation() != now.generation() => steps.push(step(StepKind::WorkUpdated)),
        Some(_) => {}
    }
    if becomes_true(before, now, CONDITION_APPLIED) {
        steps.push(step(StepKind::Applied));
    }
    if let Some(applied) = conditions::find(now, CONDITION_APPLIED).filter(|one| one.is_false())
        && before.and_then(|before| conditions::find(before, CONDITION_APPLIED)).map(|one| one.message())
            != Some(applied.message())
    {
        steps.push(step(StepKind::ApplyFailed).saying(applied.message()));
    }
    let report = Report::of(now);
    if report != before.map(Report::of).unwrap_or_default() && report != Report::default() {
        let Report { health, ready, replicas } = report;
        steps.push(PropagationStep { health, ready, replicas, ..step(StepKind::Reported) });
    }
    steps
}

/// The parts of a member's status that a timeline shows.
#[derive(Default, PartialEq)]
struct Report {
    health: String,
    ready: Option<i64>,
    replicas: Option<i64>,
}

impl Report {
    fn of(work: &Object) -> Self {
        let Some(manifest) = work.items(&["status", "manifestStatuses"]).first() else { return Self::default() };
        let number = |names: [&str; 3]| names.iter().find_map(|name| manifest["status"][name].as_i64());
        // Health is one of three words; a member that sends another one is not quoted.
        let health = manifest["health"].as_str().filter(|text| ["Healthy", "Unhealthy", "Unknown"].contains(text));
        Self {
            health: health.unwrap_or_default().to_owned(),
            ready: number(["readyReplicas", "numberReady", "ready"]),
            replicas: number(["replicas", "desiredNumberScheduled", "active"]),
        }
    }
}

fn becomes_true(before: Option<&Object>, now: &Object, condition: &str) -> bool {
    conditions::is_true(now, condition) && !before.is_some_and(|before| conditions::is_true(before, condition))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(namespace: &str, before: Value, now: Value) -> Change {
        let read = |value: Value| Object::from_value(value).map(Arc::new);
        let key = ObjectKey::new(namespace, "web");
        Change { key, before: read(before), now: read(now), is_initial: false }
    }

    /// The kinds of the steps with their clusters, as `Kind cluster`.
    fn check(steps: &[PropagationStep], expected: &[&str]) {
        let found: Vec<String> =
            steps.iter().map(|step| format!("{:?} {}", step.step, step.cluster).trim().to_owned()).collect();
        assert_eq!(found, expected);
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!([{"type": kind, "status": status, "message": message}])
    }

    #[test]
    fn changes_of_a_binding_become_steps() {
        let resource = |version: &str| json!({"resourceVersion": version});
        let one = json!([{"name": "m1", "replicas": 3}]);
        let two = json!([{"name": "m2", "replicas": 3}]);
        let new = json!({"spec": {"resource": resource("1")}});
        let scheduled = json!({"spec": {"resource": resource("1"), "clusters": one}});
        let applied = json!({"spec": {"resource": resource("1"), "clusters": one},
            "status": {"conditions": condition("FullyApplied", "True", "")}});
        let evicted = json!({"spec": {"resource": resource("1"), "clusters": two,
            "gracefulEvictionTasks": [{"fromCluster": "m1", "reason": "TaintUntolerated"}]}});
        let moved = json!({"spec": {"resource": resource("2"), "clusters": two}});
        let failed = json!({"spec": {"resource": resource("2"), "clusters": two},
            "status": {"conditions": condition("Scheduled", "False", "no cluster fits")}});
        let cases: Vec<(Value, Value, &[&str])> = vec![
            (json!(null), new.clone(), &["BindingCreated"]),
            (json!(null), scheduled.clone(), &["BindingCreated", "Scheduled"]),
            (new, scheduled.clone(), &["Scheduled"]),
            (scheduled, applied.clone(), &["FullyApplied"]),
            (applied.clone(), applied.clone(), &[]),
            (applied, evicted.clone(), &["Scheduled", "EvictionStarted m1"]),
            (evicted, moved.clone(), &["TemplateObserved", "EvictionEnded m1"]),
            (moved, failed.clone(), &["SchedulingFailed"]),
            (failed.clone(), failed, &[]),
        ];
        for (before, now, expected) in cases {
            check(&steps_of_binding(&change("default", before, now), Timestamp::UNIX_EPOCH), expected);
        }
    }

    #[test]
    fn changes_of_a_work_become_steps_of_its_cluster() {
        let status =
            |health: &str, ready: i64| json!([{"health": health, "status": {"readyReplicas": ready, "replicas": 2}}]);
        let new = json!({"metadata": {"generation": 1}});
        let applied = json!({"metadata": {"generation": 1},
            "status": {"conditions": condition("Applied", "True", ""), "manifestStatuses": status("Unhealthy", 1)}});
        let healthy = json!({"metadata": {"generation": 2},
            "status": {"conditions": condition("Applied", "True", ""), "manifestStatuses": status("Healthy", 2)}});
        let refused =
            json!({"metadata": {"generation": 2}, "status": {"conditions": condition("Applied", "False", "denied")}});
        let cases: Vec<(Value, Value, &[&str])> = vec![
            (json!(null), new.clone(), &["WorkCreated m1"]),
            (new, applied.clone(), &["Applied m1", "Reported m1"]),
            (applied, healthy.clone(), &["WorkUpdated m1", "Reported m1"]),
            (healthy.clone(), healthy.clone(), &[]),
            (healthy, refused.clone(), &["ApplyFailed m1"]),
            (refused, json!(null), &["WorkRemoved m1"]),
        ];
        for (before, now, expected) in cases {
            check(&steps_of_work(&change("karmada-es-m1", before, now), Timestamp::UNIX_EPOCH), expected);
        }
        let foreign = change("default", json!(null), json!({}));
        check(&steps_of_work(&foreign, Timestamp::UNIX_EPOCH), &[]);
    }

    #[test]
    fn a_report_contains_only_known_reasons() {
        let status = json!([{"health": "Splendid", "status": {"readyReplicas": "many"}}]);
        let work = Object::from_value(json!({"status": {"manifestStatuses": status}})).expect("an object");
        assert!(Report::of(&work) == Report::default());
    }
}
