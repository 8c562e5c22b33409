//! `serviceImport`: derives the Service `derived-NAME` from a ServiceImport of type ClusterSetIP.
//!
//! Services of users are left alone, also when they have such a name.

use std::sync::Arc;

use api::multicluster::SERVICE_IMPORTS;
use cluster_client::{ResourceRef, WriteOptions};
use object::{Object, Status, builtin};
use propagation::services::imports::{
    derived_name, derived_service, has_spec_of, import_of, may_be_derived, merge_derived,
};
use reconcile::{
    Change, Committed, Controller, Mirror, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_object,
    commit_status,
};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, ServicePlane, delete};

const COMPONENT: &str = "service-import-controller";
const WORKERS: usize = 2;

struct Derived {
    plane: Arc<ServicePlane>,
    imports: Mirror,
    services: Mirror,
    events: Recorder,
}

pub async fn run(plane: Arc<ServicePlane>, cancel: CancellationToken) {
    let controller = Arc::new(Derived {
        imports: plane.mirrors.of(&SERVICE_IMPORTS.gvr()),
        services: plane.mirrors.packed(&builtin::services()),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let sources = vec![Source::each(&controller.imports), Source::new(&controller.services, of_service)];
    let running = Controller::new(COMPONENT).observed_by(&controller.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        async move { controller.reconcile(&key).await }
    };
    running.run(sources, WORKERS, cancel, reconcile).await;
}

/// The ServiceImport of a Service with a derived name: it may have been deleted while nothing ran here.
fn of_service(change: &Change) -> Vec<ObjectKey> {
    import_of(&change.key.name).map(|name| ObjectKey::new(&change.key.namespace, name)).into_iter().collect()
}

impl Derived {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(import) = self.imports.get(key) else {
            self.remove(key).await?;
            return Ok(Outcome::Done);
        };
        let Some(desired) = derived_service(&import)? else { return Ok(Outcome::Done) };
        match self.commit(&desired).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => {
                let message = format!("Sync derived service for serviceImport({}) succeed.", import.name());
                self.events.normal(&*import, "SyncDerivedServiceSucceed", message);
            }
            Ok(Err(why)) => self.events.warning(&*import, "SyncDerivedServiceFailed", why),
            Err(status) => {
                if !status.is_conflict() {
                    self.events.warning(&*import, "SyncDerivedServiceFailed", status.to_string());
                }
                return Err(status.into());
            }
        }
        Ok(Outcome::Done)
    }

    /// Reports whether something was written, or why the Service is left alone.
    async fn commit(&self, desired: &Object) -> Result<Result<bool, String>, Status> {
        let key = ObjectKey::of(desired);
        let target = self.services.target(&key);
        let existing = match self.services.get(&key) {
            Some(existing) => Some(existing),
            None => self.plane.client.find(target.clone()).await?,
        };
        let written = match &existing {
            None => {
                let space = ResourceRef::within(self.services.gvr(), &key.namespace);
                let options = WriteOptions::managed_by(FIELD_MANAGER);
                let mut new = desired.clone();
                new.remove(&["status"]);
                Committed::Written(self.plane.client.create(space, new, options).await?)
            }
            Some(existing) if !may_be_derived(existing) => {
                return Ok(Err(format!(
                    "Service {key} has a selector, so it is not derived from a ServiceImport and is left alone"
                )));
            }
            Some(existing) => {
                let merged = merge_derived(desired, existing);
                commit_object(&self.plane.client, target.clone(), existing, &merged, FIELD_MANAGER).await?
            }
        };
        let (current, has_written) = match (written, existing) {
            (Committed::Written(written), _) => (written, true),
            (Committed::Unchanged, Some(existing)) => (existing, false),
            (Committed::Unchanged, None) => return Ok(Ok(false)),
        };
        self.services.note(&current);
        let mut wanted = Object::clone(&current);
        if let Some(balancer) = desired.get(&["status", "loadBalancer"]) {
            wanted.set(&["status", "loadBalancer"], balancer.clone());
        }
        match commit_status(&self.plane.client, target, &current, &wanted, FIELD_MANAGER).await? {
            Committed::Unchanged => Ok(Ok(has_written)),
            Committed::Written(written) => {
                self.services.note(&written);
                Ok(Ok(true))
            }
        }
    }

    /// Deletes the Service of a ServiceImport that is gone, if it was derived from one.
    async fn remove(&self, import: &ObjectKey) -> Result<(), Status> {
        let key = ObjectKey::new(&import.namespace, &derived_name(&import.name));
        if self.services.get(&key).is_none() {
            return Ok(());
        }
        // Mirrors may lack the managed fields.
        let Some(service) = self.plane.client.find(self.services.target(&key)).await? else { return Ok(()) };
        if service.is_deleting() || !may_be_derived(&service) || !has_spec_of(&service, FIELD_MANAGER) {
            return Ok(());
        }
        delete(&self.plane.client, &self.services, &service).await
    }
}

#[cfg(test)]
mod tests;
