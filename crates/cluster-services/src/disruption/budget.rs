//! Computes the allowed disruptions of a PodDisruptionBudget. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object::conditions::{self, NewCondition};
use object::{Object, time};
use serde_json::{Map, Value, json};

/// A pod whose granted eviction is not observed within this time was not evicted.
pub const DISRUPTED_FOR: Duration = Duration::from_secs(120);

/// The state of a pod as seen by a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub name: String,
    pub is_ready: bool,
    pub is_terminating: bool,
    /// Its controller: apiVersion, kind, name, uid.
    pub owner: Option<[String; 4]>,
}

pub fn read(pod: &Object) -> Option<Guarded> {
    if matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") {
        return None;
    }
    let owner = pod.owner_references().into_iter().find(|owner| owner.controller);
    Some(Guarded {
        name: pod.name().to_owned(),
        is_ready: conditions::is_true(pod, "Ready"),
        is_terminating: pod.is_deleting(),
        owner: owner.map(|owner| [owner.api_version, owner.kind, owner.name, owner.uid]),
    })
}

/// The reference counts of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub pods: i64,
    pub desired_healthy: i64,
}

/// Reports whether the budget depends on the desired scale, not only on the existing pods.
pub fn needs_scale(budget: &Object) -> bool {
    budget.get(&["spec", "maxUnavailable"]).is_some()
        || budget.get(&["spec", "minAvailable"]).is_some_and(|value| value.is_string())
}

/// `scale` is the total desired by the controllers of the selected pods; only read if `needs_scale`.
pub fn expect(budget: &Object, pods: usize, scale: i64) -> Expected {
    if let Some(value) = budget.get(&["spec", "maxUnavailable"]) {
        let allowed = scaled(value, scale);
        return Expected { pods: scale, desired_healthy: (scale - allowed).max(0) };
    }
    match budget.get(&["spec", "minAvailable"]) {
        Some(value @ Value::String(_)) => Expected { pods: scale, desired_healthy: scaled(value, scale) },
        Some(value) => Expected { pods: pods as i64, desired_healthy: value.as_i64().unwrap_or(0) },
        None => Expected { pods: pods as i64, desired_healthy: 0 },
    }
}

/// Resolves a number, or a percentage of the total, rounded up.
fn scaled(value: &Value, total: i64) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (percent * total + 99).div_euclid(100)
        }
        value => value.as_i64().unwrap_or(0),
    }
}

/// Returns the new status, and when the next granted eviction expires.
pub fn plan_status(
    budget: &Object,
    pods: &[Arc<Guarded>],
    expected: Expected,
    now: Timestamp,
) -> (Object, Option<Duration>) {
    let (disrupted, next) = still_disrupted(budget, pods, now);
    let counts = |pod: &&Arc<Guarded>| pod.is_ready && !pod.is_terminating && !disrupted.contains_key(&pod.name);
    let healthy = pods.iter().filter(counts).count() as i64;
    let allowed = match expected.pods {
        0 => 0,
        _ => (healthy - expected.desired_healthy).max(0),
    };
    let mut desired = budget.clone();
    desired.set(&["status", "currentHealthy"], healthy);
    desired.set(&["status", "desiredHealthy"], expected.desired_healthy);
    desired.set(&["status", "expectedPods"], expected.pods);
    desired.set(&["status", "disruptionsAllowed"], allowed);
    desired.set(&["status", "observedGeneration"], budget.generation());
    match disrupted.is_empty() {
        true => drop(desired.remove(&["status", "disruptedPods"])),
        false => desired.set(&["status", "disruptedPods"], json!(disrupted)),
    }
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut desired, status, reason, "", now);
    (desired, next)
}

/// Returns the status after an error: no disruption is allowed.
pub fn plan_failure(budget: &Object, message: &str, now: Timestamp) -> Object {
    let mut desired = budget.clone();
    desired.set(&["status", "disruptionsAllowed"], 0);
    set_condition(&mut desired, "False", "SyncFailed", message, now);
    desired
}

fn set_condition(budget: &mut Object, status: &str, reason: &str, message: &str, now: Timestamp) {
    conditions::set(budget, &NewCondition { kind: "DisruptionAllowed", status, reason, message }, now);
    let generation = budget.generation();
    conditions::edit(budget, "DisruptionAllowed", |condition| condition.set("observedGeneration", generation));
}

/// Returns the granted evictions that are neither observed nor expired.
fn still_disrupted(
    budget: &Object,
    pods: &[Arc<Guarded>],
    now: Timestamp,
) -> (BTreeMap<String, Value>, Option<Duration>) {
    let listed = budget.get(&["status", "disruptedPods"]).and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    let mut next: Option<Duration> = None;
    let mut kept = BTreeMap::new();
    for (name, at) in listed {
        let is_there = pods.iter().any(|pod| pod.name == name && !pod.is_terminating);
        let Some(granted) = at.as_str().and_then(time::parse).filter(|_| is_there) else { continue };
        let age = now.duration_since(granted);
        let limit = SignedDuration::try_from(DISRUPTED_FOR).unwrap_or_default();
        if age < limit {
            let left = Duration::try_from(limit - age).unwrap_or_default();
            next = Some(next.map_or(left, |next| next.min(left)));
            kept.insert(name, at);
        }
    }
    (kept, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, is_ready: bool) -> Arc<Guarded> {
        Arc::new(Guarded { name: name.to_owned(), is_ready, is_terminating: false, owner: None })
    }

    #[track_caller]
    fn check(spec: Value, ready: usize, unready: usize, scale: i64, expected: (i64, i64, i64, i64)) {
        let budget = json!({"metadata": {"generation": 3}, "spec": spec});
        let budget = Object::from_value(budget).expect("a map");
        let pods: Vec<_> = (0..ready + unready).map(|index| pod(&format!("p{index}"), index < ready)).collect();
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let (planned, _) = plan_status(&budget, &pods, expect(&budget, pods.len(), scale), now);
        let field = |name: &str| planned.i64_at(&["status", name]).expect("set");
        let found =
            (field("expectedPods"), field("desiredHealthy"), field("currentHealthy"), field("disruptionsAllowed"));
        assert_eq!(found, expected, "{spec}");
        assert_eq!(field("observedGeneration"), 3);
    }

    #[test]
    fn a_budget_allows_the_surplus() {
        check(json!({"minAvailable": 2}), 3, 0, 0, (3, 2, 3, 1));
        check(json!({"minAvailable": 2}), 1, 2, 0, (3, 2, 1, 0));
        check(json!({"minAvailable": "50%"}), 3, 0, 3, (3, 2, 3, 1));
        check(json!({"maxUnavailable": 1}), 3, 0, 3, (3, 2, 3, 1));
        // Fewer pods than desired: missing pods count as disrupted.
        check(json!({"maxUnavailable": 1}), 2, 0, 3, (3, 2, 2, 0));
        check(json!({"maxUnavailable": "30%"}), 10, 0, 10, (10, 7, 10, 3));
        check(json!({"minAvailable": 0}), 0, 0, 0, (0, 0, 0, 0));
    }

    #[test]
    fn a_granted_eviction_counts_until_the_pod_terminates_or_it_expires() {
        let at = |text: &str| -> Timestamp { text.parse().expect("a time") };
        let budget = json!({"spec": {"minAvailable": 1}, "status": {"disruptedPods": {
            "a": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"}}});
        let budget = Object::from_value(budget).expect("a map");
        let pods = [pod("a", true), pod("b", true)];
        let plan = |now| plan_status(&budget, &pods, expect(&budget, 2, 0), now);
        let (early, next) = plan(at("2026-01-01T00:01:00Z"));
        assert_eq!(early.get(&["status", "disruptedPods"]), Some(&json!({"a": "2026-01-01T00:00:00Z"})));
        assert_eq!((early.i64_at(&["status", "disruptionsAllowed"]), next), (Some(0), Some(Duration::from_secs(60))));
        let (late, next) = plan(at("2026-01-01T00:03:00Z"));
        assert_eq!(late.get(&["status", "disruptedPods"]), None);
        assert_eq!((late.i64_at(&["status", "disruptionsAllowed"]), next), (Some(1), None));
    }
}
