//! Rolls Deployments out over ReplicaSets. Triggered by Deployments, their ReplicaSets and, for Recreate, finished
//! pods.
//!
//! Writes ReplicaSets, the revision of Deployments and their status.

mod plan;
mod scaling;
mod sets;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use cluster_client::{DeleteOptions, Patch, Preconditions, ResourceRef, WriteOptions};
use object::builtin;
use object::request::Subresource;
use object::selector::LabelSelector;
use object::{Object, Status};
use reconcile::commit::merge_difference;
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Source, commit_object, commit_status};
use serde_json::json;

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::conditions;
use crate::deployment::plan::{DeploymentInputs, DeploymentPlan, NewReplicaSet, Update, plan};
use crate::deployment::sets::REVISION;
use crate::deployment::spec::{DeploymentSpec, DeploymentStrategy, has_template_of};
use crate::dispatch::selector_of;
use crate::events::RateLimitedRecorder;
use crate::owners::{
    Ownership, claim_of, commit_adoption, commit_release, controller, controller_uid, owned_and_orphans, owned_by,
};
use crate::pod_control::is_namespace_terminating;
use crate::pods::Pod;
use crate::start::sooner;

const COMPONENT: &str = "deployment-controller";
const WORKERS: usize = 4;

struct Deployments {
    cluster: Arc<Cluster>,
    events: RateLimitedRecorder,
}

pub fn controller_of_deployments() -> Controller<ObjectKey> {
    Controller::new(COMPONENT)
}

pub async fn run(cluster: Arc<Cluster>, deployments: Controller<ObjectKey>) {
    let candidates = cluster.deployments.clone();
    let sources = vec![
        Source::each(&cluster.deployments),
        Source::owner(&cluster.replica_sets, "Deployment"),
        Source::new(&cluster.replica_sets, move |change| adopters(&candidates, change)),
    ];
    let cancel = cluster.cancelled();
    let state = Arc::new(Deployments { events: cluster.events(COMPONENT), cluster });
    deployments.run(sources, WORKERS, cancel, move |key| reconcile(Arc::clone(&state), key)).await;
}

/// Returns the Deployments that may adopt an orphaned set.
fn adopters(deployments: &reconcile::Mirror, change: &Change) -> Vec<ObjectKey> {
    let Some(set) = change.now.as_ref().filter(|set| controller(set).is_none()) else { return Vec::new() };
    let near = deployments.list_within(set.namespace()).into_iter();
    let fits = near.filter(|deployment| selector_of(deployment).is_some_and(|selector| selector.matches(set)));
    fits.map(|deployment| ObjectKey::of(&deployment)).collect()
}

async fn reconcile(state: Arc<Deployments>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let cluster = &state.cluster;
    let Some(deployment) = cluster.deployments.get(&key) else { return Ok(Outcome::Done) };
    let Some(selector) = selector_of(&deployment) else {
        return state.refuse(&deployment).await;
    };
    let sets = state.gather_sets(&deployment, &selector).await?;
    let populated = state.gather_populated(&deployment, &sets);
    let plan = plan(DeploymentInputs { deployment: &deployment, sets, populated, now: cluster.now() });
    let recheck = plan.recheck;
    state.commit(&deployment, plan).await?;
    Ok(sooner(Outcome::Done, recheck))
}

impl Deployments {
    /// Handles a Deployment whose selector is empty or invalid.
    async fn refuse(&self, deployment: &Object) -> Result<Outcome, ReconcileError> {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events.warning(deployment, "SelectingAll", message);
        let mut desired = Object::clone(deployment);
        desired.set(&["status", "observedGeneration"], deployment.generation());
        self.commit_status(deployment, &desired).await?;
        Ok(Outcome::Done)
    }

    async fn gather_sets(
        &self,
        deployment: &Object,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>, ReconcileError> {
        let gvr = builtin::replica_sets();
        let candidates = owned_and_orphans(&self.cluster.replica_sets_by_owner, deployment);
        let mut sets = Vec::with_capacity(candidates.len());
        for set in candidates {
            match claim_of(deployment, selector, &set) {
                Ownership::Keep => sets.push(set),
                Ownership::Leave => {}
                Ownership::Adopt => {
                    let owner = (&builtin::deployments(), deployment);
                    sets.push(commit_adoption(&self.cluster.client, owner, (&gvr, &set), None).await?);
                }
                Ownership::Release => {
                    commit_release(&self.cluster.client, deployment, (&gvr, &set)).await?;
                }
            }
        }
        Ok(sets)
    }

    /// Only the Recreate strategy waits for pods to finish.
    fn gather_populated(&self, deployment: &Object, sets: &[Arc<Object>]) -> HashSet<String> {
        if DeploymentSpec::of(deployment).strategy != DeploymentStrategy::Recreate {
            return HashSet::new();
        }
        let is_populated = |set: &&Arc<Object>| {
            let pods = owned_by(&self.cluster.pods_by_owner, set.uid());
            pods.into_iter().map(Pod::new).any(|pod| !pod.is_terminal())
        };
        sets.iter().filter(is_populated).map(|set| set.uid().to_owned()).collect()
    }

    async fn commit(&self, deployment: &Object, plan: DeploymentPlan) -> Result<(), ReconcileError> {
        if let Some(created) = plan.create
            && !self.commit_new_set(deployment, created).await?
        {
            return Ok(());
        }
        for Update { current, desired, event } in plan.updates {
            let target = ResourceRef::of(&builtin::replica_sets(), &current);
            commit_object(&self.cluster.client, target, &current, &desired, FIELD_MANAGER).await?;
            self.record_scaling(deployment, event);
        }
        for set in plan.deletes {
            self.delete_set(&set).await?;
        }
        self.commit_progress(deployment, plan.revision, &plan.status).await
    }

    /// Writes the status and the revision through the status subresource, which does not increment the generation.
    async fn commit_progress(
        &self,
        deployment: &Object,
        revision: Option<String>,
        status: &Object,
    ) -> Result<(), ReconcileError> {
        let Some(revision) = revision.filter(|revision| deployment.annotation(REVISION) != Some(revision)) else {
            return self.commit_status(deployment, status).await;
        };
        let part = |object: &Object| json!({"status": object.get(&["status"]).cloned().unwrap_or_else(|| json!({}))});
        let mut body = merge_difference(&part(deployment), &part(status)).unwrap_or_else(|| json!({}));
        body["metadata"] = json!({"uid": deployment.uid(), "resourceVersion": deployment.resource_version(),
            "annotations": {REVISION: revision}});
        let target = ResourceRef::of(&builtin::deployments(), deployment).subresource(Subresource::Status);
        self.cluster.client.patch(target, Patch::merge(body), WriteOptions::managed_by(FIELD_MANAGER)).await?;
        Ok(())
    }

    fn record_scaling(&self, deployment: &Object, event: Option<String>) {
        if let Some(event) = event {
            self.events.normal(deployment, "ScalingReplicaSet", event);
        }
    }

    async fn commit_status(&self, deployment: &Object, desired: &Object) -> Result<(), ReconcileError> {
        let target = ResourceRef::of(&builtin::deployments(), deployment);
        commit_status(&self.cluster.client, target, deployment, desired, FIELD_MANAGER).await?;
        Ok(())
    }

    /// Returns false if the namespace is terminating, which is not reported.
    async fn commit_new_set(&self, deployment: &Object, created: NewReplicaSet) -> Result<bool, ReconcileError> {
        let name = created.set.name().to_owned();
        let target = ResourceRef::within(&builtin::replica_sets(), deployment.namespace());
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match self.cluster.client.create(target, created.set, options).await {
            Ok(_) => {
                self.record_scaling(deployment, created.event);
                Ok(true)
            }
            Err(status) if status.is_already_exists() => Err(self.settle_collision(deployment, &name, status).await?),
            Err(status) if is_namespace_terminating(&status) => Ok(false),
            Err(status) => {
                let message = format!("Failed to create new replica set \"{name}\": {status}");
                self.events.warning(deployment, "ReplicaSetCreateError", message.as_str());
                self.note_failed_creation(deployment, &message).await?;
                Err(status.into())
            }
        }
    }

    async fn note_failed_creation(&self, deployment: &Object, message: &str) -> Result<(), ReconcileError> {
        if DeploymentSpec::of(deployment).deadline_seconds.is_none() {
            return Ok(());
        }
        let now = object::time::format_seconds(self.cluster.now());
        let mut desired = Object::clone(deployment);
        let condition = json!({"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError",
            "message": message, "lastUpdateTime": now, "lastTransitionTime": now});
        conditions::set(&mut desired, condition);
        self.commit_status(deployment, &desired).await
    }

    /// Handles a name that exists: either this set, not in the mirror yet, or a hash collision. A collision gets
    /// another name on the next attempt. Returns the reason to retry.
    async fn settle_collision(
        &self,
        deployment: &Object,
        name: &str,
        refusal: Status,
    ) -> Result<ReconcileError, ReconcileError> {
        let target = ResourceRef::namespaced(&builtin::replica_sets(), deployment.namespace(), name);
        let taken = self.cluster.client.get(target).await?;
        if controller_uid(&taken) == Some(deployment.uid()) && has_template_of(deployment, &taken) {
            return Ok(Status::stale(&builtin::replica_sets().group_resource(), name).into());
        }
        let mut desired = Object::clone(deployment);
        let collisions = deployment.i64_at(&["status", "collisionCount"]).unwrap_or(0);
        desired.set(&["status", "collisionCount"], collisions + 1);
        self.commit_status(deployment, &desired).await?;
        Ok(refusal.into())
    }

    async fn delete_set(&self, set: &Object) -> Result<(), ReconcileError> {
        let preconditions = Preconditions {
            uid: Some(set.uid().to_owned()),
            resource_version: Some(set.resource_version().to_owned()),
        };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let target = ResourceRef::of(&builtin::replica_sets(), set);
        match self.cluster.client.delete(target, options).await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(()),
        }
    }
}
