//! `multiclusterservice`: takes the Service of a MultiClusterService to its providers and consumers, and makes providers
//! collect its slices.
//!
//! Writes one Work per provider, the claim on the Service, its ResourceBinding, the condition `ServiceApplied`.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::{cluster_of_execution_namespace, is_reserved_namespace};
use api::networking::{CONDITION_SERVICE_APPLIED, FINALIZER_SERVICE, MULTI_CLUSTER_SERVICES};
use api::work::RESOURCE_BINDINGS;
use cluster_client::{ResourceRef, WriteOptions};
use object::conditions::NewCondition;
use object::{Object, Status, builtin};
use propagation::binding::BindingPlan;
use propagation::services::collection::ServiceKey;
use propagation::services::exposure::{
    Clusters, Role, carries_service, check_cluster, claim_service, concerns, desired_binding, is_claimed,
    is_cross_cluster, plan_binding, provider_work, release_binding, release_service,
};
use reconcile::{
    Change, Committed, Controller, Mirror, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_object,
};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, ServicePlane, has_cluster_turned, is_collected_for_service};

const COMPONENT: &str = "multiclusterservice-controller";
const WORKERS: usize = 4;
const APPLIED: &str = "Service is propagated to target clusters.";
const COLLECTION: &str =
    "the ResourceBinding belongs to an earlier Service of this name and is garbage collected first";
const DELETION: &str = "the ResourceBinding is being deleted; another is created once it is gone";

struct Exposure {
    plane: Arc<ServicePlane>,
    services: Mirror,
    /// Core Services.
    templates: Mirror,
    bindings: Mirror,
    events: Recorder,
}

/// The result of one pass.
enum Passed {
    Applied {
        has_written: bool,
    },
    /// Its author has to change something first; a change wakes the controller.
    Refused(String),
    /// Another object has to go first.
    Blocked(&'static str),
}

pub async fn run(plane: Arc<ServicePlane>, cancel: CancellationToken) {
    let controller = Arc::new(Exposure {
        services: plane.mirrors.of(&MULTI_CLUSTER_SERVICES.gvr()),
        templates: plane.mirrors.packed(&builtin::services()),
        bindings: plane.mirrors.packed(&RESOURCE_BINDINGS.gvr()),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let (by_template, by_cluster) = (Arc::clone(&controller), Arc::clone(&controller));
    let sources = vec![
        Source::new(&controller.services, of_service),
        Source::new(&controller.templates, move |change| by_template.of_template(change)),
        Source::new(&controller.plane.clusters, move |change| by_cluster.of_cluster(change)),
    ];
    let running = Controller::new(COMPONENT).observed_by(&controller.plane.metrics.controllers);
    let bindings = controller.bindings.clone();
    let reconcile = move |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        async move { controller.reconcile(&key).await }
    };
    tokio::select! {
        () = cancel.cancelled() => return,
        () = bindings.synced() => {}
    }
    running.run(sources, WORKERS, cancel, reconcile).await;
}

/// Changes of the status are our own.
fn of_service(change: &Change) -> Vec<ObjectKey> {
    let is_same = match (&change.before, &change.now) {
        (Some(before), Some(now)) => {
            let paths: [&[&str]; 4] =
                [&["spec"], &["metadata", "annotations"], &["metadata", "labels"], &["metadata", "finalizers"]];
            before.is_deleting() == now.is_deleting() && paths.iter().all(|path| before.get(path) == now.get(path))
        }
        _ => false,
    };
    if is_same { Vec::new() } else { vec![change.key.clone()] }
}

impl Exposure {
    fn of_template(&self, change: &Change) -> Vec<ObjectKey> {
        let is_same = match (&change.before, &change.now) {
            (Some(before), Some(now)) => {
                let paths: [&[&str]; 3] = [&["spec"], &["metadata", "annotations"], &["metadata", "labels"]];
                before.uid() == now.uid() && paths.iter().all(|path| before.get(path) == now.get(path))
            }
            _ => change.is_initial,
        };
        let has_service = || self.services.get(&change.key).is_some();
        if !is_same && has_service() { vec![change.key.clone()] } else { Vec::new() }
    }

    fn of_cluster(&self, change: &Change) -> Vec<ObjectKey> {
        if change.is_initial || !has_cluster_turned(change) {
            return Vec::new();
        }
        let services = self.services.list().into_iter().filter(|service| concerns(service, &change.key.name));
        services.map(|service| ObjectKey::of(&service)).collect()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(service) = self.services.get(key) else { return Ok(Outcome::Done) };
        if service.is_deleting() || !is_cross_cluster(&service) {
            return self.withdraw(&service).await;
        }
        match self.apply(&service).await {
            Ok(Passed::Applied { has_written }) => {
                let has_changed = self.commit_condition(&service, "True", "ServiceAppliedSucceed", APPLIED).await?;
                if has_changed || has_written {
                    self.events.normal(&*service, "SyncServiceSucceed", APPLIED);
                }
                Ok(Outcome::Done)
            }
            Ok(Passed::Refused(why)) => {
                self.fail(&service, &why).await?;
                Ok(Outcome::Done)
            }
            Ok(Passed::Blocked(why)) => {
                self.fail(&service, why).await?;
                Ok(Outcome::Retry)
            }
            Err(error) => {
                if !error.is_conflict() {
                    self.fail(&service, &error.to_string()).await?;
                }
                Err(error)
            }
        }
    }

    async fn fail(&self, service: &Arc<Object>, why: &str) -> Result<(), Status> {
        if self.commit_condition(service, "False", "ServiceAppliedFailed", why).await? {
            self.events.warning(&**service, "SyncServiceFailed", why);
        }
        Ok(())
    }

    async fn commit_condition(
        &self,
        service: &Arc<Object>,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Result<bool, Status> {
        let condition = NewCondition { kind: CONDITION_SERVICE_APPLIED, status, reason, message };
        self.plane.commit_conditions(&self.services, service, &[condition], &[]).await
    }

    async fn apply(&self, service: &Arc<Object>) -> Result<Passed, ReconcileError> {
        if is_reserved_namespace(service.namespace())
            || self.plane.settings.skipped_namespaces.contains(service.namespace())
        {
            return Ok(Passed::Refused(format!("objects in namespace {} are not propagated", service.namespace())));
        }
        let clusters = Clusters::of(service, &self.plane.cluster_names())?;
        let service = &self.commit_finalizer(service).await?;
        let mut has_written = self.commit_provider_works(service, &clusters).await?;
        self.remove_works(service, &clusters.providers).await?;
        let key = ObjectKey::of(service);
        let Some(template) = self.find_template(&key).await? else {
            return Ok(Passed::Refused(format!("Service {:?} not found", service.name())));
        };
        let mut desired = Object::clone(&template);
        claim_service(&mut desired, service);
        let target = self.templates.target(&key);
        let claimed = match commit_object(&self.plane.client, target, &template, &desired, FIELD_MANAGER).await? {
            Committed::Unchanged => template,
            Committed::Written(written) => {
                self.templates.note(&written);
                has_written = true;
                written
            }
        };
        match self.commit_binding(desired_binding(&claimed, service, &clusters)).await? {
            Ok(is_written) => Ok(Passed::Applied { has_written: has_written || is_written }),
            Err(why) => Ok(Passed::Blocked(why)),
        }
    }

    /// Returns the Service, from the API if the mirror lacks it: it may be too new.
    async fn find_template(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, Status> {
        match self.templates.get(key) {
            Some(template) => Ok(Some(template)),
            None => self.plane.client.find(self.templates.target(key)).await,
        }
    }

    async fn commit_finalizer(&self, service: &Arc<Object>) -> Result<Arc<Object>, Status> {
        let mut desired = Object::clone(service);
        desired.add_finalizer(FINALIZER_SERVICE);
        let target = self.services.target(&ObjectKey::of(service));
        match commit_object(&self.plane.client, target, service, &desired, FIELD_MANAGER).await? {
            Committed::Unchanged => Ok(Arc::clone(service)),
            Committed::Written(written) => {
                self.services.note(&written);
                Ok(written)
            }
        }
    }

    async fn commit_provider_works(&self, service: &Arc<Object>, clusters: &Clusters) -> Result<bool, ReconcileError> {
        let mut has_written = false;
        for name in &clusters.providers {
            let cluster = self.plane.cluster(name);
            if let Err(absence) = check_cluster(cluster.as_deref()) {
                self.events.warning(&**service, absence.reason(), absence.message(Role::Provider, name));
            } else if cluster.is_some_and(|cluster| !cluster.is_deleting()) {
                has_written |= self.plane.commit_work(provider_work(service, name)).await?;
            }
        }
        Ok(has_written)
    }

    /// Removes the Works of clusters that do not provide the service, and the slices collected there.
    async fn remove_works(&self, service: &Object, kept: &BTreeSet<String>) -> Result<(), Status> {
        let key = ServiceKey { namespace: service.namespace().to_owned(), name: service.name().to_owned() };
        let works = self.plane.works_by_service.list(&key);
        let is_kept = |work: &&Arc<Object>| {
            cluster_of_execution_namespace(work.namespace()).is_none_or(|cluster| kept.contains(cluster))
        };
        for work in works.iter().filter(|work| !is_kept(work)) {
            if carries_service(work) {
                self.plane.delete_work(work).await?;
            } else if is_collected_for_service(work) && !work.is_deleting() {
                self.plane.release_collected(work).await?;
            }
        }
        Ok(())
    }

    /// Creates or changes the binding. Reports whether it was written, or what has to go first.
    async fn commit_binding(&self, desired: Object) -> Result<Result<bool, &'static str>, Status> {
        let key = ObjectKey::of(&desired);
        let target = self.bindings.target(&key);
        let existing = match self.bindings.get(&key) {
            Some(existing) => Some(existing),
            None => self.plane.client.find(target.clone()).await?,
        };
        let written = match (plan_binding(desired, existing.as_deref()), &existing) {
            (BindingPlan::WaitForCollection, _) => return Ok(Err(COLLECTION)),
            (BindingPlan::WaitForDeletion, _) => return Ok(Err(DELETION)),
            (BindingPlan::Create(binding), _) => {
                let space = ResourceRef::within(&RESOURCE_BINDINGS.gvr(), &key.namespace);
                let options = WriteOptions::managed_by(FIELD_MANAGER);
                Committed::Written(self.plane.client.create(space, binding, options).await?)
            }
            (BindingPlan::Update(merged, _), Some(existing)) => {
                commit_object(&self.plane.client, target, existing, &merged, FIELD_MANAGER).await?
            }
            (BindingPlan::Unchanged | BindingPlan::Update(..), _) => Committed::Unchanged,
        };
        let Committed::Written(written) = written else { return Ok(Ok(false)) };
        self.bindings.note(&written);
        Ok(Ok(true))
    }

    /// Takes everything back but the binding, which stays as that of a deleted policy does.
    async fn withdraw(&self, service: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        if !service.has_finalizer(FINALIZER_SERVICE) {
            return Ok(Outcome::Done);
        }
        let withdrawn = self.release_template(service).await;
        let withdrawn = match withdrawn {
            Ok(()) => self.remove_works(service, &BTreeSet::new()).await,
            failed => failed,
        };
        if let Err(status) = withdrawn {
            if !status.is_conflict() {
                let why = format!("failed to remove what belongs to the MultiClusterService: {status}");
                self.events.warning(&**service, "SyncServiceFailed", why);
            }
            return Err(status.into());
        }
        let mut desired = Object::clone(service);
        desired.remove_finalizer(FINALIZER_SERVICE);
        let target = self.services.target(&ObjectKey::of(service));
        match commit_object(&self.plane.client, target, service, &desired, FIELD_MANAGER).await {
            Ok(Committed::Written(written)) => self.services.note(&written),
            Ok(Committed::Unchanged) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
        Ok(Outcome::Done)
    }

    /// Takes the claim off the Service and its binding, where it is still this one's.
    async fn release_template(&self, service: &Object) -> Result<(), Status> {
        let key = ObjectKey::of(service);
        if let Some(template) = self.find_template(&key).await?.filter(|template| is_claimed(template, service)) {
            let mut desired = Object::clone(&template);
            release_service(&mut desired);
            let target = self.templates.target(&key);
            let written = commit_object(&self.plane.client, target, &template, &desired, FIELD_MANAGER).await;
            self.note(&self.templates, written)?;
        }
        let key = ObjectKey::new(service.namespace(), &api::names::binding_name("Service", service.name()));
        let target = self.bindings.target(&key);
        if let Some(binding) = self.plane.client.find(target.clone()).await?.filter(|found| is_claimed(found, service))
        {
            let mut desired = Object::clone(&binding);
            release_binding(&mut desired);
            let written = commit_object(&self.plane.client, target, &binding, &desired, FIELD_MANAGER).await;
            self.note(&self.bindings, written)?;
        }
        Ok(())
    }

    fn note(&self, mirror: &Mirror, written: Result<Committed, Status>) -> Result<(), Status> {
        match written {
            Ok(Committed::Written(written)) => mirror.note(&written),
            Ok(Committed::Unchanged) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
