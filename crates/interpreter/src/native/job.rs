//! Aggregates the jobs of all members into one.

use api::work::AggregatedStatusItem;
use jiff::Timestamp;
use object::{Object, conditions, time};
use serde_json::{Map, Value, json};

use super::read::{Zero, int, list, text, write_int};
use crate::operation::InterpretResult;

/// The sums over all members.
#[derive(Default)]
struct Tally<'a> {
    active: i64,
    succeeded: i64,
    failed: i64,
    failed_in: Vec<&'a str>,
    complete: usize,
    criteria_met: usize,
    started: usize,
    completed: usize,
    first_start: Option<&'a str>,
    last_completion: Option<&'a str>,
}

/// The new status; `None` if the job has finished and its status is final.
pub fn status(object: &Object, items: &[AggregatedStatusItem], now: Timestamp) -> InterpretResult<Option<Value>> {
    let old = object.get(&["status"]).unwrap_or(&Value::Null);
    if end_of(old)?.is_some() {
        return Ok(None);
    }
    let tally = tally(items)?;
    let mut new = Map::new();
    write_int(&mut new, "active", tally.active, Zero::Omitted);
    write_int(&mut new, "succeeded", tally.succeeded, Zero::Omitted);
    write_int(&mut new, "failed", tally.failed, Zero::Omitted);
    let conditions = conditions(&tally, items.len(), now);
    if !conditions.is_empty() {
        new.insert("conditions".to_owned(), conditions.into());
    }
    let all_started = tally.started == items.len();
    let start = match text(old, "startTime")? {
        "" => tally.first_start.filter(|_| all_started),
        known => Some(known),
    };
    if let Some(start) = start {
        new.insert("startTime".to_owned(), start.into());
    }
    if let Some(completion) = tally.last_completion.filter(|_| tally.completed == items.len()) {
        new.insert("completionTime".to_owned(), completion.into());
    }
    Ok(Some(Value::Object(new)))
}

fn tally(items: &[AggregatedStatusItem]) -> InterpretResult<Tally<'_>> {
    let mut tally = Tally::default();
    for item in items {
        let Some(status) = &item.status else { continue };
        tally.active += int(status, "active")?;
        tally.succeeded += int(status, "succeeded")?;
        tally.failed += int(status, "failed")?;
        match end_of(status)? {
            Some("Complete") => tally.complete += 1,
            Some(_) => tally.failed_in.push(&item.cluster_name),
            None => {}
        }
        let is_met = conditions::is_true_in(list(status, "conditions")?, "SuccessCriteriaMet");
        tally.criteria_met += usize::from(is_met);
        let start = text(status, "startTime")?;
        if !start.is_empty() {
            tally.started += 1;
            tally.first_start = Some(tally.first_start.filter(|first| !is_before(start, first)).unwrap_or(start));
        }
        let completion = text(status, "completionTime")?;
        if !completion.is_empty() {
            tally.completed += 1;
            let last = tally.last_completion.filter(|last| !is_before(last, completion));
            tally.last_completion = Some(last.unwrap_or(completion));
        }
    }
    Ok(tally)
}

fn conditions(tally: &Tally<'_>, members: usize, now: Timestamp) -> Vec<Value> {
    let now = time::format_seconds(now);
    let condition = |kind: &str, reason: &str, message: String| {
        json!({"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now,
            "reason": reason, "message": message})
    };
    let mut conditions = Vec::new();
    if !tally.failed_in.is_empty() {
        let clusters = tally.failed_in.join(",");
        conditions.push(condition("Failed", "JobFailed", format!("Job executed failed in member clusters {clusters}")));
    }
    // A new binding without members is not a success.
    if tally.complete == members && members > 0 {
        conditions.push(condition("Complete", "Completed", "Job completed".to_owned()));
        if tally.criteria_met == members {
            let message = "All member clusters have met success criteria".to_owned();
            conditions.push(condition("SuccessCriteriaMet", "CompletionsReached", message));
        }
    }
    conditions
}

/// `Complete` or `Failed` once the job has finished.
fn end_of(status: &Value) -> InterpretResult<Option<&str>> {
    let over = conditions::all_in(list(status, "conditions")?)
        .find(|condition| matches!(condition.kind(), "Complete" | "Failed") && condition.is_true());
    Ok(over.map(|condition| condition.kind()))
}

/// Invalid times sort before all others.
pub fn is_before(a: &str, b: &str) -> bool {
    time::parse(a) < time::parse(b)
}
