//! The life of a cluster in the plane: its execution namespace, the taints its condition asks for, its finalizer, and
//! how it leaves. Writes `spec.taints` and the finalizer of Clusters; wakes on clusters, on execution namespaces and,
//! while a cluster leaves, on bindings that let go of it.

mod admit;
mod remove;

use std::collections::HashMap;
use std::sync::Arc;

use cluster_client::{ResourceRef, WriteOptions};
use object::{GroupVersionKind, Object, Status};
use parking_lot::Mutex;
use reconcile::{Change, Committed, Controller, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_object};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane, cluster_of_lost_space, namespaces, target_names};
use crate::taints;

const COMPONENT: &str = "cluster-controller";

pub struct Lifecycle {
    plane: Arc<Plane>,
    events: Recorder,
    /// Progress of running removals; an entry is dropped with its cluster.
    removals: Mutex<HashMap<String, remove::Progress>>,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let events = plane.recorder(COMPONENT, &cancel);
    let mut sources = vec![Source::each(&plane.clusters), Source::new(&plane.namespaces, cluster_of_lost_space)];
    for mirror in &plane.bindings {
        let plane = Arc::clone(&plane);
        sources.push(Source::changes(mirror, move |change| released_clusters(&plane, change)));
    }
    let workers = plane.settings.concurrent_cluster_syncs;
    let lifecycle = Arc::new(Lifecycle { plane, events, removals: Mutex::default() });
    let controller = Controller::new(COMPONENT).observed_by(&lifecycle.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&lifecycle), key);
    controller.run(sources, workers, cancel, reconcile).await;
}

/// Leaving clusters that a binding placed on and no longer does.
fn released_clusters(plane: &Plane, change: &Change) -> Vec<ObjectKey> {
    let Some(before) = change.before.as_ref().filter(|_| plane.is_anything_leaving()) else { return Vec::new() };
    let is_kept = |name: &str| change.now.as_ref().is_some_and(|now| target_names(now).any(|kept| kept == name));
    let released = target_names(before).filter(|name| !is_kept(name));
    let leaving = released.filter(|name| plane.cluster(name).is_some_and(|cluster| cluster.is_deleting()));
    leaving.map(|name| ObjectKey::new("", name)).collect()
}

async fn reconcile(lifecycle: Arc<Lifecycle>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(cluster) = lifecycle.plane.clusters.get(&key) else {
        lifecycle.removals.lock().remove(&key.name);
        return Ok(Outcome::Done);
    };
    if cluster.is_deleting() {
        return lifecycle.remove(&cluster).await;
    }
    lifecycle.admit(&cluster).await
}

impl Lifecycle {
    async fn admit(&self, cluster: &Object) -> Result<Outcome, ReconcileError> {
        if let Err(status) = self.ensure_execution_space(cluster).await {
            self.events.warning(cluster, "CreateExecutionSpaceFailed", status.to_string());
            return Err(status.into());
        }
        let (desired, has_new_taints) = admit::plan(cluster, self.plane.clock.now());
        let target = self.plane.clusters.target(&ObjectKey::of(cluster));
        let result = commit_object(&self.plane.client, target, cluster, &desired, FIELD_MANAGER).await;
        match result {
            Ok(Committed::Written(_)) if has_new_taints => {
                let described = taints::describe(desired.items(&["spec", "taints"]));
                self.events.normal(cluster, "TaintClusterSucceed", format!("Taint cluster succeed: {described}."));
            }
            Err(status) if has_new_taints && !status.is_conflict() => {
                self.events.warning(cluster, "TaintClusterFailed", status.to_string());
                return Err(status.into());
            }
            Err(status) => return Err(status.into()),
            Ok(_) => {}
        }
        Ok(Outcome::Done)
    }

    /// A namespace that still goes, of an earlier cluster of that name, wakes this again when it has gone.
    async fn ensure_execution_space(&self, cluster: &Object) -> Result<(), Status> {
        let name = api::names::execution_namespace(cluster.name());
        if self.plane.namespaces.get(&ObjectKey::new("", &name)).is_some() {
            return Ok(());
        }
        let mut namespace = Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, &name);
        namespace.set_label(api::cluster::LABEL_SYSTEM, "true");
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match self.plane.client.create(ResourceRef::all(&namespaces()), namespace, options).await {
            Ok(_) => {
                let message = format!("Created execution space({name}) for cluster({}).", cluster.name());
                self.events.normal(cluster, "CreateExecutionSpaceSucceed", message);
                Ok(())
            }
            Err(status) if status.is_already_exists() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

#[cfg(test)]
mod tests;
