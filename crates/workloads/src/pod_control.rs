//! Creates and deletes pods for all owners: in growing batches, with events. The mirror shows the writes at once.

use std::future::Future;
use std::sync::Arc;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef, WriteOptions};
use futures::future::join_all;
use object::builtin;
use object::selector::LabelSelector;
use object::{GroupVersionResource, Object, Status};
use reconcile::{Mirror, ObjectKey, ReconcileError};

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::events::RateLimitedRecorder;
use crate::owners::{Ownership, claim_of, commit_adoption, commit_release, owned_and_orphans};
use crate::pace::OwnerPace;
use crate::pods::Pod;

/// Maximum number of pods created or deleted at once for one owner.
pub const BURST_MAX: usize = 500;
const FIRST_BATCH: usize = 1;

/// The pod operations of one controller.
pub struct PodControl {
    pub cluster: Arc<Cluster>,
    pub events: RateLimitedRecorder,
    pub pace: Arc<OwnerPace>,
    /// The resource of the owners.
    pub gvr: GroupVersionResource,
    pub rules: ClaimRules,
}

/// Rules for adoption in addition to the selector.
#[derive(Clone, Copy, Default)]
pub struct ClaimRules {
    /// Finished pods are neither adopted nor released.
    pub only_active: bool,
    /// The finalizer added to adopted pods.
    pub finalizer: Option<&'static str>,
    /// Reports whether a pod of that name can belong to the owner.
    pub is_member: Option<fn(&Object, &Object) -> bool>,
}

impl PodControl {
    /// Manages pods of the owners in a mirror; `component` is the event source.
    pub fn new(cluster: &Arc<Cluster>, component: &'static str, owners: &Mirror, rules: ClaimRules) -> Self {
        let (events, gvr) = (cluster.events(component), owners.gvr().clone());
        Self { cluster: Arc::clone(cluster), events, pace: Arc::default(), gvr, rules }
    }

    /// Returns the owner's pods, after adopting matching orphans and releasing pods that no longer match.
    pub async fn claim(&self, owner: &Object, selector: &LabelSelector) -> Result<Vec<Pod>, ReconcileError> {
        let candidates = owned_and_orphans(&self.cluster.pods_by_owner, owner);
        self.pace.set(&ObjectKey::of(owner), candidates.len());
        let mut claimed = Vec::with_capacity(candidates.len());
        for pod in candidates {
            claimed.extend(self.claim_one(owner, selector, Pod::new(pod)).await?);
        }
        Ok(claimed)
    }

    async fn claim_one(
        &self,
        owner: &Object,
        selector: &LabelSelector,
        pod: Pod,
    ) -> Result<Option<Pod>, ReconcileError> {
        let gvr = builtin::pods();
        let is_member = self.rules.is_member.is_none_or(|is_member| is_member(owner, &pod));
        let claim = match claim_of(owner, selector, &pod) {
            Ownership::Keep if !is_member && !owner.is_deleting() => Ownership::Release,
            Ownership::Keep if !is_member => Ownership::Leave,
            Ownership::Adopt if !is_member || pod.is_deleting() => Ownership::Leave,
            Ownership::Adopt | Ownership::Release if self.rules.only_active && !pod.is_active() => Ownership::Leave,
            claim => claim,
        };
        let written = match claim {
            Ownership::Keep => return Ok(Some(pod)),
            Ownership::Leave => return Ok(None),
            Ownership::Adopt => {
                let owner = (&self.gvr, owner);
                commit_adoption(&self.cluster.client, owner, (&gvr, &pod), self.rules.finalizer).await
            }
            Ownership::Release => commit_release(&self.cluster.client, owner, (&gvr, &pod)).await,
        };
        match written {
            Ok(written) => {
                self.cluster.pods.note(&written);
                Ok((claim == Ownership::Adopt).then(|| Pod::new(written)))
            }
            // Deleted meanwhile.
            Err(ReconcileError::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create(&self, owner: &Object, pod: Object) -> Result<Arc<Object>, Status> {
        let target = ResourceRef::within(&builtin::pods(), owner.namespace());
        let created = self.cluster.client.create(target, pod, WriteOptions::managed_by(FIELD_MANAGER)).await?;
        self.cluster.pods.note(&created);
        Ok(created)
    }

    /// Creates a pod and records the event of ReplicaSets, DaemonSets and Jobs.
    pub async fn create_with_event(&self, owner: &Object, pod: Object) -> Result<Arc<Object>, Status> {
        let result = self.create(owner, pod).await;
        match &result {
            Ok(pod) => self.events.normal(owner, "SuccessfulCreate", format!("Created pod: {}", pod.name())),
            Err(status) if is_namespace_terminating(status) => {}
            Err(status) => self.events.warning(owner, "FailedCreate", format!("Error creating: {status}")),
        }
        result
    }

    /// Deletes a pod; a missing one is fine.
    pub async fn delete(&self, pod: &Pod) -> Result<(), Status> {
        let target = ResourceRef::of(&builtin::pods(), pod);
        let preconditions = Preconditions { uid: Some(pod.uid().to_owned()), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.cluster.client.delete(target, options).await {
            Ok(answer) => self.cluster.pods.note_deleted(pod, &answer),
            // A conflict means that the name belongs to another pod.
            Err(status) if status.is_not_found() || status.is_conflict() => self.cluster.pods.note_gone(pod),
            Err(status) => return Err(status),
        }
        Ok(())
    }

    pub async fn delete_and_record(&self, owner: &Object, pod: &Pod) -> Result<(), Status> {
        let result = self.delete(pod).await;
        match &result {
            Ok(()) => self.events.normal(owner, "SuccessfulDelete", format!("Deleted pod: {}", pod.name())),
            Err(status) => self.events.warning(owner, "FailedDelete", format!("Error deleting: {status}")),
        }
        result
    }

    /// Deletes all of them concurrently; returns the first error after all were tried.
    pub async fn delete_all(&self, owner: &Object, pods: &[Pod]) -> Result<(), Status> {
        let results = join_all(pods.iter().map(|pod| self.delete_and_record(owner, pod))).await;
        results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// Runs the calls in batches that double while they succeed, so that a persistent error is hit only once. Returns the
/// number of successes and the first error.
pub async fn slow_start<F>(calls: impl IntoIterator<Item = F>) -> (usize, Result<(), Status>)
where
    F: Future<Output = Result<(), Status>>,
{
    let mut calls = calls.into_iter();
    let mut succeeded = 0;
    let mut size = FIRST_BATCH;
    loop {
        let batch: Vec<F> = calls.by_ref().take(size).collect();
        if batch.is_empty() {
            return (succeeded, Ok(()));
        }
        let results = join_all(batch).await;
        succeeded += results.iter().filter(|result| result.is_ok()).count();
        if let Some(failure) = results.into_iter().find(Result::is_err) {
            return (succeeded, failure);
        }
        size *= 2;
    }
}

/// Reports whether creation failed because the namespace is terminating, which is not reported.
pub fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn check(calls: usize, fails_at: Option<usize>, expected: (usize, usize)) {
        let tried = AtomicUsize::new(0);
        let call = async |index: usize| {
            tried.fetch_add(1, Ordering::Relaxed);
            if fails_at == Some(index) { Err(Status::internal("no")) } else { Ok(()) }
        };
        let (succeeded, result) = slow_start((0..calls).map(call)).await;
        assert_eq!((tried.load(Ordering::Relaxed), succeeded), expected);
        assert_eq!(result.is_err(), fails_at.is_some());
    }

    #[tokio::test]
    async fn a_persistent_error_stops_the_batches() {
        check(0, None, (0, 0)).await;
        check(10, None, (10, 10)).await;
        check(100, Some(0), (1, 0)).await;
        check(100, Some(4), (7, 6)).await;
    }
}
