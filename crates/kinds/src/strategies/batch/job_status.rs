//! Status updates of the Job controller: counts only grow, final conditions stay.

use std::collections::BTreeSet;

use object::{Object, conditions};
use serde_json::Value;

use super::failure_policy::invalid;
use super::indexes;
use crate::strategies::fields::{Field, Report, same};

/// Reports whether a condition of this type is true.
pub fn is_true(job: &Object, kind: &str) -> bool {
    has_status(job, kind, "True")
}

fn has_status(job: &Object, kind: &str, status: &str) -> bool {
    conditions::all(job).any(|condition| condition.kind() == kind && condition.status() == status)
}

fn is_finished(job: &Object) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

pub fn validate<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let status = report.field(new, "status");
    let about = Change { new, old };
    for count in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.field(count).non_negative();
    }
    validate_uncounted(status.field("uncountedTerminatedPods"));
    validate_end(status, &about);
    validate_times(status, &about);
    validate_counts(status, &about);
    validate_indexes(status, &about);
    validate_success_criteria(status, &about);
}

struct Change<'a> {
    new: &'a Object,
    old: &'a Object,
}

impl Change<'_> {
    fn changed(&self, key: &str) -> bool {
        !same(self.new.get(&["status", key]), self.old.get(&["status", key]))
    }

    fn turned(&self, kind: &str) -> bool {
        is_true(self.new, kind) != is_true(self.old, kind)
    }

    fn finished_now(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn number(&self, key: &str) -> i64 {
        self.new.i64_at(&["status", key]).unwrap_or(0)
    }
}

fn validate_uncounted(pods: Field<'_>) {
    let mut seen = BTreeSet::new();
    for pod in pods.field("succeeded").items().chain(pods.field("failed").items()) {
        if pod.is_empty() {
            pod.invalid("must not be empty");
        } else if !seen.insert(pod.text()) {
            pod.duplicate();
        }
    }
}

fn validate_end(status: Field<'_>, about: &Change<'_>) {
    let conditions = status.field("conditions");
    let (complete, failed, target) =
        (is_true(about.new, "Complete"), is_true(about.new, "Failed"), is_true(about.new, "FailureTarget"));
    if (about.turned("Complete") || about.turned("Failed")) && complete && failed {
        invalid(conditions, "cannot set Complete=True and Failed=true conditions");
    }
    if (about.turned("Complete") || about.turned("FailureTarget")) && complete && target {
        invalid(conditions, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if (about.turned("Failed") || about.changed("failedIndexes")) && failed && !target {
        invalid(conditions, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    let succeeded = is_true(about.new, "SuccessCriteriaMet");
    if (about.turned("Complete") || about.turned("SuccessCriteriaMet")) && complete && !succeeded {
        invalid(conditions, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is_true(about.old, kind) && !is_true(about.new, kind) {
            invalid(conditions, &format!("cannot disable the terminal {kind}=True condition"));
        }
    }
}

fn validate_times(status: Field<'_>, about: &Change<'_>) {
    let (start, end) = (status.field("startTime"), status.field("completionTime"));
    let complete = is_true(about.new, "Complete");
    if about.turned("Complete") || about.changed("completionTime") {
        if end.is_set() && !complete {
            end.invalid("cannot set completionTime when there is no Complete=True condition");
        }
        if !end.is_set() && complete {
            end.required("completionTime is required for Complete jobs");
        }
    }
    let moved = about.changed("startTime") || about.changed("completionTime");
    let time = |field: Field<'_>| object::time::parse(field.text());
    if moved
        && let (Some(started), Some(ended)) = (time(start), time(end))
        && ended < started
    {
        end.invalid("must be equal to or after `startTime`");
    }
    let old_end = about.old.get(&["status", "completionTime"]);
    if end.is_set() && old_end.is_some_and(|v| !v.is_null()) && end.value() != old_end {
        end.invalid("field is immutable");
    }
    let spec = |key: &str| about.new.get(&["spec", key]);
    let suspended = spec("suspend").and_then(Value::as_bool) == Some(true);
    let never_ran = suspended && spec("completions").and_then(Value::as_i64) == Some(0);
    if (about.finished_now() || about.changed("startTime")) && !never_ran && !start.is_set() && is_finished(about.new) {
        start.required("startTime is required for finished job");
    }
    let resumes = is_true(about.old, "Suspended") && has_status(about.new, "Suspended", "False");
    let had_start = about.old.get(&["status", "startTime"]).is_some_and(|v| !v.is_null());
    if about.changed("startTime") && !resumes && had_start && !suspended {
        start.invalid_as(start.value().cloned().unwrap_or_default(), "field is immutable for unsuspended job once set");
    }
}

fn validate_counts(status: Field<'_>, about: &Change<'_>) {
    let finished = is_finished(about.new);
    if (about.finished_now() || about.changed("active")) && about.number("active") > 0 && finished {
        status.field("active").invalid("active>0 is invalid for finished job");
    }
    if (about.finished_now() || about.changed("terminating")) && about.number("terminating") > 0 && finished {
        status.field("terminating").invalid("terminating>0 is invalid for finished job");
    }
    let uncounted = status.field("uncountedTerminatedPods");
    let some_left = !uncounted.field("failed").is_empty() || !uncounted.field("succeeded").is_empty();
    if (about.finished_now() || about.changed("uncountedTerminatedPods")) && finished && some_left {
        uncounted.invalid_internal("SUncountedTerminatedPods", "must be empty for finished job");
    }
    if (about.changed("ready") || about.changed("active")) && about.number("ready") > about.number("active") {
        status.field("ready").invalid("cannot set more ready pods than active");
    }
    let spec = |key: &str| about.new.get(&["spec", key]);
    let is_elastic =
        spec("completionMode").and_then(Value::as_str) == Some("Indexed") && spec("completions") == spec("parallelism");
    for (count, may_shrink) in [("failed", false), ("succeeded", is_elastic)] {
        let before = about.old.i64_at(&["status", count]).unwrap_or(0);
        if !may_shrink && about.number(count) < before {
            status.field(count).invalid_as(about.number(count), format!("cannot decrease the {count} counter"));
        }
    }
}

fn validate_indexes(status: Field<'_>, about: &Change<'_>) {
    let (completed, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    let completions = about.new.i64_at(&["spec", "completions"]);
    let per_index = about.new.get(&["spec", "backoffLimitPerIndex"]).is_some();
    let (completed_changed, failed_changed) = (about.changed("completedIndexes"), about.changed("failedIndexes"));
    if let Some(completions) = completions {
        if completed_changed && let Err(problem) = indexes::count(completed.text(), completions) {
            completed.invalid(format!("error parsing completedIndexes: {problem}"));
        }
        if failed_changed
            && per_index
            && failed.is_set()
            && let Err(problem) = indexes::count(failed.text(), completions)
        {
            failed.invalid(format!("error parsing failedIndexes: {problem}"));
        }
    }
    let is_indexed = about.new.str_at(&["spec", "completionMode"]) == "Indexed";
    if completed_changed && !completed.is_empty() && !is_indexed {
        completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode");
    }
    if failed_changed && !per_index && failed.is_set() {
        failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if (completed_changed || failed_changed)
        && let Some(completions) = completions
        && let Some(index) = indexes::overlap(completed.text(), failed.text(), completions)
    {
        failed.invalid(format!("failedIndexes and completedIndexes overlap at index: {index}"));
    }
}

fn validate_success_criteria(status: Field<'_>, about: &Change<'_>) {
    let conditions = status.field("conditions");
    let met = is_true(about.new, "SuccessCriteriaMet");
    for kind in ["Failed", "FailureTarget"] {
        if met && is_true(about.new, kind) {
            invalid(conditions, &format!("cannot set SuccessCriteriaMet=True and {kind}=true conditions"));
        }
    }
    let has_policy = about.new.get(&["spec", "successPolicy"]).is_some();
    if has_policy && !met && is_true(about.new, "Complete") {
        invalid(conditions, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
    let was_met = is_true(about.old, "SuccessCriteriaMet");
    if was_met && !met {
        invalid(conditions, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(about.old, "Complete") && !was_met && met {
        invalid(conditions, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}
