//! Conditions in the status of an object.

use jiff::Timestamp;
use object::{Object, time};
use serde_json::{Value, json};

/// The content of a condition, without its timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCondition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

impl WorkloadCondition {
    pub fn new(kind: &'static str, status: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { kind, status, reason: reason.to_owned(), message: message.into() }
    }
}

pub fn find<'a>(object: &'a Object, kind: &str) -> Option<&'a Value> {
    object.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(object: &Object, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| condition["status"] == "True")
}

pub fn remove(object: &mut Object, kind: &str) {
    if find(object, kind).is_none() {
        return;
    }
    let mut conditions = object.items(&["status", "conditions"]).to_vec();
    conditions.retain(|condition| condition["type"] != kind);
    if conditions.is_empty() {
        object.remove(&["status", "conditions"]);
    } else {
        object.set(&["status", "conditions"], conditions);
    }
}

/// Appends the condition. An existing one with the same status and reason is left unchanged.
pub fn set(object: &mut Object, condition: Value) {
    let kind = condition["type"].as_str().unwrap_or_default().to_owned();
    let is_same = |old: &Value| old["status"] == condition["status"] && old["reason"] == condition["reason"];
    if find(object, &kind).is_some_and(is_same) {
        return;
    }
    replace(object, &kind, condition);
}

/// Appends the condition and removes the existing one.
pub fn replace(object: &mut Object, kind: &str, condition: Value) {
    let mut conditions = object.items(&["status", "conditions"]).to_vec();
    conditions.retain(|old| old["type"] != kind);
    conditions.push(condition);
    object.set(&["status", "conditions"], conditions);
}

/// The form ReplicaSets use.
pub fn plain(condition: &WorkloadCondition, now: Timestamp) -> Value {
    json!({"type": condition.kind, "status": condition.status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": time::format_seconds(now)})
}
