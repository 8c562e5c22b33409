//! Puts taints on clusters and takes them off as ClusterTaintPolicies ask, by the conditions of the clusters.
//!
//! Writes `spec.taints` of Clusters. A policy that is deleted leaves its taints: its author may want them to stay.

pub mod lost;

use std::sync::Arc;

use api::cluster::{ClusterSpec, ClusterStatus};
use api::core::Condition;
use api::policy::{CLUSTER_TAINT_POLICIES, MatchCondition, TaintPolicySpec};
use jiff::Timestamp;
use object::Object;
use object::taints::Taint;
use reconcile::{
    Change, Committed, Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source,
    commit_object,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};
use crate::taints;

const COMPONENT: &str = "cluster-taint-policy-controller";
const WORKERS: usize = 2;

struct TaintPolicies {
    plane: Arc<Plane>,
    policies: Mirror,
    events: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let policies = plane.mirror(MirrorSpec::new(&CLUSTER_TAINT_POLICIES.gvr()));
    let events = plane.recorder(COMPONENT, &cancel);
    let members = Arc::clone(&plane);
    let sources = vec![
        Source::new(&plane.clusters, clusters_in_new_condition),
        Source::new(&policies, move |change| clusters_of_changed_policy(&members, change)),
    ];
    let context = Arc::new(TaintPolicies { plane, policies, events });
    let controller = Controller::new(COMPONENT).observed_by(&context.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&context), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn clusters_in_new_condition(change: &Change) -> Vec<ObjectKey> {
    let Some(now) = &change.now else { return Vec::new() };
    let is_same = change.before.as_ref().is_some_and(|before| {
        before.items(&["status", "conditions"]) == now.items(&["status", "conditions"])
            && before.get(&["status", "nodeSummary"]) == now.get(&["status", "nodeSummary"])
    });
    if is_same { Vec::new() } else { vec![change.key.clone()] }
}

fn clusters_of_changed_policy(plane: &Plane, change: &Change) -> Vec<ObjectKey> {
    let Some(now) = &change.now else { return Vec::new() };
    let is_same = change.before.as_ref().is_some_and(|before| before.get(&["spec"]) == now.get(&["spec"]));
    // At the start every cluster is looked at anyway.
    if is_same || change.is_initial {
        return Vec::new();
    }
    let Ok(policy) = api::read::<TaintPolicySpec>(now) else { return Vec::new() };
    let clusters = plane.clusters.list().into_iter().filter(|cluster| is_meant(&policy, cluster));
    clusters.map(|cluster| ObjectKey::of(&cluster)).collect()
}

async fn reconcile(context: Arc<TaintPolicies>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(cluster) = context.plane.clusters.get(&key) else { return Ok(Outcome::Done) };
    let mut policies = context.policies.list();
    let has_own = context.plane.features.resilient_failover;
    if policies.is_empty() && !has_own {
        return Ok(Outcome::Done);
    }
    // The eldest first, so that policies that contradict each other always come to the same end.
    policies.sort_by(|a, b| (a.creation_timestamp(), a.name()).cmp(&(b.creation_timestamp(), b.name())));
    let specs: Vec<TaintPolicySpec> = policies.iter().map(|policy| api::read(policy)).collect::<Result<_, _>>()?;
    let now = context.plane.clock.now();
    let status: ClusterStatus = api::read_at(&cluster, &["status"])?;
    let current = cluster.items(&["spec", "taints"]);
    let own = if has_own { lost::plan(current, &status, now) } else { current.to_vec() };
    // Policies of users come last, so they take precedence.
    let wanted = plan(&cluster, own, &status, &specs, now);
    if wanted == cluster.items(&["spec", "taints"]) {
        return Ok(Outcome::Done);
    }
    let described = taints::describe(&wanted);
    let mut desired = Object::clone(&cluster);
    desired.set(&["spec", "taints"], wanted);
    let target = context.plane.clusters.target(&key);
    match commit_object(&context.plane.client, target, &cluster, &desired, FIELD_MANAGER).await {
        Ok(Committed::Unchanged) => {}
        Ok(Committed::Written(_)) => {
            let message = format!("Update Cluster({}) with taints({described}) succeed", key.name);
            context.events.normal(&*cluster, "TaintClusterSucceed", message);
        }
        Err(status) => {
            if !status.is_conflict() {
                context.events.warning(&*cluster, "TaintClusterFailed", status.to_string());
            }
            return Err(status.into());
        }
    }
    Ok(Outcome::Done)
}

/// The taints of a cluster after all policies, in their order, each first adding and then removing.
fn plan(
    cluster: &Object,
    taints: Vec<Value>,
    status: &ClusterStatus,
    policies: &[TaintPolicySpec],
    now: Timestamp,
) -> Vec<Value> {
    let mut wanted = taints;
    for policy in policies.iter().filter(|policy| is_meant(policy, cluster)) {
        let taints: Vec<Taint> = policy
            .taints
            .iter()
            .map(|taint| Taint { value: taint.value.clone(), ..taints::taint(&taint.key, &taint.effect) })
            .collect();
        if holds(&policy.add_on_conditions, &status.conditions) {
            wanted = taints::change(&wanted, &taints, &[], now);
        }
        if holds(&policy.remove_on_conditions, &status.conditions) {
            wanted = taints::change(&wanted, &[], &taints, now);
        }
    }
    wanted
}

fn is_meant(policy: &TaintPolicySpec, cluster: &Object) -> bool {
    let Some(affinity) = &policy.target_clusters else { return true };
    api::read::<ClusterSpec>(cluster).is_ok_and(|spec| affinity.matches(cluster, &spec))
}

/// Do all requirements hold? None at all never do, and a condition that is not there answers no question.
fn holds(requirements: &[MatchCondition], conditions: &[Condition]) -> bool {
    let is_met = |requirement: &MatchCondition| {
        let condition = conditions.iter().find(|condition| condition.kind == requirement.condition_type);
        let is_listed = condition.map(|condition| requirement.status_values.contains(&condition.status));
        match requirement.operator.as_str() {
            "In" => is_listed == Some(true),
            "NotIn" => is_listed == Some(false),
            _ => false,
        }
    };
    !requirements.is_empty() && requirements.iter().all(is_met)
}

#[cfg(test)]
mod tests;
