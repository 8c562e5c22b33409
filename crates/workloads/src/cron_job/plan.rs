//! One reconcile step of a CronJob: Jobs to delete, a Job to start, and the new status.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use cron::Schedule;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use object::{GroupVersionKind, Object, time};
use serde_json::Value;

use crate::cron_job::due::{ScheduleStart, last_due, until_next};
use crate::owners::controller_reference;

const SCHEDULED_ANNOTATION: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// An event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJobEvent {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Debug, Default)]
pub struct CronJobPlan {
    /// Finished Jobs beyond the history limits.
    pub forget: Vec<Arc<Object>>,
    /// Running Jobs to be replaced by a new one, by name.
    pub replace: Vec<String>,
    pub create: Option<Object>,
    /// References to the active Jobs.
    pub active: Vec<Value>,
    pub last_schedule: Option<String>,
    pub last_successful: Option<String>,
    pub events: Vec<CronJobEvent>,
    pub recheck: Option<Duration>,
}

pub struct CronJobInputs<'a> {
    pub cron_job: &'a Object,
    pub jobs: &'a [Arc<Object>],
    /// Uids of active Jobs that no longer exist.
    pub missing: &'a [String],
    pub now: Timestamp,
}

impl CronJobPlan {
    fn record(&mut self, reason: &'static str, message: String) {
        self.events.push(CronJobEvent { is_warning: false, reason, message });
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.events.push(CronJobEvent { is_warning: true, reason, message });
    }

    pub fn drop_active(&mut self, uid: &str) {
        self.active.retain(|reference| reference["uid"].as_str() != Some(uid));
    }
}

pub fn plan(inputs: &CronJobInputs<'_>) -> CronJobPlan {
    let cron_job = inputs.cron_job;
    let text = |field| cron_job.get(&["status", field]).and_then(Value::as_str).map(str::to_owned);
    let mut plan = CronJobPlan {
        active: cron_job.items(&["status", "active"]).to_vec(),
        last_schedule: text("lastScheduleTime"),
        last_successful: text("lastSuccessfulTime"),
        forget: surplus(cron_job, inputs.jobs),
        ..CronJobPlan::default()
    };
    plan_active(inputs, &mut plan);
    if !cron_job.is_deleting() {
        plan_start(cron_job, inputs.now, &mut plan);
    }
    plan
}

/// Returns `Complete` or `Failed` for a finished Job.
pub fn end_of(job: &Object) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| object::conditions::is_true(job, kind))
}

fn plan_active(inputs: &CronJobInputs<'_>, plan: &mut CronJobPlan) {
    for job in inputs.jobs {
        let is_active = plan.active.iter().any(|reference| reference["uid"].as_str() == Some(job.uid()));
        match end_of(job) {
            None if !is_active => {
                let message = format!("Saw a job that the controller did not create or forgot: {}", job.name());
                plan.warn("UnexpectedJob", message);
            }
            None => {}
            Some(end) => {
                if is_active {
                    plan.drop_active(job.uid());
                    plan.record("SawCompletedJob", format!("Saw completed job: {}, condition: {end}", job.name()));
                }
                let completed = job.get(&["status", "completionTime"]).and_then(Value::as_str);
                if end == "Complete" && completed > plan.last_successful.as_deref() {
                    plan.last_successful = completed.map(str::to_owned);
                }
            }
        }
    }
    for uid in inputs.missing {
        let name = plan.active.iter().find(|reference| reference["uid"].as_str() == Some(uid));
        if let Some(name) = name.and_then(|reference| reference["name"].as_str()).map(str::to_owned) {
            plan.drop_active(uid);
            plan.record("MissingJob", format!("Active job went missing: {name}"));
        }
    }
}

/// Returns the oldest finished Jobs beyond the limit of each kind.
fn surplus(cron_job: &Object, jobs: &[Arc<Object>]) -> Vec<Arc<Object>> {
    let mut surplus = Vec::new();
    for (end, limit) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = cron_job.i64_at(&["spec", limit]).and_then(|limit| usize::try_from(limit).ok()) else {
            continue;
        };
        let mut ended: Vec<&Arc<Object>> = jobs.iter().filter(|job| end_of(job) == Some(end)).collect();
        ended.sort_by(|a, b| by_start(a, b));
        let deleting = ended.len().saturating_sub(limit);
        let alive = ended.into_iter().take(deleting).filter(|job| !job.is_deleting());
        surplus.extend(alive.map(Arc::clone));
    }
    surplus
}

/// Orders by start time; Jobs that have not started come last.
fn by_start(a: &Object, b: &Object) -> Ordering {
    let start = |job: &Object| job.get(&["status", "startTime"]).and_then(Value::as_str).map(str::to_owned);
    let (start_a, start_b) = (start(a), start(b));
    start_a.is_none().cmp(&start_b.is_none()).then_with(|| start_a.cmp(&start_b)).then_with(|| a.name().cmp(b.name()))
}

fn plan_start(cron_job: &Object, now: Timestamp, plan: &mut CronJobPlan) {
    let zone = cron_job.get(&["spec", "timeZone"]).and_then(Value::as_str);
    if let Some(zone) = zone.filter(|zone| TimeZone::get(zone).is_err()) {
        return plan.warn("UnknownTimeZone", format!("invalid timeZone: \"{zone}\": unknown time zone {zone}"));
    }
    if cron_job.bool_at(&["spec", "suspend"]).unwrap_or(false) {
        return;
    }
    let text = cron_job.str_at(&["spec", "schedule"]);
    if text.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule \"{text}\" is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        plan.warn("UnsupportedSchedule", message);
    }
    let schedule = match Schedule::parse(text, zone) {
        Ok(schedule) => schedule,
        Err(error) => {
            return plan.warn("UnparseableSchedule", format!("unparseable schedule: \"{text}\" : {error}"));
        }
    };
    let since = ScheduleStart {
        created: time::parse(cron_job.creation_timestamp()).unwrap_or(now),
        last: plan.last_schedule.as_deref().and_then(time::parse),
        deadline_seconds: cron_job.i64_at(&["spec", "startingDeadlineSeconds"]),
    };
    let due = last_due(&schedule, since, now);
    if due.is_many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.warn("TooManyMissedTimes", message.to_owned());
    }
    let last = match due.at {
        Some(at) if is_admitted(cron_job, at, now, plan) => {
            plan.create = Some(job_at(cron_job, at, zone));
            plan.last_schedule = Some(time::format_seconds(at));
            Some(at)
        }
        _ => since.last,
    };
    plan.recheck = until_next(&schedule, ScheduleStart { last, ..since }, now);
}

/// Reports whether a Job may be started for a schedule time.
fn is_admitted(cron_job: &Object, at: Timestamp, now: Timestamp, plan: &mut CronJobPlan) -> bool {
    let late_seconds = now.as_second() - at.as_second();
    if cron_job.i64_at(&["spec", "startingDeadlineSeconds"]).is_some_and(|deadline| late_seconds > deadline) {
        let at = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
        plan.warn("MissSchedule", format!("Missed scheduled time to start a job: {at}"));
        return false;
    }
    let name = job_name(cron_job, at);
    let is_started = plan.active.iter().any(|reference| reference["name"].as_str() == Some(&name));
    if is_started || plan.last_schedule.as_deref().and_then(time::parse) == Some(at) {
        return false;
    }
    match cron_job.str_at(&["spec", "concurrencyPolicy"]) {
        "Forbid" if !plan.active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.record("JobAlreadyActive", message.to_owned());
            false
        }
        "Replace" => {
            let names = plan.active.iter().filter_map(|reference| reference["name"].as_str());
            plan.replace = names.map(str::to_owned).collect();
            true
        }
        _ => true,
    }
}

/// The name is derived from the schedule time, so that no time runs twice.
fn job_name(cron_job: &Object, at: Timestamp) -> String {
    format!("{}-{}", cron_job.name(), at.as_second() / 60)
}

fn job_at(cron_job: &Object, at: Timestamp, zone: Option<&str>) -> Object {
    let gvk = GroupVersionKind::new("batch", "v1", "Job");
    let mut job = Object::new(&gvk, Some(cron_job.namespace()), &job_name(cron_job, at));
    for field in ["labels", "annotations"] {
        if let Some(value) = cron_job.get(&["spec", "jobTemplate", "metadata", field]) {
            job.set(&["metadata", field], value.clone());
        }
    }
    let zone = zone.and_then(|zone| TimeZone::get(zone).ok()).unwrap_or(TimeZone::UTC);
    let local = at.to_zoned(zone);
    let scheduled = match local.offset().seconds() {
        0 => time::format_seconds(at),
        _ => local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    };
    job.set_annotation(SCHEDULED_ANNOTATION, &scheduled);
    job.set(&["metadata", "ownerReferences"], vec![controller_reference(cron_job)]);
    job.set(&["spec"], cron_job.get(&["spec", "jobTemplate", "spec"]).cloned().unwrap_or_default());
    job
}
