//! Executes the decision for a Job, and counts its pods in an order that loses none.

use std::sync::Arc;

use cluster_client::ResourceRef;
use futures::future::join_all;
use object::builtin;
use object::{Object, Status, time};
use parking_lot::Mutex;
use reconcile::{Committed, ObjectKey, ReconcileError, commit_object, commit_status};

use crate::cluster::FIELD_MANAGER;
use crate::job::Jobs;
use crate::job::plan::{Finish, JobAction, JobFacts};
use crate::job::policy::FailureAction;
use crate::job::spec::{TRACKING_FINALIZER, failures_of, is_tracked, pod_of};
use crate::job::status::JobStatus;
use crate::job::track::{Tracking, track};
use crate::pod_control::{is_namespace_terminating, slow_start};
use crate::pods::Pod;

/// Attempts to remove a pod's finalizer.
const RELEASE_TRIES: usize = 3;

/// The pods after the action.
pub struct Done {
    pub active: i64,
    pub ready: i64,
    pub terminating: i64,
    pub result: Result<(), ReconcileError>,
}

impl Jobs {
    pub async fn commit_act(&self, job: &Object, facts: &JobFacts<'_>, act: JobAction) -> Done {
        let count = |pods: &[Pod]| (pods.len() as i64, pods.iter().filter(|pod| pod.is_ready()).count() as i64);
        let (active, ready) = count(&facts.active);
        let mut done = Done { active, ready, terminating: facts.terminating(), result: Ok(()) };
        let (removed, result) = match act {
            JobAction::Nothing => (Vec::new(), Ok(())),
            JobAction::Create(indexes) => {
                let (created, result) = self.create_pods(job, facts, indexes).await;
                done.active += created as i64;
                (Vec::new(), result)
            }
            JobAction::DeleteActive => {
                let result = self.control.delete_all(job, &facts.active).await;
                (if result.is_ok() { facts.active.clone() } else { Vec::new() }, result)
            }
            JobAction::Remove(pods) => {
                let result = self.remove_pods(job, &pods).await;
                (if result.is_ok() { pods } else { Vec::new() }, result)
            }
        };
        let (removed, removed_ready) = count(&removed);
        done.active -= removed;
        done.ready -= removed_ready;
        done.terminating += removed;
        done.result = result.map_err(ReconcileError::from);
        done
    }

    async fn create_pods(
        &self,
        job: &Object,
        facts: &JobFacts<'_>,
        indexes: Vec<Option<i64>>,
    ) -> (usize, Result<(), Status>) {
        let created = Mutex::new(0);
        let create = |index: Option<i64>| {
            let created = &created;
            async move {
                let pod = pod_of(job, index, next_failures(facts, index));
                match self.control.create_with_event(job, pod).await {
                    Ok(_) => *created.lock() += 1,
                    Err(status) if is_namespace_terminating(&status) => {}
                    Err(status) => return Err(status),
                }
                Ok(())
            }
        };
        let (_, result) = slow_start(indexes.into_iter().map(create)).await;
        (created.into_inner(), result)
    }

    /// Removed pods do not count, so their finalizer is removed first.
    async fn remove_pods(&self, job: &Object, pods: &[Pod]) -> Result<(), Status> {
        let released = join_all(pods.iter().map(|pod| self.release(pod))).await;
        if let Some(failure) = released.into_iter().find(Result::is_err) {
            return failure;
        }
        self.control.delete_all(job, pods).await
    }

    /// Removes the finalizer of a pod; a deleted pod is fine. Nodes write pods too, and a delete has just changed it. On a
    /// conflict the newest version is read, because a pod that is counted late may be counted wrong.
    async fn release(&self, pod: &Pod) -> Result<(), Status> {
        let pods = &self.cluster.pods;
        let target = ResourceRef::of(&builtin::pods(), pod);
        let mut current = Arc::clone(&pod.object);
        for _ in 0..RELEASE_TRIES {
            if !is_tracked(&current) {
                return Ok(());
            }
            let mut desired = Object::clone(&current);
            desired.remove_finalizer(TRACKING_FINALIZER);
            match commit_object(&self.cluster.client, target.clone(), &current, &desired, FIELD_MANAGER).await {
                Ok(Committed::Written(written)) => {
                    pods.note(&written);
                    return Ok(());
                }
                Ok(Committed::Unchanged) => return Ok(()),
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
            let newest = self.cluster.client.find(target.clone()).await?.filter(|newest| newest.uid() == pod.uid());
            let Some(newest) = newest else {
                pods.note_gone(pod);
                return Ok(());
            };
            current = newest;
        }
        Err(Status::stale(&builtin::pods().group_resource(), pod.name()))
    }

    pub fn note_suspension(&self, job: &Object, facts: &JobFacts<'_>, status: &mut JobStatus) {
        if facts.is_deleting {
            return;
        }
        if facts.spec.is_suspended {
            if status.set_condition("Suspended", "True", "JobSuspended", "Job suspended", facts.now) {
                self.control.events.normal(job, "Suspended", "Job suspended");
                status.start_time = None;
            }
        } else if status.set_condition("Suspended", "False", "JobResumed", "Job resumed", facts.now) {
            self.control.events.normal(job, "Resumed", "Job resumed");
            status.start_time = Some(time::format_seconds(facts.now));
        }
    }

    /// Records finished pods, removes their finalizers, counts them, and finishes the Job if none are left to count.
    pub async fn commit_count(
        &self,
        job: &Arc<Object>,
        facts: &JobFacts<'_>,
        status: JobStatus,
        finish: Option<Finish>,
    ) -> Result<(), ReconcileError> {
        let Tracking { mut status, release, mut held, is_partial } = track(facts, status, finish.as_ref());
        if let Some(finish) = finish.as_ref().filter(|finish| !finish.is_announced) {
            let kind = if finish.is_success { "SuccessCriteriaMet" } else { "FailureTarget" };
            status.set_condition(kind, "True", &finish.reason, &finish.message, facts.now);
        }
        let job = self.commit_status(job, &status).await?;
        self.records.set(&ObjectKey::of(&job), facts.record);
        let released = join_all(release.iter().map(|pod| self.release(pod))).await;
        for (pod, _) in release.iter().zip(&released).filter(|(_, result)| result.is_ok()) {
            held.remove(pod.uid());
        }
        let before = status.clone();
        status.count_released(|uid| held.contains(uid));
        let is_counted = status.uncounted_succeeded.is_empty() && status.uncounted_failed.is_empty();
        let is_over = !is_partial && is_counted && status.terminating == Some(0);
        let end = finish.filter(|_| is_over);
        if let Some(finish) = &end {
            let kind = if finish.is_success { "Complete" } else { "Failed" };
            status.set_condition(kind, "True", &finish.reason, &finish.message, facts.now);
            if finish.is_success {
                status.completion_time = Some(time::format_seconds(facts.now));
            }
        }
        if status != before {
            self.commit_status(&job, &status).await?;
        }
        if let Some(finish) = end {
            self.record_end(&job, facts, &status, &finish);
        }
        released.into_iter().find(Result::is_err).unwrap_or(Ok(()))?;
        Ok(())
    }

    async fn commit_status(&self, job: &Arc<Object>, status: &JobStatus) -> Result<Arc<Object>, ReconcileError> {
        let mut desired = Object::default();
        desired.set(&["status"], status.to_value());
        let target = ResourceRef::of(&builtin::jobs(), job);
        match commit_status(&self.cluster.client, target, job, &desired, FIELD_MANAGER).await? {
            Committed::Unchanged => Ok(Arc::clone(job)),
            Committed::Written(written) => {
                self.cluster.jobs.note(&written);
                Ok(written)
            }
        }
    }

    fn record_end(&self, job: &Object, facts: &JobFacts<'_>, status: &JobStatus, finish: &Finish) {
        let events = &self.control.events;
        if !finish.is_success {
            return events.warning(job, known_reason(&finish.reason), finish.message.as_str());
        }
        if facts.spec.completions.is_some_and(|completions| status.succeeded > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            events.warning(job, "TooManySucceededPods", message);
        }
        events.normal(job, "Completed", "Job completed");
    }
}

/// Returns the failure counts for the next pod of an index.
fn next_failures(facts: &JobFacts<'_>, index: Option<i64>) -> Option<(i64, i64)> {
    facts.spec.backoff_limit_per_index?;
    let Some(held) = index.and_then(|index| facts.held_by_index.get(&index)) else { return Some((0, 0)) };
    let (counted, ignored) = failures_of(held);
    Some(match facts.judge(held) {
        FailureAction::Ignore => (counted, ignored + 1),
        _ => (counted + 1, ignored),
    })
}

/// Maps a reason to a static string.
fn known_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 5] =
        ["BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes"];
    REASONS.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}
