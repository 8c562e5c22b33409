//! Takes replicas away from clusters whose nodes have had no room for them for long, so that they go elsewhere.
//!
//! Karmada's descheduler: looks at Deployments that are divided by room every so often. What the pods of a member wait for
//! comes with the status of its works. Writes `spec.clusters` of bindings; the scheduler then places what is missing.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use api::policy::{Placement, is_dynamic};
use api::work::{AggregatedStatusItem, STATUS_UNSCHEDULABLE, TargetCluster, Unschedulable};
use jiff::{SignedDuration, Timestamp};
use object::{Object, Status};
use reconcile::{ObjectKey, Recorder, Regarding, commit_object};
use serde_json::{Value, json};

use crate::Room;
use crate::gather::Binding;

/// Who writes and tells.
pub const COMPONENT: &str = "karmada-descheduler";

/// Index of bindings: those some of whose replicas find no node.
pub const BY_UNSCHEDULABLE: &str = "unschedulable";
const YES: &str = "yes";

/// Karmada's flags with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descheduling {
    /// Between two looks.
    pub interval: Duration,
    /// How long a pod must have found no node.
    pub threshold: Duration,
}

impl Default for Descheduling {
    fn default() -> Self {
        Self { interval: Duration::from_secs(120), threshold: Duration::from_secs(300) }
    }
}

/// What a cluster is to have less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrink {
    pub cluster: String,
    pub from: i32,
    pub to: i32,
}

pub fn is_unschedulable(binding: &Object) -> Vec<String> {
    let items = binding.items(&["status", "aggregatedStatus"]);
    let tells = |item: &Value| item["status"].get(STATUS_UNSCHEDULABLE).is_some();
    if items.iter().any(tells) { vec![YES.to_owned()] } else { Vec::new() }
}

/// Looks every so often, until dropped.
pub async fn watch(room: &Arc<Room>, descheduling: Descheduling, recorder: &Recorder) {
    loop {
        tokio::time::sleep(descheduling.interval).await;
        for object in room.bindings.list_by(BY_UNSCHEDULABLE, YES) {
            if let Err(error) = look_at(room, descheduling, recorder, &object).await {
                tracing::warn!(binding = %ObjectKey::of(&object), %error, "replicas cannot be taken away");
            }
        }
    }
}

async fn look_at(
    room: &Room,
    descheduling: Descheduling,
    recorder: &Recorder,
    object: &Arc<Object>,
) -> Result<(), Status> {
    let binding = Binding::read(object)?;
    if object.is_deleting() || !is_concerned(&binding) {
        return Ok(());
    }
    let (targets, told) = (&binding.spec.clusters, &binding.status.aggregated_status);
    let shrinks = plan_shrinks(targets, told, room.clock.now(), descheduling.threshold);
    if shrinks.is_empty() {
        return Ok(());
    }
    let shrunk = |target: &TargetCluster| {
        let found = shrinks.iter().find(|shrink| shrink.cluster == target.name);
        TargetCluster { replicas: found.map_or(target.replicas, |shrink| shrink.to), ..target.clone() }
    };
    let mut desired = Object::clone(object);
    desired.set(&["spec", "clusters"], json!(targets.iter().map(shrunk).collect::<Vec<_>>()));
    let target = room.bindings.target(&binding.key);
    let written = commit_object(&room.client, target, object, &desired, COMPONENT).await;
    tell(recorder, &binding, &shrinks, written.as_ref().err());
    match written {
        // It has changed or gone meanwhile and is looked at again next time, as it is then.
        Err(status) if status.is_conflict() || status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

/// Deployments whose replicas were divided by what clusters have room for.
fn is_concerned(binding: &Binding) -> bool {
    let resource = &binding.spec.resource;
    let placement: Option<Placement> = serde_json::from_str(binding.applied_placement()).ok();
    resource.api_version == "apps/v1" && resource.kind == "Deployment" && placement.is_some_and(|p| is_dynamic(&p))
}

/// Never below what is ready, and never on doubt: what is not told of a cluster stays.
pub fn plan_shrinks(
    targets: &[TargetCluster],
    told: &[AggregatedStatusItem],
    now: Timestamp,
    threshold: Duration,
) -> Vec<Shrink> {
    let shrink = |target: &TargetCluster| {
        let status = told.iter().find(|item| item.cluster_name == target.name)?.status.as_ref()?;
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

fn tell(recorder: &Recorder, binding: &Binding, shrinks: &[Shrink], error: Option<&Status>) {
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

    /// What `m1` was given, how many of them are ready, since when how many find no node, and how many it keeps.
    #[track_caller]
    fn check(given: i32, ready: i64, waiting: &[(&str, i64)], expected: i32) {
        let targets = [
            TargetCluster { name: "m1".to_owned(), replicas: given },
            TargetCluster { name: "m2".to_owned(), replicas: 1 },
        ];
        let since: serde_json::Map<String, Value> = waiting.iter().map(|(t, n)| ((*t).to_owned(), json!(n))).collect();
        let total: i64 = waiting.iter().map(|(_, pods)| pods).sum();
        let mut status = json!({"readyReplicas": ready});
        if !waiting.is_empty() {
            status[STATUS_UNSCHEDULABLE] = json!({"replicas": total, "since": since, "message": "full"});
        }
        let told = AggregatedStatusItem {
            cluster_name: "m1".to_owned(),
            status: Some(status),
            ..AggregatedStatusItem::default()
        };
        let now = NOW.parse().expect("a time");
        let shrinks = plan_shrinks(&targets, &[told], now, Descheduling::default().threshold);
        let left = shrinks.iter().find(|shrink| shrink.cluster == "m1").map_or(given, |shrink| shrink.to);
        assert_eq!(left, expected, "{given} given, {ready} ready, {waiting:?}");
        assert!(shrinks.iter().all(|shrink| shrink.cluster == "m1"), "of m2 nothing is known");
    }

    #[test]
    fn a_cluster_keeps_what_runs_or_has_not_waited_long() {
        check(5, 2, &[(LONG_AGO, 3)], 2);
        check(5, 2, &[(LONG_AGO, 2), (LATELY, 1)], 3);
        check(5, 2, &[(LATELY, 3)], 5);
        check(5, 0, &[(LONG_AGO, 5)], 0);
        // More are ready than would be left: those stay.
        check(5, 4, &[(LONG_AGO, 3)], 4);
        // All that was asked for runs; pods too many are the member's own affair.
        check(5, 5, &[(LONG_AGO, 1)], 5);
        // More wait than were given: the member is still on its way to what it was given.
        check(2, 0, &[(LONG_AGO, 3)], 2);
        check(5, 2, &[], 5);
        check(5, 2, &[("never", 3)], 5);
    }

    #[test]
    fn the_event_says_what_karmadas_says() {
        let shrink = |cluster: &str, from, to| Shrink { cluster: cluster.to_owned(), from, to };
        assert_eq!(
            message(&[shrink("m1", 5, 2), shrink("m2", 1, 0)]),
            "Binding has been descheduled, 3 replica(s) in cluster(m1), 1 replica(s) in cluster(m2), 4 total \
             descheduled replica(s)"
        );
    }
}
