//! Reschedules the workloads of a WorkloadRebalancer, and records the result of each.
//!
//! Writes `spec.rescheduleTriggeredAt` of bindings and the status of WorkloadRebalancers, and deletes those whose time
//! after finishing is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::apps::{
    ObservedWorkload, REASON_BINDING_NOT_FOUND, RESULT_FAILED, RESULT_SUCCESSFUL, RebalancerSpec, RebalancerStatus,
    WORKLOAD_REBALANCERS, WorkloadReference,
};
use api::names::binding_name;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use cluster_client::{DeleteOptions, Preconditions, ResourceRef};
use jiff::{SignedDuration, Timestamp};
use object::time::{self, format_seconds};
use object::{Object, Status};
use propagation::binding_scope::check_stored;
use reconcile::{
    Change, Committed, Controller, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, commit_object, commit_status,
};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};

const COMPONENT: &str = "workload-rebalancer";
const WORKERS: usize = 2;

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let rebalancers = plane.mirror(MirrorSpec::new(&WORKLOAD_REBALANCERS.gvr()));
    let sources = vec![Source::new(&rebalancers, rebalancers_with_new_spec)];
    let controller = Controller::new(COMPONENT).observed_by(&plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&plane), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn rebalancers_with_new_spec(change: &Change) -> Vec<ObjectKey> {
    let Some(now) = &change.now else { return Vec::new() };
    let is_same = change.before.as_ref().is_some_and(|before| before.get(&["spec"]) == now.get(&["spec"]));
    if is_same { Vec::new() } else { vec![change.key.clone()] }
}

async fn reconcile(plane: Arc<Plane>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let target = ResourceRef::cluster(&WORKLOAD_REBALANCERS.gvr(), &key.name);
    // Read from the API: its own last write may not have come to the mirror, and what is done is done once.
    let Some(rebalancer) = plane.client.find(target.clone()).await? else { return Ok(Outcome::Done) };
    let spec: RebalancerSpec = api::read(&rebalancer)?;
    let before: RebalancerStatus = api::read_at(&rebalancer, &["status"])?;
    let mut status = merge(&spec, &before, rebalancer.generation());
    let mut trouble = None;
    for entry in status.observed_workloads.iter_mut().filter(|entry| entry.result.is_empty()) {
        match trigger(&plane, &entry.workload, rebalancer.creation_timestamp()).await {
            Ok(()) => entry.result = RESULT_SUCCESSFUL.to_owned(),
            Err(status) if status.is_not_found() => {
                entry.result = RESULT_FAILED.to_owned();
                entry.reason = REASON_BINDING_NOT_FOUND.to_owned();
            }
            Err(status) => trouble = Some(status),
        }
    }
    let now = plane.clock.now();
    if status != before && trouble.is_none() {
        status.finish_time = Some(format_seconds(now));
    }
    let rebalancer = commit(&plane, &target, rebalancer, &status).await?;
    if let Some(trouble) = trouble {
        return Err(trouble.into());
    }
    match remaining(&spec, &status, now) {
        None => Ok(Outcome::Done),
        Some(wait) if !wait.is_zero() => Ok(Outcome::After(wait)),
        Some(_) => delete(&plane, target, &rebalancer).await,
    }
}

/// Returns the workloads of the spec with their results so far. Workloads no longer named are kept if they succeeded.
fn merge(spec: &RebalancerSpec, before: &RebalancerStatus, generation: i64) -> RebalancerStatus {
    let mut named: BTreeSet<&WorkloadReference> = spec.workloads.iter().collect();
    let mut observed: Vec<ObservedWorkload> = Vec::new();
    for entry in &before.observed_workloads {
        if named.remove(&entry.workload) || entry.result == RESULT_SUCCESSFUL {
            observed.push(entry.clone());
        }
    }
    let new = named.into_iter().map(|workload| ObservedWorkload { workload: workload.clone(), ..Default::default() });
    observed.extend(new);
    observed.sort_by_key(|entry| {
        let WorkloadReference { api_version, kind, name, namespace } = &entry.workload;
        format!("{api_version} {kind} {namespace} {name}")
    });
    RebalancerStatus {
        observed_workloads: observed,
        observed_generation: generation,
        finish_time: before.finish_time.clone(),
    }
}

/// Requests a reschedule of a workload as of the creation of the rebalancer. A later request is kept.
async fn trigger(plane: &Plane, workload: &WorkloadReference, made_at: &str) -> Result<(), Status> {
    let name = binding_name(&workload.kind, &workload.name);
    let target = match workload.namespace.as_str() {
        "" => ResourceRef::cluster(&CLUSTER_RESOURCE_BINDINGS.gvr(), &name),
        namespace => ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), namespace, &name),
    };
    let binding = plane.client.get(target.clone()).await?;
    check_stored(&binding).map_err(|refusal| Status::bad_request(refusal.to_string()))?;
    if !is_older(binding.str_at(&["spec", "rescheduleTriggeredAt"]), made_at) {
        return Ok(());
    }
    let mut desired = Object::clone(&binding);
    desired.set(&["spec", "rescheduleTriggeredAt"], made_at);
    commit_object(&plane.client, target, &binding, &desired, FIELD_MANAGER).await?;
    Ok(())
}

/// Is the time of the last request before this one? No time at all is.
fn is_older(triggered_at: &str, made_at: &str) -> bool {
    match (time::parse(triggered_at), time::parse(made_at)) {
        (Some(before), Some(now)) => before < now,
        (before, _) => before.is_none(),
    }
}

async fn commit(
    plane: &Plane,
    target: &ResourceRef,
    rebalancer: Arc<Object>,
    status: &RebalancerStatus,
) -> Result<Arc<Object>, Status> {
    let mut desired = Object::clone(&rebalancer);
    desired.set(&["status"], serde_json::to_value(status).unwrap_or_default());
    match commit_status(&plane.client, target.clone(), &rebalancer, &desired, FIELD_MANAGER).await? {
        Committed::Unchanged => Ok(rebalancer),
        Committed::Written(written) => Ok(written),
    }
}

/// Time a finished rebalancer is kept; `None` means forever.
fn remaining(spec: &RebalancerSpec, status: &RebalancerStatus, now: Timestamp) -> Option<Duration> {
    let kept = SignedDuration::from_secs(spec.ttl_seconds_after_finished?.into());
    let finished = time::parse(status.finish_time.as_deref()?)?;
    Some(Duration::try_from(finished.checked_add(kept).ok()?.duration_since(now)).unwrap_or_default())
}

async fn delete(plane: &Plane, target: ResourceRef, rebalancer: &Object) -> Result<Outcome, ReconcileError> {
    let version = Some(rebalancer.resource_version().to_owned());
    let preconditions = Preconditions { resource_version: version, uid: Some(rebalancer.uid().to_owned()) };
    match plane.client.delete(target, DeleteOptions { preconditions, ..Default::default() }).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use serde_json::json;

    use super::*;
    use crate::testing::{self, eventually};

    fn workload(name: &str) -> WorkloadReference {
        WorkloadReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
            namespace: "default".to_owned(),
        }
    }

    fn entry(name: &str, result: &str) -> ObservedWorkload {
        ObservedWorkload { workload: workload(name), result: result.to_owned(), ..Default::default() }
    }

    #[test]
    fn results_are_kept_for_named_and_for_successful_workloads() {
        let spec = RebalancerSpec { workloads: vec![workload("c"), workload("a")], ttl_seconds_after_finished: None };
        let before = RebalancerStatus {
            observed_workloads: vec![entry("a", "Failed"), entry("b", "Successful"), entry("d", "Failed")],
            ..Default::default()
        };
        let merged = merge(&spec, &before, 7);
        assert_eq!(merged.observed_workloads, [entry("a", "Failed"), entry("b", "Successful"), entry("c", "")]);
        assert_eq!(merged.observed_generation, 7);
    }

    #[test]
    fn a_later_request_is_not_overwritten() {
        for (before, expected) in [
            ("", true),
            ("2026-01-01T00:00:00Z", true),
            ("2026-05-01T00:00:00Z", false),
            ("2026-06-01T00:00:00Z", false),
        ] {
            assert_eq!(is_older(before, "2026-05-01T00:00:00Z"), expected, "{before}");
        }
    }

    fn seed_binding(api: &MemoryApi, name: &str) {
        let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": 1,
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "a"}}});
        api.seed(&RESOURCE_BINDINGS.gvr(), testing::object(binding));
    }

    #[tokio::test(start_paused = true)]
    async fn named_workloads_are_triggered_once_and_a_finished_rebalancer_is_deleted() {
        let api = MemoryApi::default();
        seed_binding(&api, "a-deployment");
        seed_binding(&api, "b-deployment");
        let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
            "metadata": {"name": "r"}, "spec": {"workloads": [workload("a"), workload("b"), workload("none")],
            "ttlSecondsAfterFinished": 60}});
        let failing = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let is_failing = Arc::clone(&failing);
        api.set_fault(move |call| {
            let is_b = call.target.name.as_deref() == Some("b-deployment");
            (is_b && is_failing.load(std::sync::atomic::Ordering::Relaxed)).then(|| Status::unavailable("not now"))
        });
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        let made = api.seed(&WORKLOAD_REBALANCERS.gvr(), testing::object(rebalancer));
        let target = ResourceRef::cluster(&WORKLOAD_REBALANCERS.gvr(), "r");
        let client = api.client();
        let results = async || {
            let rebalancer = client.get(target.clone()).await.expect("there");
            let status: RebalancerStatus = api::read_at(&rebalancer, &["status"]).expect("readable");
            let results = status.observed_workloads.iter().map(|entry| entry.result.clone()).collect::<Vec<_>>();
            (results, status.finish_time.is_some())
        };
        let list = |results: [&str; 3]| results.map(str::to_owned).to_vec();
        eventually("all but one", async || results().await == (list(["Successful", "", "Failed"]), false)).await;
        failing.store(false, std::sync::atomic::Ordering::Relaxed);
        eventually("all", async || results().await == (list(["Successful", "Successful", "Failed"]), true)).await;
        let binding = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", "a-deployment");
        let binding = client.get(binding).await.expect("there");
        assert_eq!(binding.str_at(&["spec", "rescheduleTriggeredAt"]), made.creation_timestamp());
        let writes = api.calls().iter().filter(|c| *c == "patch resourcebindings default/a-deployment").count();
        assert_eq!(writes, 1);
        eventually("it goes", async || client.find(target.clone()).await.expect("answers").is_none()).await;
        cancel.cancel();
    }
}
