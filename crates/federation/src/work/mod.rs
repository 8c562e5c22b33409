//! Turns each binding into one Work per member, and takes away the Works of members it no longer means.

mod deliver;
mod plan;
mod policies;
mod triggers;

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use api::names::cluster_of_execution_namespace;
use api::work::BindingSpec;
use cluster_client::{DeleteOptions, Patch, Preconditions, WriteOptions};
use object::{Object, Status, error_list};
use propagation::binding_scope::ScopeError;
use propagation::works::{self, BindingRef};
use reconcile::{Controller, Mirror, ObjectKey, Outcome, ReconcileError, Recorder, Source};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bindings::{Recorders, check_scope, finalizer_of, mirror_of, works_of};
use crate::plane::{FIELD_MANAGER, Plane};
use crate::templates::Template;
use crate::work::policies::Policies;

pub use crate::work::policies::selected_kinds;

/// Interval for checking a cluster that must be evicted first. The deletion of its Work is noticed at once.
const PURGE_CHECK_EVERY: Duration = Duration::from_secs(5);

/// State shared by the reconciles.
struct Context {
    plane: Arc<Plane>,
    recorders: Recorders,
    override_recorder: Recorder,
    policies: Policies,
}

/// Runs until cancelled.
pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let recorders = Recorders::start(&plane, "binding-controller", "cluster-resource-binding-controller", &cancel);
    let override_recorder =
        Recorder::start(plane.client.clone(), "override-manager", Arc::clone(&plane.clock), cancel.clone());
    let context = Arc::new(Context { recorders, override_recorder, policies: Policies::default(), plane });
    let plane = Arc::clone(&context.plane);
    tokio::select! {
        () = cancel.cancelled() => return,
        () = async { plane.templates.listed().await; plane.clusters.synced().await; } => {}
    }
    let workers = plane.settings.work_workers;
    let sources = sources(&context);
    let reconcile = move |key| {
        let context = Arc::clone(&context);
        async move {
            let started = Instant::now();
            let result = context.reconcile(key).await;
            context.plane.metrics.propagation.works_made(result.is_ok(), started.elapsed());
            result
        }
    };
    Controller::new("binding").observed_by(&plane.metrics.controllers).run(sources, workers, cancel, reconcile).await;
}

fn sources(context: &Arc<Context>) -> Vec<Source<ObjectKey>> {
    let plane = &context.plane;
    let of_works = Arc::clone(plane);
    let bindings = |mirror: &Mirror| {
        let plane = Arc::clone(plane);
        Source::all_existing(mirror, move |change| triggers::of_binding(&plane, change))
    };
    let of_policies = [Arc::clone(context), Arc::clone(context)];
    let [namespaced, cluster_wide] = of_policies;
    vec![
        bindings(&plane.bindings),
        bindings(&plane.cluster_bindings),
        Source::changes(&plane.works, move |change| triggers::of_work(&of_works, change)),
        Source::new(&plane.overrides, move |change| {
            namespaced.policies.forget(&change.key);
            triggers::of_policy(&namespaced.plane, change)
        }),
        Source::new(&plane.cluster_overrides, move |change| {
            cluster_wide.policies.forget(&change.key);
            triggers::of_policy(&cluster_wide.plane, change)
        }),
    ]
}

impl Context {
    async fn reconcile(&self, key: ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(binding) = mirror_of(&self.plane, &key).get(&key) else { return Ok(Outcome::Done) };
        let id = BindingRef::of(&binding).id;
        if id.is_empty() && !binding.is_deleting() {
            return Err(ReconcileError::other("the binding has no permanent id, by which its works are known"));
        }
        if let Err(refusal) = check_scope(&self.plane, &binding) {
            return self.refuse(&key, &binding, &refusal).await;
        }
        let works = works_of(&self.plane, BindingRef::of(&binding));
        if binding.is_deleting() {
            return self.clean_up(&key, &binding, &works).await;
        }
        let spec: BindingSpec = api::read(&binding)?;
        let has_deleted = self.commit_orphans(&key, &binding, &spec, &works).await?;
        if Self::must_wait(&spec, &works) {
            return Ok(Outcome::After(PURGE_CHECK_EVERY));
        }
        let Some(template) = self.gather_template(&spec).await? else {
            // Its binding goes with it.
            return Ok(Outcome::Done);
        };
        self.commit_finalizer(&key, &binding).await?;
        self.deliver(&key, &binding, &spec, &template, &works, has_deleted).await
    }

    /// The template at least as new as the binding knows it.
    async fn gather_template(&self, spec: &BindingSpec) -> Result<Option<Arc<Object>>, Status> {
        let template = Template::from(&spec.resource);
        let found = self.plane.templates.find(&template).await?;
        let version = |text: &str| text.parse::<u64>().ok();
        match found {
            Some(object) if version(object.resource_version()) < version(&spec.resource.resource_version) => {
                self.plane.templates.find_live(&template).await
            }
            found => Ok(found),
        }
    }

    /// Deletes the works of members the binding does not mean. Says whether there were any.
    async fn commit_orphans(
        &self,
        key: &ObjectKey,
        binding: &Object,
        spec: &BindingSpec,
        works: &[Arc<Object>],
    ) -> Result<bool, ReconcileError> {
        let expected = works::existing_clusters(spec);
        let is_orphan = |work: &&Arc<Object>| {
            // Works outside the execution namespace of a member are not ours to judge.
            cluster_of_execution_namespace(work.namespace()).is_some_and(|cluster| !expected.contains(cluster))
        };
        let orphans: Vec<&Arc<Object>> = works.iter().filter(is_orphan).collect();
        let result = self.commit_deletes(&orphans).await;
        if let Err(error) = &result {
            self.recorders.of(key).warning(binding, "CleanupWorkFailed", error.to_string());
        }
        result
    }

    /// Deletes works that are not going away already. Says whether there were any.
    async fn commit_deletes(&self, works: &[&Arc<Object>]) -> Result<bool, ReconcileError> {
        let mut errors = Vec::new();
        let mut has_deleted = false;
        for work in works.iter().filter(|work| !work.is_deleting()) {
            let work_key = ObjectKey::of(work);
            let preconditions = Preconditions { uid: Some(work.uid().to_owned()), resource_version: None };
            let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
            match self.plane.client.delete(self.plane.works.target(&work_key), options).await {
                Ok(answer) => {
                    self.plane.works.note_deleted(work, &answer);
                    has_deleted = true;
                }
                Err(error) if error.is_not_found() => self.plane.works.note_gone(work),
                Err(error) => errors.push(error.to_string()),
            }
        }
        match errors.is_empty() {
            true => Ok(has_deleted),
            false => Err(ReconcileError::Other(error_list::joined(errors))),
        }
    }

    /// Must something go from a member before anything starts in another?
    fn must_wait(spec: &BindingSpec, works: &[Arc<Object>]) -> bool {
        let purged = works::purged_first(spec);
        let is_purged = |work: &Arc<Object>| {
            cluster_of_execution_namespace(work.namespace()).is_some_and(|cluster| purged.contains(cluster))
        };
        !purged.is_empty() && works.iter().any(is_purged)
    }

    /// Leaves a binding alone that reaches beyond its scope. Works that name it are not deleted with it: they may carry
    /// objects of others, and the binding of such an object takes them back.
    async fn refuse(&self, key: &ObjectKey, binding: &Object, refusal: &ScopeError) -> Result<Outcome, ReconcileError> {
        tracing::warn!(binding = %key, %refusal, "the binding is refused");
        if binding.is_deleting() {
            return self.commit_finalizer_removal(key, binding).await;
        }
        self.recorders.of(key).warning(binding, "SyncWorkFailed", refusal.to_string());
        Ok(Outcome::Done)
    }

    /// Holds a binding that someone else made without the finalizer: its works must not outlive it.
    async fn commit_finalizer(&self, key: &ObjectKey, binding: &Object) -> Result<(), ReconcileError> {
        let finalizer = finalizer_of(key);
        if binding.has_finalizer(finalizer) {
            return Ok(());
        }
        let finalizers: Vec<&str> = binding.finalizers().chain([finalizer]).collect();
        let patch = json!({"metadata": {"uid": binding.uid(), "resourceVersion": binding.resource_version(),
            "finalizers": finalizers}});
        let target = mirror_of(&self.plane, key).target(key);
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        self.plane.client.patch(target, Patch::merge(patch), options).await?;
        Ok(())
    }

    /// The binding goes away: its works go first, though not until they are gone.
    async fn clean_up(
        &self,
        key: &ObjectKey,
        binding: &Object,
        works: &[Arc<Object>],
    ) -> Result<Outcome, ReconcileError> {
        self.commit_deletes(&works.iter().collect::<Vec<_>>()).await?;
        self.commit_finalizer_removal(key, binding).await
    }

    async fn commit_finalizer_removal(&self, key: &ObjectKey, binding: &Object) -> Result<Outcome, ReconcileError> {
        let finalizer = finalizer_of(key);
        if binding.has_finalizer(finalizer) {
            let rest: Vec<&str> = binding.finalizers().filter(|other| *other != finalizer).collect();
            let patch = json!({"metadata": {"uid": binding.uid(), "resourceVersion": binding.resource_version(),
                "finalizers": rest}});
            let target = mirror_of(&self.plane, key).target(key);
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            match self.plane.client.patch(target, Patch::merge(patch), options).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod webhook_tests;
