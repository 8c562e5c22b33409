//! Maintains EndpointSlices and Endpoints from Services and the readiness of pods.

mod legacy;
mod pod;
mod service;
mod slices;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef, WriteOptions};
use object::Object;
use object::builtin;
use reconcile::{
    Change, Committed, Controller, Mirror, ObjectKey, Outcome, Priority, ReconcileError, Source, commit_object,
};

use crate::endpoints::pod::PodEndpoint;
use crate::endpoints::slices::{MANAGED_BY, MANAGER, SlicePlan, plan_slices};
use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::selected_pods::SelectedPods;
use crate::start::Service;

const WORKERS: usize = 4;
const ZONE: &str = "topology.kubernetes.io/zone";
/// The batch period grows by one for each such number of pods of a Service.
const PODS_PER_BATCH_PERIOD: usize = 50;

struct Endpoints {
    mirrors: Arc<ClusterMirrors>,
    selected_pods: SelectedPods<PodEndpoint>,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let controller = Controller::new("endpointslice-controller");
    let endpoints = Arc::new(Endpoints { mirrors: Arc::clone(mirrors), selected_pods: SelectedPods::new(pod::read) });
    let (listener, queue) = (Arc::clone(&endpoints), controller.clone());
    let batch = mirrors.settings.endpoints_batch_period;
    let on_pod = move |change: &Change| {
        for service in listener.selected_pods.pod_changed(change) {
            // Pods of a Service tend to change together, and the objects of large Services are large.
            let share = 1 + listener.selected_pods.count(&service) / PODS_PER_BATCH_PERIOD;
            queue.queue().add_after(service, batch * share as u32, Priority::NORMAL);
        }
    };
    Service::new(run(endpoints, controller)).on_pods(on_pod)
}

async fn run(endpoints: Arc<Endpoints>, controller: Controller<ObjectKey>) {
    let mirrors = Arc::clone(&endpoints.mirrors);
    let sources = vec![
        Source::each(&mirrors.services),
        // Reverts changes and deletions by others.
        Source::new(&mirrors.slices, |change| {
            let states = [&change.before, &change.now].into_iter().flatten();
            let ours = states.filter(|slice| slice.label(MANAGED_BY) == Some(MANAGER));
            let names = ours.filter_map(|slice| slice.label(slices::SERVICE_NAME));
            let mut keys: Vec<ObjectKey> = names.map(|name| ObjectKey::new(&change.key.namespace, name)).collect();
            keys.dedup();
            keys
        }),
        Source::new(&mirrors.endpoints, |change| match change.now {
            None => vec![change.key.clone()],
            Some(_) => Vec::new(),
        }),
    ];
    let cancel = mirrors.cancel.clone();
    let reconcile = move |key: ObjectKey| {
        let endpoints = Arc::clone(&endpoints);
        async move { endpoints.reconcile(&key).await }
    };
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

impl Endpoints {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let service = self.mirrors.services.get(key).filter(|service| !service.is_deleting());
        let Some((service, selector)) = service.and_then(|s| service::selector_of(&s).map(|selector| (s, selector)))
        else {
            self.selected_pods.remove_selector(key);
            // Slices are garbage-collected with their Service; Services without a selector are not managed here.
            return self.remove_legacy(key).await;
        };
        self.selected_pods.set_selector(key, selector, &self.mirrors.pods);
        let desired = service::plan_endpoints(&service, &self.selected_pods.of(key), |node| self.zone_of(node));
        let of_service = self.mirrors.slices_by_service.list(key);
        let existing: Vec<Arc<Object>> =
            of_service.into_iter().filter(|slice| slice.label(MANAGED_BY) == Some(MANAGER)).collect();
        self.commit_slices(key, plan_slices(&service, &desired, &existing)).await?;
        self.commit_legacy(key, &service, &desired).await?;
        Ok(Outcome::Done)
    }

    fn zone_of(&self, node: &str) -> Option<String> {
        let node = self.mirrors.nodes.get(&ObjectKey::new("", node))?;
        node.label(ZONE).map(str::to_owned)
    }

    /// Endpoints have no owner reference, so they are deleted here.
    async fn remove_legacy(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let ours = |endpoints: &Arc<Object>| endpoints.label(legacy::MANAGED_BY) == Some(legacy::MANAGER);
        if self.mirrors.services.get(key).is_some() {
            return Ok(Outcome::Done);
        }
        if let Some(endpoints) = self.mirrors.endpoints.get(key).filter(ours) {
            self.delete(&self.mirrors.endpoints, &endpoints).await?;
        }
        Ok(Outcome::Done)
    }

    async fn delete(&self, mirror: &Mirror, object: &Object) -> Result<(), ReconcileError> {
        let preconditions = Preconditions { uid: Some(object.uid().to_owned()), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.mirrors.client.delete(ResourceRef::of(mirror.gvr(), object), options).await {
            Ok(answer) => mirror.note_deleted(object, &answer),
            // A conflict means that the name belongs to another object.
            Err(status) if status.is_not_found() || status.is_conflict() => mirror.note_gone(object),
            Err(status) => return Err(status.into()),
        }
        Ok(())
    }

    async fn commit_slices(&self, key: &ObjectKey, plan: SlicePlan) -> Result<(), ReconcileError> {
        let client = &self.mirrors.client;
        for slice in plan.create {
            let target = ResourceRef::within(&builtin::endpoint_slices(), &key.namespace);
            let made = client.create(target, slice, WriteOptions::managed_by(FIELD_MANAGER)).await?;
            self.mirrors.slices.note(&made);
        }
        for (current, desired) in plan.update {
            let target = ResourceRef::of(&builtin::endpoint_slices(), &current);
            let done = commit_object(client, target, &current, &desired, FIELD_MANAGER).await?;
            if let Committed::Written(written) = done {
                self.mirrors.slices.note(&written);
            }
        }
        for slice in plan.delete.iter().filter(|slice| !slice.is_deleting()) {
            self.delete(&self.mirrors.slices, slice).await?;
        }
        Ok(())
    }

    async fn commit_legacy(
        &self,
        key: &ObjectKey,
        service: &Object,
        desired: &service::DesiredEndpoints,
    ) -> Result<(), ReconcileError> {
        let existing = self.mirrors.endpoints.get(key);
        let desired = legacy::plan_legacy(service, desired, existing.as_deref());
        let client = &self.mirrors.client;
        let written = match existing {
            Some(existing) => {
                let target = ResourceRef::of(&builtin::endpoints(), &existing);
                match commit_object(client, target, &existing, &desired, FIELD_MANAGER).await? {
                    Committed::Unchanged => return Ok(()),
                    Committed::Written(written) => written,
                }
            }
            None => {
                let target = ResourceRef::within(&builtin::endpoints(), &key.namespace);
                match client.create(target, desired, WriteOptions::managed_by(FIELD_MANAGER)).await {
                    // The next reconcile sees it.
                    Err(status) if status.is_already_exists() => return Err(ReconcileError::other(status)),
                    made => made?,
                }
            }
        };
        self.mirrors.endpoints.note(&written);
        Ok(())
    }
}
