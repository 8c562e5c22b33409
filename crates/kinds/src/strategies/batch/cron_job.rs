//! CronJobs.

use object::{FieldError, FieldPath, Object};
use serde_json::{Value, json};

use super::{job, job_spec, schedule};
use crate::strategies::defaults::{map_or_new, set_absent, set_empty_str};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::warnings;
use crate::strategy::{Strategy, WriteContext};

/// The controller appends eleven characters to the names of Jobs.
const NAME_BYTES_MAX: usize = 52;

pub struct CronJob;

impl Strategy for CronJob {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_empty_str(spec, "concurrencyPolicy", "Allow");
        set_absent(spec, "suspend", false);
        set_absent(spec, "successfulJobsHistoryLimit", 3);
        set_absent(spec, "failedJobsHistoryLimit", 1);
        if let Some(template) = map_or_new(spec, "jobTemplate") {
            set_absent(template, "metadata", json!({}));
            if let Some(job) = map_or_new(template, "spec") {
                job_spec::default_template(job);
            }
        }
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({}));
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"), None);
        if object.name().len() > NAME_BYTES_MAX {
            report.push(FieldError::invalid(
                FieldPath::new("metadata.name"),
                object.name(),
                "must be no more than 52 characters",
            ));
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        validate_spec(report.field(new, "spec"), old.get(&["spec"]));
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        let mut out = Vec::new();
        if old.is_none() {
            out.extend(warnings::hostname_warning(new.name(), "Pod names and hostnames"));
        }
        if old.is_none_or(|old| !same(old.get(&["spec"]), new.get(&["spec"]))) {
            out.extend(job::spec_warnings("spec.jobTemplate.spec", new.get(&["spec", "jobTemplate", "spec"])));
        }
        if old.is_some() && new.str_at(&["spec", "schedule"]).contains("TZ") {
            out.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
        }
        out
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_spec(spec: Field<'_>, old: Option<&Value>) {
    let (when, zone) = (spec.field("schedule"), spec.field("timeZone"));
    if when.require() {
        let stored = old.and_then(|o| o["schedule"].as_str()).unwrap_or_default();
        validate_schedule(when, stored.contains("TZ"), zone.is_set());
    }
    spec.field("startingDeadlineSeconds").non_negative();
    if zone.is_set() && old.is_none_or(|o| o.get("timeZone") != zone.value()) {
        zone.problems(schedule::zone_problems(zone.text()));
    }
    spec.field("concurrencyPolicy").required_one_of(&["Allow", "Forbid", "Replace"]);
    let job = spec.field("jobTemplate").field("spec");
    job_spec::validate(job);
    if job.field("selector").is_set() {
        job.field("selector").invalid_internal("SLabelSelector", "`selector` will be auto-generated");
    }
    let manual = job.field("manualSelector");
    if manual.flag() {
        manual.push(FieldError {
            value: Some(Value::Bool(true)),
            ..FieldError::not_supported(manual.field_path(), "", &["nil", "false"])
        });
    }
    spec.field("successfulJobsHistoryLimit").non_negative();
    spec.field("failedJobsHistoryLimit").non_negative();
}

fn validate_schedule(when: Field<'_>, may_name_zone: bool, has_zone: bool) {
    when.problems(schedule::problem(when.text()).into_iter().collect());
    if when.text().contains("TZ") {
        if !may_name_zone {
            when.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if has_zone {
            when.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
}
