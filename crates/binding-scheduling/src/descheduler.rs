//! Removes replicas that have been unschedulable for too long in a member cluster, so that they are placed elsewhere.
//!
//! Implements Karmada's descheduler: periodically checks Deployments whose replicas are divided by available
//! capacity. The number of unschedulable pods of a member is part of the status of its Works. Writes `spec.clusters`
//! of bindings; the scheduler then places the missing replicas.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use api::policy::{Placement, is_dynamic};
use api::work::{AggregatedStatusItem, STATUS_UNSCHEDULABLE, TargetCluster, Unschedulable};
use jiff::{SignedDuration, Timestamp};
use object::{Object, Status};
use reconcile::{ObjectKey, Recorder, Regarding, commit_object};
use serde_json::{Value, json};

use crate::BindingScheduler;
use crate::gather::Binding;

/// The field manager and event source.
pub const COMPONENT: &str = "karmada-descheduler";

/// Karmada's flags with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descheduling {
    /// The descheduling interval.
    pub interval: Duration,
    /// Time a pod must be unschedulable before it is descheduled.
    pub threshold: Duration,
}

impl Default for Descheduling {
    fn default() -> Self {
        Self { interval: Duration::from_secs(120), threshold: Duration::from_secs(300) }
    }
}

/// A reduction of the replicas in one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrink {
    pub cluster: String,
    pub from: i32,
    pub to: i32,
}

/// One value if the binding has unschedulable replicas.
pub fn is_unschedulable(binding: &Object) -> Vec<()> {
    let items = binding.items(&["status", "aggregatedStatus"]);
    let has_unschedulable = |item: &Value| item["status"].get(STATUS_UNSCHEDULABLE).is_some();
    if items.iter().any(has_unschedulable) { vec![()] } else { Vec::new() }
}

/// Runs the descheduler periodically until dropped.
pub async fn watch(scheduler: &Arc<BindingScheduler>, descheduling: Descheduling, recorder: &Recorder) {
    loop {
        tokio::time::sleep(descheduling.interval).await;
        for object in scheduler.unschedulable.iter().flat_map(|index| index.list(&())) {
            if let Err(error) = look_at(scheduler, descheduling, recorder, &object).await {
                tracing::warn!(binding = %ObjectKey::of(&object), %error, "failed to deschedule replicas");
            }
        }
    }
}

async fn look_at(
    scheduler: &BindingScheduler,
    descheduling: Descheduling,
    recorder: &Recorder,
    object: &Arc<Object>,
) -> Result<(), Status> {
    let binding = Binding::read(object)?;
    if object.is_deleting() || !is_concerned(&binding) {
        return Ok(());
    }
    let (targets, statuses) = (&binding.spec.clusters, &binding.status.aggregated_status);
    let shrinks = plan_shrinks(targets, statuses, scheduler.clock.now(), descheduling.threshold);
    if shrinks.is_empty() {
        return Ok(());
    }
    let shrunk = |target: &TargetCluster| {
        let found = shrinks.iter().find(|shrink| shrink.cluster == target.name);
        TargetCluster { replicas: found.map_or(target.replicas, |shrink| shrink.to), ..target.clone() }
    };
    let mut desired = Object::clone(object);
    desired.set(&["spec", "clusters"], json!(targets.iter().map(shrunk).collect::<Vec<_>>()));
    let target = scheduler.bindings.target(&binding.key);
    let written = commit_object(&scheduler.client, target, object, &desired, COMPONENT).await;
    update_metrics(recorder, &binding, &shrinks, written.as_ref().err());
    match written {
        // The binding has changed or was deleted; the next run sees its new state.
        Err(status) if status.is_conflict() || status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

/// Reports whether the binding is a Deployment whose replicas were divided by available capacity.
fn is_concerned(binding: &Binding) -> bool {
    let resource = &binding.spec.resource;
    let placement: Option<Placement> = serde_json::from_str(binding.applied_placement()).ok();
    resource.api_version == "apps/v1" && resource.kind == "Deployment" && placement.is_some_and(|p| is_dynamic(&p))
}

/// Computes the reductions. Never goes below the ready replicas, and never reduces a cluster without a reported
/// status.
pub fn plan_shrinks(
    targets: &[TargetCluster],
    statuses: &[AggregatedStatusItem],
    now: Timestamp,
    threshold: Duration,
) -> Vec<Shrink> {
    let shrink = |target: &TargetCluster| {
        let status = statuses.iter().find(|item| item.cluster_name == target.name)?.status.as_ref()?;
        let ready = i32::try_from(status["readyReplicas"].as_i64().unwrap_or(0)).ok()?;
        let waiting: Unschedulable = serde_json::from_value(status.get(STATUS_UNSCHEDULABLE)?.clone()).ok()?;
        let unschedulable = waiting_longer_than(&waiting, now, threshold);
        if ready >= target.replicas || unschedulable <= 0 || target.replicas < unschedulable {
            return None;
        }
        let to = (target.replicas - unschedulable).max(ready);
        (to < target.replicas).then(|| Shrink { cluster: target.name.clone(), from: target.replicas, to })
    };
    targets.iter().filter_map(shrink).collect()
}

fn waiting_longer_than(waiting: &Unschedulable, now: Timestamp, threshold: Duration) -> i32 {
    let threshold = SignedDuration::try_from(threshold).unwrap_or(SignedDuration::MAX);
    let is_long = |since: &str| object::time::parse(since).is_some_and(|since| now.duration_since(since) > threshold);
    let long = waiting.since.iter().filter(|(since, _)| is_long(since));
    i32::try_from(long.map(|(_, pods)| *pods).sum::<i64>()).unwrap_or(i32::MAX)
}

fn update_metrics(recorder: &Recorder, binding: &Binding, shrinks: &[Shrink], error: Option<&Status>) {
    let resource = &binding.spec.resource;
    let template = Regarding {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        uid: resource.uid.clone(),
    };
    for about in [Regarding::from(&*binding.object), template] {
        match error {
            None => recorder.normal(about, "DescheduleBindingSucceed", message(shrinks)),
            Some(error) if error.is_conflict() => {}
            Some(error) => recorder.warning(about, "DescheduleBindingFailed", error.to_string()),
        }
    }
}

fn message(shrinks: &[Shrink]) -> String {
    let mut text = "Binding has been descheduled".to_owned();
    for shrink in shrinks {
        let _ = write!(text, ", {} replica(s) in cluster({})", shrink.from - shrink.to, shrink.cluster);
    }
    let total: i32 = shrinks.iter().map(|shrink| shrink.from - shrink.to).sum();
    let _ = write!(text, ", {total} total descheduled replica(s)");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";
    const LONG_AGO: &str = "2026-01-01T11:54:00Z";
    const LATELY: &str = "2026-01-01T11:58:00Z";

    /// Checks how many replicas `m1` keeps, given its assigned and ready replicas and the unschedulable ones by start
    /// time.
    #[track_caller]
    fn check(given: i32, ready: i64, waiting: &[(&str, i64)], expected: i32) {
        let targets = [
            TargetCluster { name: "m1".to_owned(), replicas: given, ..TargetCluster::default() },
            TargetCluster { name: "m2".to_owned(), replicas: 1, ..TargetCluster::default() },
        ];
        let since: serde_json::Map<String, Value> = waiting.iter().map(|(t, n)| ((*t).to_owned(), json!(n))).collect();
        let total: i64 = waiting.iter().map(|(_, pods)| pods).sum();
        let mut status = json!({"readyReplicas": ready});
        if !waiting.is_empty() {
            status[STATUS_UNSCHEDULABLE] = json!({"replicas": total, "since": since, "message": "full"});
        }
        let statuses = AggregatedStatusItem {
            cluster_name: "m1".to_owned(),
            status: Some(status),
            ..AggregatedStatusItem::default()
        };
        let now = NOW.parse().expect("a time");
        let shrinks = plan_shrinks(&targets, &[statuses], now, Descheduling::default().threshold);
        let left = shrinks.iter().find(|shrink| shrink.cluster == "m1").map_or(given, |shrink| shrink.to);
        assert_eq!(left, expected, "{given} given, {ready} ready, {waiting:?}");
        assert!(shrinks.iter().all(|shrink| shrink.cluster == "m1"), "m2 has no status");
    }

    #[test]
    fn ready_and_recently_pending_replicas_are_kept() {
        check(5, 2, &[(LONG_AGO, 3)], 2);
        check(5, 2, &[(LONG_AGO, 2), (LATELY, 1)], 3);
        check(5, 2, &[(LATELY, 3)], 5);
        check(5, 0, &[(LONG_AGO, 5)], 0);
        // Ready replicas are kept even if fewer would be left.
        check(5, 4, &[(LONG_AGO, 3)], 4);
        // All requested replicas run; surplus pods are up to the member.
        check(5, 5, &[(LONG_AGO, 1)], 5);
        // More pods wait than were assigned: the member has not caught up with its assignment.
        check(2, 0, &[(LONG_AGO, 3)], 2);
        check(5, 2, &[], 5);
        check(5, 2, &[("never", 3)], 5);
    }

    #[test]
    fn the_event_has_the_text_of_karmada() {
        let shrink = |cluster: &str, from, to| Shrink { cluster: cluster.to_owned(), from, to };
        assert_eq!(
            message(&[shrink("m1", 5, 2), shrink("m2", 1, 0)]),
            "Binding has been descheduled, 3 replica(s) in cluster(m1), 1 replica(s) in cluster(m2), 4 total \
             descheduled replica(s)"
        );
    }
}
