//! Runs the pods of Jobs to completion. Triggered by Jobs and their pods.
//!
//! Writes pods and the status of Jobs. Finished Jobs are not touched; `ttlSecondsAfterFinished` decides when they are
//! deleted.

mod backoff;
mod commit;
mod indexes;
mod plan;
mod policy;
mod spec;
mod status;
mod strays;
#[cfg(test)]
mod tests;
mod track;

use std::sync::Arc;

use object::time;
use reconcile::{Controller, ObjectKey, Outcome, ReconcileError, Source};

use crate::cluster::Cluster;
use crate::dispatch::{PodRoute, selector_of};
use crate::job::backoff::BackoffRecords;
use crate::job::plan::{Finish, JobDecision, JobFacts};
use crate::job::spec::{JobSpec, TRACKING_FINALIZER, is_managed_elsewhere};
use crate::job::status::JobStatus;
use crate::pod_control::{ClaimRules, PodControl};
use crate::start::sooner;

pub use crate::job::strays::{is_stray, run as run_strays};

const COMPONENT: &str = "job-controller";
const WORKERS: usize = 4;

struct Jobs {
    cluster: Arc<Cluster>,
    control: PodControl,
    records: BackoffRecords,
}

impl Jobs {
    /// Drops the state of a Job that is deleted, finished, or managed by another controller.
    fn forget(&self, job: &ObjectKey) {
        self.records.forget(job);
    }
}

/// Returns the controller and the route for its pod events.
pub fn start(cluster: &Arc<Cluster>) -> (PodRoute, impl Future<Output = ()> + Send + use<>) {
    let rules = ClaimRules { finalizer: Some(TRACKING_FINALIZER), ..ClaimRules::default() };
    let control = PodControl::new(cluster, COMPONENT, &cluster.jobs, rules);
    let controller = Controller::new(COMPONENT);
    let route = PodRoute::new("Job", &cluster.jobs, &controller, &control);
    let jobs = Arc::new(Jobs { cluster: Arc::clone(cluster), control, records: BackoffRecords::default() });
    let sources = vec![Source::each(&cluster.jobs)];
    let running = controller.run(sources, WORKERS, cluster.cancelled(), move |key| reconcile(Arc::clone(&jobs), key));
    (route, running)
}

async fn reconcile(jobs: Arc<Jobs>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(job) = jobs.cluster.jobs.get(&key) else {
        jobs.control.pace.forget(&key);
        jobs.forget(&key);
        return Ok(Outcome::Done);
    };
    let mut status = JobStatus::of(&job);
    if is_managed_elsewhere(&job) || status.is_finished() {
        jobs.forget(&key);
        return Ok(Outcome::Done);
    }
    let Some(selector) = selector_of(&job) else { return Ok(Outcome::Done) };
    let pods = jobs.control.claim(&job, &selector).await?;
    let (spec, now) = (JobSpec::of(&job), jobs.cluster.now());
    if status.start_time.is_none() && !spec.is_suspended {
        status.start_time = Some(time::format_seconds(now));
    }
    let mut facts = JobFacts::new(&spec, status, &pods, jobs.records.get(&key), now);
    facts.is_deleting = job.is_deleting();
    let JobDecision { finish, act, recheck } = facts.decide();
    let done = jobs.commit_act(&job, &facts, act).await;
    let mut status = facts.status.clone();
    status.active = done.active;
    status.ready = Some(done.ready);
    status.terminating = Some(done.terminating);
    let finish = match finish {
        // A pod that could not be deleted keeps running, so the Job is not finished yet.
        Some(finish) => Some(finish).filter(|_| done.result.is_ok()),
        None if facts.is_complete(done.active) => Some(reached()),
        None => {
            jobs.note_suspension(&job, &facts, &mut status);
            None
        }
    };
    jobs.commit_count(&job, &facts, status, finish).await?;
    done.result?;
    Ok(sooner(Outcome::Done, recheck))
}

fn reached() -> Finish {
    let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
    Finish { is_success: true, is_announced: false, reason: reason.to_owned(), message: message.to_owned() }
}
