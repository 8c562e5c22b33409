//! Rows of Job and CronJob.

use jiff::Timestamp;
use object::Object;
use object::conditions::is_true_in;
use serde_json::Value;

use super::cells::{age_of, containers, number_at, optional_text, selector};
use super::{AGE, CONTAINERS, IMAGES, NAME, PrinterTable, SELECTOR, age, boolean, integer, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    match kind {
        "Job" => Some(JOB),
        "CronJob" => Some(CRON_JOB),
        _ => None,
    }
}

const JOB: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Status", "Where the job stands."),
        text("Completions", "How many pods succeeded, of how many wanted."),
        text("Duration", "How long the job has run, or ran."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |job, now| {
        let (names, images) = containers(job.items(&["spec", "template", "spec", "containers"]));
        vec![
            job.name().into(),
            job_status(job).into(),
            completions(job).into(),
            run_time(job, now).into(),
            age_of(job, now),
            names,
            images,
            selector(job.get(&["spec", "selector"])).into(),
        ]
    },
);

fn job_status(job: &Object) -> &'static str {
    let conditions = job.items(&["status", "conditions"]);
    let holds = |ty: &str| is_true_in(conditions, ty);
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if job.is_deleting() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Object) -> String {
    let succeeded = number_at(job, &["status", "succeeded"]);
    match (job.i64_at(&["spec", "completions"]), number_at(job, &["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn run_time(job: &Object, now: Timestamp) -> String {
    let Some(start) = object::time::parse(job.str_at(&["status", "startTime"])) else { return String::new() };
    let end = object::time::parse(job.str_at(&["status", "completionTime"])).unwrap_or(now);
    age::human(end.duration_since(start))
}

const CRON_JOB: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Schedule", "When jobs start, in cron format."),
        text("Timezone", "The time zone of the schedule."),
        boolean("Suspend", "Whether no more jobs are started."),
        integer("Active", "How many jobs are running."),
        text("Last Schedule", "How long ago a job was last started."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |cron, now| {
        let job = ["spec", "jobTemplate", "spec"];
        let (names, images) = containers(cron.items(&[&job[..], &["template", "spec", "containers"]].concat()));
        let last = cron.get(&["status", "lastScheduleTime"]).and_then(Value::as_str);
        let suspend = match cron.bool_at(&["spec", "suspend"]) {
            None => "<unset>",
            Some(true) => "True",
            Some(false) => "False",
        };
        vec![
            cron.name().into(),
            cron.str_at(&["spec", "schedule"]).into(),
            optional_text(cron, &["spec", "timeZone"], "<none>"),
            suspend.into(),
            cron.items(&["status", "active"]).len().into(),
            last.map_or_else(|| "<none>".to_owned(), |time| age::since(time, now)).into(),
            age_of(cron, now),
            names,
            images,
            selector(cron.get(&[&job[..], &["selector"]].concat())).into(),
        ]
    },
);
