//! The rules of the batch group.

mod cron_job;
mod failure_policy;
mod indexes;
mod job;
mod job_spec;
mod job_status;
mod schedule;

use std::sync::Arc;

use crate::strategy::Strategy;

pub fn for_kind(kind: &str, _version: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "Job" => Arc::new(job::Job),
        "CronJob" => Arc::new(cron_job::CronJob),
        _ => return None,
    })
}
