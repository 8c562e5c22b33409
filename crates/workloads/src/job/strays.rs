//! Removes the tracking finalizer of pods whose Job is deleted or finished.

use std::sync::Arc;

use cluster_client::ResourceRef;
use object::Object;
use object::builtin;
use reconcile::{Change, Controller, Index, ObjectKey, Outcome, ReconcileError, Source, commit_object};

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::job::spec::{TRACKING_FINALIZER, is_managed_elsewhere, is_tracked};
use crate::job::status::JobStatus;
use crate::owners::{OwnerKey, controller, owned_by};

const WORKERS: usize = 2;

/// Reports whether a pod holds the finalizer but has no Job left to count it.
pub fn is_stray(cluster: &Cluster, pod: &Object) -> bool {
    if !is_tracked(pod) {
        return false;
    }
    let Some(owner) = controller(pod) else { return true };
    if owner["kind"] != "Job" {
        return false;
    }
    let key = ObjectKey::new(pod.namespace(), owner["name"].as_str().unwrap_or_default());
    match cluster.jobs.get(&key).filter(|job| owner["uid"].as_str() == Some(job.uid())) {
        None => true,
        Some(job) => !is_managed_elsewhere(&job) && JobStatus::of(&job).is_finished(),
    }
}

pub async fn run(cluster: Arc<Cluster>, strays: Controller<ObjectKey>) {
    let pods = cluster.pods_by_owner.clone();
    let sources = vec![Source::new(&cluster.jobs, move |change| left_behind(&pods, change))];
    let cancel = cluster.cancelled();
    strays.run(sources, WORKERS, cancel, move |key| reconcile(Arc::clone(&cluster), key)).await;
}

/// Returns the pods of a deleted or finished Job.
fn left_behind(pods: &Index<OwnerKey>, change: &Change) -> Vec<ObjectKey> {
    let is_over = change.now.as_ref().is_none_or(|job| JobStatus::of(job).is_finished());
    let Some(job) = change.now.as_ref().or(change.before.as_ref()).filter(|_| is_over) else { return Vec::new() };
    let held = owned_by(pods, job.uid()).into_iter().filter(|pod| is_tracked(pod));
    held.map(|pod| ObjectKey::of(&pod)).collect()
}

async fn reconcile(cluster: Arc<Cluster>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(pod) = cluster.pods.get(&key).filter(|pod| is_stray(&cluster, pod)) else { return Ok(Outcome::Done) };
    if let Some(owner) = controller(&pod) {
        // The mirror of Jobs may lag behind that of pods, and a Job must not lose an uncounted pod.
        let name = owner["name"].as_str().unwrap_or_default();
        let job = cluster.client.find(ResourceRef::namespaced(&builtin::jobs(), pod.namespace(), name)).await?;
        let is_running = |job: &Object| owner["uid"].as_str() == Some(job.uid()) && !JobStatus::of(job).is_finished();
        if job.is_some_and(|job| is_running(&job)) {
            return Ok(Outcome::Done);
        }
    }
    let mut desired = Object::clone(&pod);
    desired.remove_finalizer(TRACKING_FINALIZER);
    let target = ResourceRef::of(&builtin::pods(), &pod);
    match commit_object(&cluster.client, target, &pod, &desired, FIELD_MANAGER).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}
