//! Maintains EndpointSlices and Endpoints from Services and the readiness of pods.

mod legacy;
mod pod;
mod service;
mod slices;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef, WriteOptions};
use object::{GroupVersionResource, Object};
use reconcile::{Change, Committed, Controller, ObjectKey, Outcome, Priority, ReconcileError, Source, commit_object};

use crate::endpoints::pod::PodEndpoint;
use crate::endpoints::slices::{MANAGED_BY, MANAGER, SlicePlan, plan_slices};
use crate::members::Members;
use crate::own_writes::OwnWrites;
use crate::resources;
use crate::room::{BY_SERVICE, FIELD_MANAGER, Room};
use crate::start::Service;

const WORKERS: usize = 4;
const ZONE: &str = "topology.kubernetes.io/zone";
/// The batch period grows by one for each such number of pods of a Service.
const PODS_PER_BATCH_PERIOD: usize = 50;
/// Retry interval while the mirror lacks our last write.
const MIRROR_LAG: Duration = Duration::from_millis(20);

struct Endpoints {
    room: Arc<Room>,
    members: Members<PodEndpoint>,
    slice_writes: OwnWrites,
    legacy_writes: OwnWrites,
}

pub fn start(room: &Arc<Room>) -> Service {
    let controller = Controller::new("endpointslice-controller");
    let endpoints = Arc::new(Endpoints {
        room: Arc::clone(room),
        members: Members::new(pod::read),
        slice_writes: OwnWrites::default(),
        legacy_writes: OwnWrites::default(),
    });
    let (listener, queue) = (Arc::clone(&endpoints), controller.clone());
    let batch = room.settings.endpoints_batch_period;
    let tell = move |change: &Change| {
        for service in listener.members.pod_changed(change) {
            // Pods of a Service tend to change together, and the objects of large Services are large.
            let share = 1 + listener.members.count(&service) / PODS_PER_BATCH_PERIOD;
            queue.queue().add_after(service, batch * share as u32, Priority::NORMAL);
        }
    };
    Service::new(run(endpoints, controller)).hearing_of_pods(tell)
}

async fn run(endpoints: Arc<Endpoints>, controller: Controller<ObjectKey>) {
    let room = Arc::clone(&endpoints.room);
    let sources = vec![
        Source::each(&room.services),
        // Reverts changes and deletions by others.
        Source::new(&room.slices, |change| {
            let states = [&change.before, &change.now].into_iter().flatten();
            let ours = states.filter(|slice| slice.label(MANAGED_BY) == Some(MANAGER));
            let names = ours.filter_map(|slice| slice.label(slices::SERVICE_NAME));
            let mut keys: Vec<ObjectKey> = names.map(|name| ObjectKey::new(&change.key.namespace, name)).collect();
            keys.dedup();
            keys
        }),
        Source::new(&room.endpoints, |change| match change.now {
            None => vec![change.key.clone()],
            Some(_) => Vec::new(),
        }),
    ];
    let cancel = room.cancel.clone();
    let reconcile = move |key: ObjectKey| {
        let endpoints = Arc::clone(&endpoints);
        async move { endpoints.reconcile(&key).await }
    };
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

impl Endpoints {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let service = self.room.services.get(key).filter(|service| !service.is_deleting());
        let Some((service, selector)) = service.and_then(|s| service::selector_of(&s).map(|selector| (s, selector)))
        else {
            self.members.remove_selector(key);
            // Slices are garbage-collected with their Service; Services without a selector are not managed here.
            return self.remove_legacy(key).await;
        };
        let is_ahead = self.slice_writes.is_ahead_of(key, &self.room.slices)
            || self.legacy_writes.is_ahead_of(key, &self.room.endpoints);
        if is_ahead {
            return Ok(Outcome::After(MIRROR_LAG));
        }
        self.members.set_selector(key, selector, &self.room.pods);
        let wanted = service::plan_endpoints(&service, &self.members.of(key), |node| self.zone_of(node));
        let of_service = self.room.slices.list_by(BY_SERVICE, &key.to_string());
        let existing: Vec<Arc<Object>> =
            of_service.into_iter().filter(|slice| slice.label(MANAGED_BY) == Some(MANAGER)).collect();
        self.commit_slices(key, plan_slices(&service, &wanted, &existing)).await?;
        self.commit_legacy(key, &service, &wanted).await?;
        Ok(Outcome::Done)
    }

    fn zone_of(&self, node: &str) -> Option<String> {
        let node = self.room.nodes.get(&ObjectKey::new("", node))?;
        node.label(ZONE).map(str::to_owned)
    }

    /// Endpoints have no owner reference, so they are deleted here.
    async fn remove_legacy(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let ours = |endpoints: &Arc<Object>| endpoints.label(legacy::MANAGED_BY) == Some(legacy::MANAGER);
        if self.room.services.get(key).is_some() {
            return Ok(Outcome::Done);
        }
        if let Some(endpoints) = self.room.endpoints.get(key).filter(ours) {
            self.delete(&resources::endpoints(), &endpoints).await?;
        }
        Ok(Outcome::Done)
    }

    async fn delete(&self, gvr: &GroupVersionResource, object: &Object) -> Result<(), ReconcileError> {
        let preconditions = Preconditions { uid: Some(object.uid().to_owned()), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.room.client.delete(ResourceRef::of(gvr, object), options).await {
            Err(status) if !status.is_not_found() && !status.is_conflict() => Err(status.into()),
            _ => Ok(()),
        }
    }

    async fn commit_slices(&self, key: &ObjectKey, plan: SlicePlan) -> Result<(), ReconcileError> {
        let client = &self.room.client;
        for slice in plan.create {
            let target = ResourceRef::within(&resources::slices(), &key.namespace);
            let made = client.create(target, slice, WriteOptions::managed_by(FIELD_MANAGER)).await?;
            self.slice_writes.remember(key, &made);
        }
        for (current, desired) in plan.update {
            let target = ResourceRef::of(&resources::slices(), &current);
            let done = commit_object(client, target, &current, &desired, FIELD_MANAGER).await?;
            if let Committed::Written(written) = done {
                self.slice_writes.remember(key, &written);
            }
        }
        for slice in plan.delete.iter().filter(|slice| !slice.is_deleting()) {
            self.delete(&resources::slices(), slice).await?;
        }
        Ok(())
    }

    async fn commit_legacy(
        &self,
        key: &ObjectKey,
        service: &Object,
        wanted: &service::Wanted,
    ) -> Result<(), ReconcileError> {
        let existing = self.room.endpoints.get(key);
        let desired = legacy::plan_legacy(service, wanted, existing.as_deref());
        let client = &self.room.client;
        let written = match existing {
            Some(existing) => {
                let target = ResourceRef::of(&resources::endpoints(), &existing);
                match commit_object(client, target, &existing, &desired, FIELD_MANAGER).await? {
                    Committed::Unchanged => return Ok(()),
                    Committed::Written(written) => written,
                }
            }
            None => {
                let target = ResourceRef::within(&resources::endpoints(), &key.namespace);
                match client.create(target, desired, WriteOptions::managed_by(FIELD_MANAGER)).await {
                    // The next reconcile sees it.
                    Err(status) if status.is_already_exists() => return Err(ReconcileError::other(status)),
                    made => made?,
                }
            }
        };
        self.legacy_writes.remember(key, &written);
        Ok(())
    }
}
