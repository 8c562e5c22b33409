//! Gives members the parts of a quota that are assigned to them, as ResourceQuotas.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::policy::{FEDERATED_RESOURCE_QUOTAS, LABEL_QUOTA_NAME, LABEL_QUOTA_NAMESPACE, QuotaSpec};
use api::work::WORKS;
use cluster_client::{DeleteOptions, ResourceRef};
use object::{GroupVersionKind, Object, Status};
use propagation::works::DesiredWork;
use reconcile::{Change, Controller, Index, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::plane::{Plane, cluster_of_new_space, new_cluster};
use crate::quota::{parts_by_quota, quota_of};
use crate::works;

const COMPONENT: &str = "federated-resource-quota-sync-controller";
const WORKERS: usize = 2;

struct Assignments {
    plane: Arc<Plane>,
    quotas: Mirror,
    parts: Index<ObjectKey>,
    events: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let quotas = plane.mirror(MirrorSpec::new(&FEDERATED_RESOURCE_QUOTAS.gvr()));
    let by_cluster = quotas.index(assigned_clusters);
    let context = Arc::new(Assignments {
        quotas,
        parts: parts_by_quota(&plane),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let by_space = by_cluster.clone();
    let sources = vec![
        Source::new(&context.quotas, quotas_with_new_parts),
        Source::new(context.parts.mirror(), quotas_of_lost_parts),
        Source::new(&context.plane.clusters, move |change| assigned_to(&by_cluster, &new_cluster(change))),
        Source::new(&context.plane.namespaces, move |change| assigned_to(&by_space, &cluster_of_new_space(change))),
    ];
    let controller = Controller::new(COMPONENT).observed_by(&context.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&context), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn assigned_to(quotas: &Index<String>, clusters: &[ObjectKey]) -> Vec<ObjectKey> {
    clusters.iter().flat_map(|cluster| quotas.keys(&cluster.name)).collect()
}

fn quotas_with_new_parts(change: &Change) -> Vec<ObjectKey> {
    let parts =
        |quota: &Option<Arc<Object>>| quota.as_ref().map(|quota| quota.get(&["spec", "staticAssignments"]).cloned());
    if parts(&change.before) == parts(&change.now) { Vec::new() } else { vec![change.key.clone()] }
}

/// Works that were deleted by hand, and at the start all: their quota may have been deleted during downtime.
fn quotas_of_lost_parts(change: &Change) -> Vec<ObjectKey> {
    let work = if change.is_initial { &change.now } else { &change.before };
    let is_lost = change.is_initial || change.now.is_none();
    work.as_ref().filter(|_| is_lost).and_then(|work| quota_of(work)).into_iter().collect()
}

async fn reconcile(context: Arc<Assignments>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let quota = context.quotas.get(&key);
    let spec: QuotaSpec = quota.as_ref().map(|quota| api::read(quota)).transpose()?.unwrap_or_default();
    let mut is_changed = false;
    for work in context.parts.list(&key) {
        if is_orphan(&work, &spec) {
            context.delete(&work).await?;
            is_changed = true;
        }
    }
    let Some(quota) = quota.filter(|quota| !quota.is_deleting()) else { return Ok(Outcome::Done) };
    match context.commit_parts(&key, &spec).await {
        Ok(false) if !is_changed => Ok(Outcome::Done),
        Ok(_) => {
            let message = format!("Sync works for FederatedResourceQuota({key}) succeed.");
            context.events.normal(&*quota, "SyncWorkSucceed", message);
            Ok(Outcome::Done)
        }
        Err(error) => {
            if !error.is_conflict() {
                context.events.warning(&*quota, "SyncWorkFailed", error.to_string());
            }
            Err(error)
        }
    }
}

impl Assignments {
    /// All clusters are tried; the first error is returned at the end. True when something was written.
    async fn commit_parts(&self, key: &ObjectKey, spec: &QuotaSpec) -> Result<bool, ReconcileError> {
        let mut result = Ok(false);
        for work in plan_parts(key, spec, |cluster| self.plane.takes_works(cluster)) {
            result = match (works::commit(&self.plane.client, work).await, result) {
                (_, Err(first)) => Err(first),
                (committed, Ok(is_written)) => committed.map(|is_new| is_new || is_written),
            };
        }
        result
    }

    async fn delete(&self, work: &Object) -> Result<(), Status> {
        let target = ResourceRef::of(&WORKS.gvr(), work);
        match self.plane.client.delete(target, DeleteOptions::default()).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

/// One work for each cluster with a part. Of two parts for the same cluster the first counts.
fn plan_parts(key: &ObjectKey, spec: &QuotaSpec, takes_works: impl Fn(&str) -> bool) -> Vec<DesiredWork> {
    let mut parts = BTreeMap::new();
    for assignment in &spec.static_assignments {
        parts.entry(&assignment.cluster_name).or_insert(&assignment.hard);
    }
    let wanted = parts.into_iter().filter(|(cluster, hard)| !hard.is_empty() && takes_works(cluster));
    wanted
        .map(|(cluster, hard)| {
            let gvk = GroupVersionKind::new("", "v1", "ResourceQuota");
            let mut manifest = Object::new(&gvk, Some(&key.namespace), &key.name);
            manifest.set(&["spec"], json!({"hard": hard}));
            let mut work = DesiredWork::new(cluster, manifest);
            work.labels.insert(LABEL_QUOTA_NAMESPACE.to_owned(), key.namespace.clone());
            work.labels.insert(LABEL_QUOTA_NAME.to_owned(), key.name.clone());
            work
        })
        .collect()
}

fn is_orphan(work: &Object, spec: &QuotaSpec) -> bool {
    let cluster = api::names::cluster_of_execution_namespace(work.namespace());
    !spec.static_assignments.iter().any(|assignment| Some(assignment.cluster_name.as_str()) == cluster)
}

fn assigned_clusters(quota: &Object) -> Vec<String> {
    let assignments = quota.items(&["spec", "staticAssignments"]).iter();
    assignments.filter_map(|assignment| assignment["clusterName"].as_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use serde_json::Value;

    use super::*;
    use crate::plane::namespaces;
    use crate::testing::{self, eventually};

    fn seed_quota(api: &MemoryApi, assignments: Value) {
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q", "namespace": "team"}, "spec": {"overall": {"cpu": "9"},
            "staticAssignments": assignments}});
        api.seed(&FEDERATED_RESOURCE_QUOTAS.gvr(), testing::object(quota));
    }

    /// The cluster and cpu of every part there is.
    async fn parts(api: &MemoryApi) -> Vec<(String, String)> {
        let works = api.client().list_all(ResourceRef::all(&WORKS.gvr()), Default::default()).await;
        let part = |work: &Arc<Object>| {
            assert_eq!(quota_of(work), Some(ObjectKey::new("team", "q")));
            let manifest = &work.items(&["spec", "workload", "manifests"])[0];
            assert_eq!(
                (&manifest["kind"], &manifest["metadata"]["namespace"]),
                (&json!("ResourceQuota"), &json!("team"))
            );
            let cluster = api::names::cluster_of_execution_namespace(work.namespace()).unwrap_or_default();
            (cluster.to_owned(), manifest["spec"]["hard"]["cpu"].as_str().unwrap_or_default().to_owned())
        };
        works.expect("lists").items.iter().filter(|work| !work.is_deleting()).map(part).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(cluster, cpu)| ((*cluster).to_owned(), (*cpu).to_owned())).collect()
    }

    fn part(cluster: &str, cpu: &str) -> Value {
        json!({"clusterName": cluster, "hard": {"cpu": cpu}})
    }

    #[tokio::test(start_paused = true)]
    async fn members_get_their_assigned_quota_until_it_is_removed() {
        let api = MemoryApi::default();
        testing::seed_member(&api, "m1");
        testing::seed_member(&api, "m2");
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        seed_quota(&api, json!([part("m1", "1"), part("m3", "3")]));
        eventually("m1 has its part", async || parts(&api).await == pairs(&[("m1", "1")])).await;
        testing::seed_member(&api, "m3");
        eventually("m3 too", async || parts(&api).await == pairs(&[("m1", "1"), ("m3", "3")])).await;
        seed_quota(&api, json!([part("m2", "2"), part("m3", "4")]));
        eventually("parts moved", async || parts(&api).await == pairs(&[("m2", "2"), ("m3", "4")])).await;
        let target = ResourceRef::namespaced(&FEDERATED_RESOURCE_QUOTAS.gvr(), "team", "q");
        api.client().delete(target, DeleteOptions::default()).await.expect("deleted");
        eventually("no part is left", async || parts(&api).await.is_empty()).await;
        cancel.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn works_of_a_deleted_quota_are_removed_after_a_restart() {
        let api = MemoryApi::default();
        testing::seed_member(&api, "m1");
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "w", "namespace": "karmada-es-m1",
                "labels": {LABEL_QUOTA_NAMESPACE: "team", LABEL_QUOTA_NAME: "q"}},
            "spec": {"workload": {"manifests": [{"kind": "ResourceQuota", "metadata": {"namespace": "team"}}]}}});
        api.seed(&WORKS.gvr(), testing::object(work));
        api.seed(&namespaces(), testing::namespace("team"));
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        eventually("no part is left", async || parts(&api).await.is_empty()).await;
        cancel.cancel();
    }
}
