//! The status of a Job under construction.

use jiff::Timestamp;
use object::conditions::{self, ConditionView, NewCondition};
use object::{Object, time};
use serde_json::{Map, Value};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    pub start_time: Option<String>,
    pub completion_time: Option<String>,
    pub active: i64,
    pub ready: Option<i64>,
    pub terminating: Option<i64>,
    pub succeeded: i64,
    pub failed: i64,
    pub completed_indexes: String,
    pub failed_indexes: Option<String>,
    /// Uids of finished pods that still hold the finalizer; counted once it is removed.
    pub uncounted_succeeded: Vec<String>,
    pub uncounted_failed: Vec<String>,
    pub conditions: Vec<Value>,
}

impl JobStatus {
    pub fn of(job: &Object) -> Self {
        let text = |field| job.get(&["status", field]).and_then(Value::as_str).map(str::to_owned);
        let number = |field| job.i64_at(&["status", field]);
        let uids = |field| {
            let uids = job.items(&["status", "uncountedTerminatedPods", field]).iter();
            uids.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            start_time: text("startTime"),
            completion_time: text("completionTime"),
            active: number("active").unwrap_or(0),
            ready: number("ready"),
            terminating: number("terminating"),
            succeeded: number("succeeded").unwrap_or(0),
            failed: number("failed").unwrap_or(0),
            completed_indexes: text("completedIndexes").unwrap_or_default(),
            failed_indexes: text("failedIndexes"),
            uncounted_succeeded: uids("succeeded"),
            uncounted_failed: uids("failed"),
            conditions: job.items(&["status", "conditions"]).to_vec(),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut status = Map::new();
        let texts = [("startTime", &self.start_time), ("completionTime", &self.completion_time)];
        for (field, text) in texts.into_iter().chain([("failedIndexes", &self.failed_indexes)]) {
            if let Some(text) = text {
                status.insert(field.to_owned(), text.as_str().into());
            }
        }
        for (field, count) in [("active", self.active), ("succeeded", self.succeeded), ("failed", self.failed)] {
            if count != 0 {
                status.insert(field.to_owned(), count.into());
            }
        }
        for (field, count) in [("ready", self.ready), ("terminating", self.terminating)] {
            if let Some(count) = count {
                status.insert(field.to_owned(), count.into());
            }
        }
        if !self.completed_indexes.is_empty() {
            status.insert("completedIndexes".into(), self.completed_indexes.as_str().into());
        }
        let mut uncounted = Map::new();
        for (field, uids) in [("succeeded", &self.uncounted_succeeded), ("failed", &self.uncounted_failed)] {
            if !uids.is_empty() {
                uncounted.insert(field.to_owned(), uids.clone().into());
            }
        }
        status.insert("uncountedTerminatedPods".into(), uncounted.into());
        if !self.conditions.is_empty() {
            status.insert("conditions".into(), self.conditions.clone().into());
        }
        Value::Object(status)
    }

    pub fn condition(&self, kind: &str) -> Option<ConditionView<'_>> {
        conditions::find_in(&self.conditions, kind)
    }

    pub fn is_true(&self, kind: &str) -> bool {
        conditions::is_true_in(&self.conditions, kind)
    }

    pub fn is_finished(&self) -> bool {
        self.is_true("Complete") || self.is_true("Failed")
    }

    /// Sets a condition; a missing one is not added as False. Returns true on a change.
    pub fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        let is_same = |old: ConditionView<'_>| (old.status(), old.reason(), old.message()) == (status, reason, message);
        if self.condition(kind).map_or(status == "False", is_same) {
            return false;
        }
        conditions::edit_in(&mut self.conditions, kind, |condition| {
            condition.write(&NewCondition { kind, status, reason, message });
            condition.set("lastProbeTime", time::format_seconds(now));
            condition.set("lastTransitionTime", time::format_seconds(now));
        });
        true
    }

    /// Counts pods whose finalizer is gone.
    pub fn count_released(&mut self, is_held: impl Fn(&str) -> bool) {
        let before = (self.uncounted_succeeded.len(), self.uncounted_failed.len());
        self.uncounted_succeeded.retain(|uid| is_held(uid));
        self.uncounted_failed.retain(|uid| is_held(uid));
        self.succeeded += (before.0 - self.uncounted_succeeded.len()) as i64;
        self.failed += (before.1 - self.uncounted_failed.len()) as i64;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_round_trips() {
        let value = json!({"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 0, "terminating": 1, "failed": 3,
            "completedIndexes": "0", "failedIndexes": "", "uncountedTerminatedPods": {"failed": ["a"]},
            "conditions": [{"type": "Suspended", "status": "False"}]});
        let job = Object::from_value(json!({"status": value})).expect("a map");
        assert_eq!(JobStatus::of(&job).to_value(), value);
    }

    #[test]
    fn pods_count_after_their_finalizer_is_removed() {
        let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
        let mut status = JobStatus {
            succeeded: 1,
            uncounted_succeeded: uids(&["a", "b"]),
            uncounted_failed: uids(&["c"]),
            ..JobStatus::default()
        };
        status.count_released(|uid| uid == "b");
        assert_eq!((status.succeeded, status.failed), (2, 1));
        assert_eq!((status.uncounted_succeeded, status.uncounted_failed), (uids(&["b"]), uids(&[])));
    }
}
