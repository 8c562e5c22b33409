//! `endpointSlice`: makes the slices that members report for exported services EndpointSlices of the control plane.
//!
//! A slice is imported only while the control plane itself takes the ServiceExport to its member: the Work that carries
//! the slice may be written by the member's agent, the binding of the ServiceExport may not. Writes EndpointSlices named
//! `imported-CLUSTER-NAME`, and takes its finalizer off collected Works once those are gone.

use std::sync::Arc;

use api::multicluster::SERVICE_EXPORTS;
use api::names::{binding_name, cluster_of_execution_namespace};
use api::networking::{CONTROLLER_IMPORT, FINALIZER_SLICES, LABEL_SLICE_CONTROLLER};
use api::work::RESOURCE_BINDINGS;
use cluster_client::{ResourceRef, WriteOptions};
use object::{Object, Status, builtin};
use propagation::services::collection::{Collector, ServiceKey};
use propagation::services::imports::{exported_service, imported_from, imported_slice, is_exported_to, merge_imported};
use propagation::services::{SLICES_PER_SERVICE_MAX, SliceRefusal};
use reconcile::{
    Change, Committed, Controller, Index, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, commit_object,
};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, ServicePlane, delete, has_work_changed};

const COMPONENT: &str = "endpointslice-controller";
const WORKERS: usize = 4;

struct Imports {
    plane: Arc<ServicePlane>,
    bindings: Mirror,
    /// Imported EndpointSlices only.
    slices: Mirror,
    /// By the Work they come from.
    slices_by_work: Index<ObjectKey>,
    works_by_export: Index<ServiceKey>,
}

pub async fn run(plane: Arc<ServicePlane>, cancel: CancellationToken) {
    let imported = format!("{LABEL_SLICE_CONTROLLER}={CONTROLLER_IMPORT}");
    let slices = plane.mirrors.get(MirrorSpec::new(&builtin::endpoint_slices()).labels(&imported));
    let work_of = |slice: &Object| imported_from(slice).map(|(namespace, name)| ObjectKey::new(namespace, name));
    let controller = Arc::new(Imports {
        bindings: plane.mirrors.packed(&RESOURCE_BINDINGS.gvr()),
        slices_by_work: slices.index(move |slice| work_of(slice).into_iter().collect()),
        slices,
        works_by_export: plane.works.index(|work| Collector::Export.service_of(work).into_iter().collect()),
        plane,
    });
    let by_binding = Arc::clone(&controller);
    let sources = vec![
        Source::new(&controller.plane.works, of_work),
        Source::changes(&controller.bindings, move |change| by_binding.of_binding(change)),
        Source::new(&controller.slices, move |change| {
            [&change.before, &change.now].into_iter().flatten().filter_map(|slice| work_of(slice)).collect()
        }),
    ];
    let running = Controller::new(COMPONENT).observed_by(&controller.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        async move { controller.reconcile(&key).await }
    };
    running.run(sources, WORKERS, cancel, reconcile).await;
}

fn of_work(change: &Change) -> Vec<ObjectKey> {
    let is_ours =
        |work: &Arc<Object>| Collector::Export.service_of(work).is_some() || work.has_finalizer(FINALIZER_SLICES);
    let is_any_ours = [&change.before, &change.now].into_iter().flatten().any(is_ours);
    if is_any_ours && has_work_changed(change) { vec![change.key.clone()] } else { Vec::new() }
}

impl Imports {
    /// The Works of an export whose binding has changed.
    fn of_binding(&self, change: &Change) -> Vec<ObjectKey> {
        let Some(binding) = change.now.as_ref().or(change.before.as_ref()) else { return Vec::new() };
        let is_same = matches!((&change.before, &change.now), (Some(before), Some(now))
            if before.generation() == now.generation() && before.is_deleting() == now.is_deleting());
        if is_same || binding.str_at(&["spec", "resource", "kind"]) != SERVICE_EXPORTS.kind {
            return Vec::new();
        }
        let name = binding.str_at(&["spec", "resource", "name"]).to_owned();
        self.works_by_export.keys(&ServiceKey { namespace: binding.namespace().to_owned(), name })
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let work = self.plane.works.get(key);
        let service = work.as_deref().and_then(exported_service);
        let (Some(work), Some(service)) = (&work, service) else {
            self.remove(key, None).await?;
            if let Some(work) = work {
                self.plane.release_work(&work, FINALIZER_SLICES).await?;
            }
            return Ok(Outcome::Done);
        };
        match self.plan(key, work, &service) {
            Ok(desired) => {
                self.remove(key, Some(desired.name())).await?;
                match self.commit(&desired).await? {
                    Ok(()) => {}
                    Err(refusal) => tracing::warn!(work = %key, %refusal, "a slice is not imported"),
                }
            }
            Err(refusal) => {
                tracing::warn!(work = %key, %refusal, "a slice is not imported");
                self.remove(key, None).await?;
            }
        }
        Ok(Outcome::Done)
    }

    fn plan(&self, key: &ObjectKey, work: &Object, service: &ServiceKey) -> Result<Object, SliceRefusal> {
        let cluster = cluster_of_execution_namespace(&key.namespace).unwrap_or_default().to_owned();
        let title = || format!("{}/{}", service.namespace, service.name);
        let binding = ObjectKey::new(&service.namespace, &binding_name(SERVICE_EXPORTS.kind, &service.name));
        let binding = self.bindings.get(&binding).filter(|binding| !binding.is_deleting());
        if !binding.is_some_and(|binding| is_exported_to(&binding, service, &cluster)) {
            return Err(SliceRefusal::NotAProvider { cluster, service: title() });
        }
        let reported = self.works_by_export.keys(service).into_iter().filter(|other| other.namespace == key.namespace);
        if reported.take(SLICES_PER_SERVICE_MAX).all(|other| other != *key) {
            return Err(SliceRefusal::TooMany { cluster, service: title() });
        }
        imported_slice(work, service)
    }

    async fn commit(&self, desired: &Object) -> Result<Result<(), SliceRefusal>, Status> {
        let key = ObjectKey::of(desired);
        let target = self.slices.target(&key);
        let existing = match self.slices.get(&key) {
            Some(existing) => Some(existing),
            // One that is not imported is not mirrored.
            None => self.plane.client.find(target.clone()).await?,
        };
        let written = match &existing {
            None => {
                let space = ResourceRef::within(self.slices.gvr(), &key.namespace);
                let options = WriteOptions::managed_by(FIELD_MANAGER);
                Committed::Written(self.plane.client.create(space, desired.clone(), options).await?)
            }
            Some(existing) => match merge_imported(desired, existing) {
                Ok(merged) => commit_object(&self.plane.client, target, existing, &merged, FIELD_MANAGER).await?,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        if let Committed::Written(written) = written {
            self.slices.note(&written);
        }
        Ok(Ok(()))
    }

    /// Deletes the slices imported from a Work, all but one.
    async fn remove(&self, work: &ObjectKey, kept: Option<&str>) -> Result<(), Status> {
        for slice in self.slices_by_work.list(work) {
            if Some(slice.name()) != kept {
                delete(&self.plane.client, &self.slices, &slice).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
