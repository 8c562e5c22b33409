//! Creates Jobs on schedule. Triggered by CronJobs, their Jobs, and timers.
//!
//! Writes Jobs and the status of CronJobs.

mod due;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cluster_client::{DeleteOptions, Preconditions, PropagationPolicy, ResourceRef, WriteOptions};
use object::Object;
use object::builtin;
use reconcile::{Committed, Controller, ObjectKey, Outcome, ReconcileError, Source, commit_status};
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::cron_job::plan::{CronJobInputs, CronJobPlan, plan};
use crate::events::RateLimitedRecorder;
use crate::owners::{controller_uid, owned_by};
use crate::pod_control::is_namespace_terminating;
use crate::start::sooner;

const COMPONENT: &str = "cronjob-controller";
const WORKERS: usize = 2;

struct CronJobs {
    cluster: Arc<Cluster>,
    events: RateLimitedRecorder,
}

pub async fn run(cluster: Arc<Cluster>) {
    let sources = vec![Source::each(&cluster.cron_jobs), Source::owner(&cluster.jobs, "CronJob")];
    let cancel = cluster.cancelled();
    let events = cluster.events(COMPONENT);
    let state = Arc::new(CronJobs { cluster, events });
    Controller::new(COMPONENT).run(sources, WORKERS, cancel, move |key| reconcile(Arc::clone(&state), key)).await;
}

async fn reconcile(state: Arc<CronJobs>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(cron_job) = state.cluster.cron_jobs.get(&key) else { return Ok(Outcome::Done) };
    let jobs = owned_by(&state.cluster.jobs_by_owner, cron_job.uid());
    let missing = state.gather_missing(&cron_job, &jobs).await?;
    let inputs = CronJobInputs { cron_job: &cron_job, jobs: &jobs, missing: &missing, now: state.cluster.now() };
    let plan = plan(&inputs);
    let recheck = plan.recheck;
    state.commit(&cron_job, plan).await?;
    Ok(sooner(Outcome::Done, recheck))
}

impl CronJobs {
    /// Returns the uids of active Jobs that are neither in the mirror nor in the API.
    async fn gather_missing(&self, cron_job: &Object, jobs: &[Arc<Object>]) -> Result<Vec<String>, ReconcileError> {
        let mut missing = Vec::new();
        for reference in cron_job.items(&["status", "active"]) {
            let (uid, name) = (reference["uid"].as_str().unwrap_or_default(), reference["name"].as_str());
            if jobs.iter().any(|job| job.uid() == uid) {
                continue;
            }
            let target = ResourceRef::namespaced(&builtin::jobs(), cron_job.namespace(), name.unwrap_or_default());
            if self.cluster.client.find(target).await?.is_none_or(|job| job.uid() != uid) {
                missing.push(uid.to_owned());
            }
        }
        Ok(missing)
    }

    async fn commit(&self, cron_job: &Arc<Object>, mut plan: CronJobPlan) -> Result<(), ReconcileError> {
        for events in std::mem::take(&mut plan.events) {
            match events.is_warning {
                true => self.events.warning(cron_job, events.reason, events.message),
                false => self.events.normal(cron_job, events.reason, events.message),
            }
        }
        for job in std::mem::take(&mut plan.forget) {
            // A failed delete is retried on the next event and does not block the rest.
            if self.delete_job(cron_job, &job).await.is_ok() {
                plan.drop_active(job.uid());
            }
        }
        let started = self.start_job(cron_job, &mut plan).await;
        if started.is_err() {
            plan.last_schedule =
                cron_job.get(&["status", "lastScheduleTime"]).and_then(Value::as_str).map(str::to_owned);
        }
        self.commit_status(cron_job, &plan).await?;
        started
    }

    async fn start_job(&self, cron_job: &Object, plan: &mut CronJobPlan) -> Result<(), ReconcileError> {
        let Some(job) = plan.create.take() else { return Ok(()) };
        for name in std::mem::take(&mut plan.replace) {
            let target = ResourceRef::namespaced(&builtin::jobs(), cron_job.namespace(), &name);
            if let Some(running) = self.cluster.client.find(target).await? {
                self.delete_job(cron_job, &running).await?;
                plan.drop_active(running.uid());
            }
        }
        let target = ResourceRef::within(&builtin::jobs(), cron_job.namespace());
        let name = job.name().to_owned();
        let created = match self.cluster.client.create(target, job, WriteOptions::managed_by(FIELD_MANAGER)).await {
            Ok(created) => {
                self.events.normal(cron_job, "SuccessfulCreate", format!("Created job {name}"));
                created
            }
            Err(status) if status.is_already_exists() => {
                let target = ResourceRef::namespaced(&builtin::jobs(), cron_job.namespace(), &name);
                self.cluster.client.get(target).await?
            }
            Err(status) if is_namespace_terminating(&status) => return Ok(()),
            Err(status) => {
                self.events.warning(cron_job, "FailedCreate", format!("Error creating job: {status}"));
                return Err(status.into());
            }
        };
        if controller_uid(&created) == Some(cron_job.uid()) {
            plan.active.push(json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": created.namespace(),
                "name": created.name(), "uid": created.uid(), "resourceVersion": created.resource_version()}));
        }
        Ok(())
    }

    async fn delete_job(&self, cron_job: &Object, job: &Object) -> Result<(), ReconcileError> {
        let options = DeleteOptions {
            preconditions: Preconditions { uid: Some(job.uid().to_owned()), resource_version: None },
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteOptions::default()
        };
        match self.cluster.client.delete(ResourceRef::of(&builtin::jobs(), job), options).await {
            Err(status) if !status.is_not_found() => {
                self.events.warning(cron_job, "FailedDelete", format!("Deleted job: {status}"));
                Err(status.into())
            }
            _ => {
                self.events.normal(cron_job, "SuccessfulDelete", format!("Deleted job {}", job.name()));
                Ok(())
            }
        }
    }

    async fn commit_status(&self, cron_job: &Arc<Object>, plan: &CronJobPlan) -> Result<(), ReconcileError> {
        let mut status = Map::new();
        if !plan.active.is_empty() {
            status.insert("active".into(), plan.active.clone().into());
        }
        let times = [("lastScheduleTime", &plan.last_schedule), ("lastSuccessfulTime", &plan.last_successful)];
        for (field, time) in times {
            if let Some(time) = time {
                status.insert(field.to_owned(), time.as_str().into());
            }
        }
        let mut desired = Object::default();
        desired.set(&["status"], status);
        let target = ResourceRef::of(&builtin::cron_jobs(), cron_job);
        let written = commit_status(&self.cluster.client, target, cron_job, &desired, FIELD_MANAGER).await?;
        if let Committed::Written(written) = written {
            self.cluster.cron_jobs.note(&written);
        }
        Ok(())
    }
}
