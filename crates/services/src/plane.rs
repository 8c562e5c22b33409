//! State shared by the controllers of this crate, and the writes they have in common.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::work::WORKS;
use cluster_client::{ClusterClient, DeleteOptions, Patch, Preconditions, ResourceRef, WriteOptions};
use object::conditions::{self, NewCondition};
use object::{Object, Status};
use plane_metrics::PlaneMetrics;
use propagation::services::collection::{Collector, Released, ServiceKey, collected_for};
use propagation::services::exposure::{carries_service, check_cluster};
use propagation::works::{DesiredWork, WorkChange};
use reconcile::{
    Change, Clock, Committed, Index, Mirror, Mirrors, ObjectKey, ReconcileError, Recorder, commit_object, commit_status,
};
use tokio_util::sync::CancellationToken;

use crate::settings::ServiceSettings;
use crate::start::ServiceDeps;

/// Field manager of the writes.
pub const FIELD_MANAGER: &str = "karmada-controller-manager";
/// Attempts to write a status that others write too.
const STATUS_WRITES_MAX: usize = 5;

pub struct ServicePlane {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: ServiceSettings,
    pub mirrors: Mirrors,
    pub clusters: Mirror,
    pub works: Mirror,
    /// Works by the MultiClusterService in their labels, also of forged ones.
    pub works_by_service: Index<ServiceKey>,
}

impl ServicePlane {
    pub fn start(parts: ServiceDeps) -> Arc<Self> {
        let ServiceDeps { mirrors, features: _, clock, metrics, settings } = parts;
        let works = mirrors.packed(&WORKS.gvr());
        Arc::new(Self {
            clusters: mirrors.of(&CLUSTERS.gvr()),
            works_by_service: works.index(|work| Collector::Service.service_of(work).into_iter().collect()),
            works,
            client: mirrors.client().clone(),
            mirrors,
            clock,
            metrics,
            settings,
        })
    }

    /// Records events under the name of a Karmada component.
    pub fn recorder(&self, component: &'static str, cancel: &CancellationToken) -> Recorder {
        Recorder::start(self.client.clone(), component, Arc::clone(&self.clock), cancel.clone())
    }

    pub fn cluster(&self, name: &str) -> Option<Arc<Object>> {
        self.clusters.get(&ObjectKey::new("", name))
    }

    /// The names of all clusters.
    pub fn cluster_names(&self) -> BTreeSet<String> {
        self.clusters.list().iter().map(|cluster| cluster.name().to_owned()).collect()
    }

    /// Makes a Work as desired. Reports whether something was written.
    pub async fn commit_work(&self, desired: DesiredWork) -> Result<bool, ReconcileError> {
        let key = ObjectKey::new(&desired.namespace, &desired.name);
        let existing = self.works.get(&key);
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        let written = match desired.plan(existing.as_deref()).map_err(ReconcileError::other)? {
            WorkChange::Unchanged => return Ok(false),
            WorkChange::Create(work) => {
                self.client.create(ResourceRef::within(&WORKS.gvr(), &key.namespace), work, options).await?
            }
            WorkChange::Patch(patch) => {
                self.client.patch(self.works.target(&key), Patch::merge(patch), options).await?
            }
        };
        self.works.note(&written);
        Ok(true)
    }

    /// Deletes a Work that is not being deleted already.
    pub async fn delete_work(&self, work: &Arc<Object>) -> Result<(), Status> {
        if work.is_deleting() {
            return Ok(());
        }
        delete(&self.client, &self.works, work).await
    }

    /// Takes the marks of MultiClusterService off a collected Work, which goes unless a ServiceExport wants it too.
    pub async fn release_collected(&self, work: &Arc<Object>) -> Result<(), Status> {
        match propagation::services::collection::release(work, &[Collector::Service]) {
            Released::Delete => self.delete_work(work).await,
            Released::Relabel(desired) => self.update_work(work, &desired).await,
        }
    }

    /// Writes the changed metadata of a Work.
    pub async fn update_work(&self, work: &Arc<Object>, desired: &Object) -> Result<(), Status> {
        let target = self.works.target(&ObjectKey::of(work));
        match commit_object(&self.client, target, work, desired, FIELD_MANAGER).await {
            Ok(Committed::Written(written)) => self.works.note(&written),
            Ok(Committed::Unchanged) => {}
            Err(status) if status.is_not_found() => self.works.note_gone(work),
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Takes a finalizer off a Work.
    pub async fn release_work(&self, work: &Arc<Object>, finalizer: &str) -> Result<(), Status> {
        let mut desired = Object::clone(work);
        match desired.remove_finalizer(finalizer) {
            true => self.update_work(work, &desired).await,
            false => Ok(()),
        }
    }

    /// Sets and removes conditions that others of the same object leave alone. Reports whether they changed.
    pub async fn commit_conditions(
        &self,
        mirror: &Mirror,
        object: &Arc<Object>,
        set: &[NewCondition<'_>],
        removed: &[&str],
    ) -> Result<bool, Status> {
        let target = mirror.target(&ObjectKey::of(object));
        let mut current = Arc::clone(object);
        for attempt in 1.. {
            let mut desired = Object::clone(&current);
            for condition in set {
                conditions::set(&mut desired, condition, self.clock.now());
            }
            removed.iter().for_each(|kind| conditions::remove(&mut desired, kind));
            match commit_status(&self.client, target.clone(), &current, &desired, FIELD_MANAGER).await {
                Ok(Committed::Unchanged) => return Ok(false),
                Ok(Committed::Written(written)) => {
                    mirror.note(&written);
                    return Ok(true);
                }
                Err(status) if status.is_conflict() && attempt < STATUS_WRITES_MAX => {}
                Err(status) if status.is_not_found() => return Ok(false),
                Err(status) => return Err(status),
            }
            match self.client.find(target.clone()).await? {
                Some(live) if live.uid() == object.uid() => current = live,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }
}

/// Deletes this very object.
pub async fn delete(client: &ClusterClient, mirror: &Mirror, object: &Arc<Object>) -> Result<(), Status> {
    let preconditions = Preconditions { uid: Some(object.uid().to_owned()), resource_version: None };
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    match client.delete(mirror.target(&ObjectKey::of(object)), options).await {
        Ok(answer) => mirror.note_deleted(object, &answer),
        Err(status) if status.is_not_found() => mirror.note_gone(object),
        Err(status) => return Err(status),
    }
    Ok(())
}

/// Reports whether the ability of a cluster to take part in services has changed.
pub fn has_cluster_turned(change: &Change) -> bool {
    let able = |cluster: &Option<Arc<Object>>| {
        (check_cluster(cluster.as_deref()), cluster.as_ref().is_some_and(|cluster| cluster.is_deleting()))
    };
    change.before.is_none() || change.now.is_none() || able(&change.before) != able(&change.now)
}

/// Reports whether a Work differs in more than its status.
pub fn has_work_changed(change: &Change) -> bool {
    match (&change.before, &change.now) {
        (Some(before), Some(now)) => {
            let same = |path: &[&str]| before.get(path) == now.get(path);
            before.generation() != now.generation()
                || before.uid() != now.uid()
                || before.is_deleting() != now.is_deleting()
                || !["labels", "annotations", "finalizers"].iter().all(|field| same(&["metadata", field]))
        }
        _ => true,
    }
}

/// Works of a service that hold slices collected from its providers.
pub fn is_collected_for_service(work: &Object) -> bool {
    !carries_service(work) && !collected_for(work).is_empty()
}
