//! Deletes finished jobs once their `ttlSecondsAfterFinished` has passed.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ClusterClient, DeleteOptions, Preconditions, PropagationPolicy};
use jiff::Timestamp;
use object::Object;
use object::builtin;
use object::conditions::{self, ConditionView};
use reconcile::{Clock, Controller, ObjectKey, Outcome, Priority, ReconcileError};
use tokio_util::sync::CancellationToken;

use crate::resource_watcher::{Listener, ResourceEvent};
use crate::resources::target;

pub struct FinishedJobs {
    client: ClusterClient,
    controller: Controller<ObjectKey>,
    clock: Arc<dyn Clock>,
}

impl FinishedJobs {
    pub fn new(client: ClusterClient, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { client, controller: Controller::new("ttl-after-finished"), clock })
    }

    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let controller = self.controller.clone();
        let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&self), key);
        controller.run(Vec::new(), 1, cancel, reconcile).await;
    }
}

impl Listener for FinishedJobs {
    fn see(&self, resource: &Arc<ApiResource>, seen: ResourceEvent<'_>) {
        if resource.gvr.group_resource() != builtin::jobs().group_resource() {
            return;
        }
        if let ResourceEvent::Added(job) | ResourceEvent::Modified(job) = seen
            && end(job).is_some()
        {
            self.controller.queue().add_after(ObjectKey::of(job), Duration::ZERO, Priority::NORMAL);
        }
    }
}

async fn reconcile(finished: Arc<FinishedJobs>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let place = target(&builtin::jobs(), &key);
    let Some(job) = finished.client.find(place.clone()).await? else { return Ok(Outcome::Done) };
    let Some(end) = end(&job).filter(|_| !job.is_deleting()) else { return Ok(Outcome::Done) };
    let left = end.duration_since(finished.clock.now());
    if left.is_positive() {
        return Ok(Outcome::After(left.unsigned_abs()));
    }
    let options = DeleteOptions {
        preconditions: Preconditions { uid: Some(job.uid().to_owned()), resource_version: None },
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteOptions::default()
    };
    match finished.client.delete(place, options).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}

/// Returns when the job expires; `None` while it runs or has no TTL.
fn end(job: &Object) -> Option<Timestamp> {
    let kept = job.i64_at(&["spec", "ttlSecondsAfterFinished"]).filter(|seconds| *seconds >= 0)?;
    let finished = ["Complete", "Failed"].into_iter().filter_map(|name| conditions::find(job, name));
    let finished = finished.filter(|condition| condition.is_true()).find_map(ConditionView::last_transition)?;
    finished.checked_add(jiff::SignedDuration::from_secs(kept)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(ttl: Option<i64>, condition: &str, status: &str, expected: Option<&str>) {
        let mut job = json!({"status": {"conditions": [
            {"type": condition, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        if let Some(ttl) = ttl {
            job["spec"] = json!({"ttlSecondsAfterFinished": ttl});
        }
        let end = end(&Object::from_value(job).expect("a map"));
        assert_eq!(end, expected.map(|text| text.parse().expect("a time")));
    }

    #[test]
    fn only_finished_jobs_with_a_ttl_expire() {
        check(Some(60), "Complete", "True", Some("2026-01-01T00:01:00Z"));
        check(Some(0), "Failed", "True", Some("2026-01-01T00:00:00Z"));
        check(None, "Complete", "True", None);
        check(Some(60), "Complete", "False", None);
        check(Some(60), "Suspended", "True", None);
    }
}
