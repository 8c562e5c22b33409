//! Executes the collector's decisions: deletes, releases, and completes waiting owners.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{DeleteOptions, Patch, Preconditions, PropagationPolicy, WriteOptions};
use object::{Object, Status};
use reconcile::{Outcome, Priority, ReconcileError};
use serde_json::{Value, json};

use super::graph::{FOREGROUND, ORPHAN, TrackedObject, Uid};
use super::owners::OwnerLookupError;
use super::plan::{Dependents, GarbageDecision, plan, unblocked, without_owner};
use super::{Collector, GarbageTask};

/// Retry interval for owners whose kind is not served.
const UNKNOWN_KIND_WAIT: Duration = Duration::from_secs(30);

pub(super) async fn reconcile(collector: Arc<Collector>, task: GarbageTask) -> Result<Outcome, ReconcileError> {
    match task {
        GarbageTask::Judge(item) => collector.judge_item(item).await,
        GarbageTask::Orphan(item) => collector.orphan(item).await,
    }
}

impl Collector {
    /// Returns the current object; `None` if it is deleted or was replaced, which also updates the graph.
    async fn gather_item(&self, item: &TrackedObject) -> Result<Option<Arc<Object>>, Status> {
        let found = self.client.find(item.target()).await?;
        let found = found.filter(|object| Uid::of(object.uid()) == item.uid);
        if found.is_none() {
            let gone = self.graph.lock().delete_uid(item.uid);
            self.judge(gone.to_judge, Priority::NORMAL);
        }
        Ok(found)
    }

    async fn judge_item(&self, item: TrackedObject) -> Result<Outcome, ReconcileError> {
        let Some(object) = self.gather_item(&item).await? else { return Ok(Outcome::Done) };
        if object.is_deleting() {
            return match object.has_finalizer(FOREGROUND) {
                true => self.await_dependents(&item, &object).await,
                // Deletion is in progress; its dependents are checked when it is gone.
                false => Ok(Outcome::Done),
            };
        }
        let owners = match self.gather_owners(&object).await {
            Ok(owners) => owners,
            Err(OwnerLookupError::UnknownKind) => return Ok(Outcome::After(UNKNOWN_KIND_WAIT)),
            Err(OwnerLookupError::NoNamespace) => return Ok(Outcome::Done),
            Err(OwnerLookupError::Api(status)) => return Err(status.into()),
        };
        let dependents = {
            let graph = self.graph.lock();
            let dependents = graph.dependents_of(item.uid);
            let waiting = dependents.iter().any(|dependent| graph.is_waiting(dependent.uid));
            Dependents { any: !dependents.is_empty(), waiting }
        };
        match plan(&object, &owners, dependents) {
            GarbageDecision::Keep => {}
            GarbageDecision::Release { owner_references } => {
                self.commit_metadata(&item, &object, "ownerReferences", owner_references).await?;
            }
            GarbageDecision::Delete { policy, unblock } => {
                let written = match unblock {
                    true => Some(self.commit_metadata(&item, &object, "ownerReferences", unblocked(&object)).await?),
                    false => None,
                };
                self.commit_delete(&item, written.as_ref().unwrap_or(&object), policy).await?;
            }
        }
        Ok(Outcome::Done)
    }

    /// Removes the finalizer once no dependent blocks it; until then deletes the dependents.
    async fn await_dependents(&self, item: &TrackedObject, object: &Object) -> Result<Outcome, ReconcileError> {
        let blocking = self.graph.lock().blocking_dependents_of(item.uid);
        if blocking.is_empty() {
            self.remove_finalizer(item, object, FOREGROUND).await?;
            return Ok(Outcome::Done);
        }
        let idle: Vec<TrackedObject> = {
            let graph = self.graph.lock();
            blocking.into_iter().filter(|dependent| !graph.is_waiting(dependent.uid)).collect()
        };
        self.judge(idle, Priority::NORMAL);
        Ok(Outcome::Done)
    }

    async fn orphan(&self, item: TrackedObject) -> Result<Outcome, ReconcileError> {
        let Some(object) = self.gather_item(&item).await? else { return Ok(Outcome::Done) };
        if !object.is_deleting() || !object.has_finalizer(ORPHAN) {
            return Ok(Outcome::Done);
        }
        let dependents = self.graph.lock().dependents_of(item.uid);
        for dependent in dependents {
            let Some(current) = self.gather_item(&dependent).await? else { continue };
            if let Some(kept) = without_owner(&current, object.uid()) {
                match self.commit_metadata(&dependent, &current, "ownerReferences", kept).await {
                    Err(status) if !status.is_not_found() => return Err(status.into()),
                    _ => {}
                }
            }
        }
        self.remove_finalizer(&item, &object, ORPHAN).await?;
        Ok(Outcome::Done)
    }

    async fn remove_finalizer(&self, item: &TrackedObject, object: &Object, finalizer: &str) -> Result<(), Status> {
        let kept: Vec<Value> = object.finalizers().filter(|f| *f != finalizer).map(Value::from).collect();
        match self.commit_metadata(item, object, "finalizers", kept).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }

    /// Replaces one list of the metadata, if the object is unchanged since it was read.
    async fn commit_metadata(
        &self,
        item: &TrackedObject,
        object: &Object,
        field: &str,
        list: Vec<Value>,
    ) -> Result<Arc<Object>, Status> {
        let list = if list.is_empty() { Value::Null } else { Value::Array(list) };
        let patch =
            json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(), field: list}});
        self.client.patch(item.target(), Patch::merge(patch), WriteOptions::default()).await
    }

    async fn commit_delete(
        &self,
        item: &TrackedObject,
        object: &Object,
        policy: PropagationPolicy,
    ) -> Result<(), Status> {
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: Some(object.uid().to_owned()),
                // Owners may have been added since the decision.
                resource_version: Some(object.resource_version().to_owned()),
            },
            propagation_policy: Some(policy),
            ..DeleteOptions::default()
        };
        match self.client.delete(item.target(), options).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}
