//! Conditions as workload controllers write them: the changed one comes last.

use jiff::Timestamp;
use object::conditions::NewCondition;
use object::{Object, time};
use serde_json::{Value, json};

/// Appends the condition. An existing one with the same status and reason is left unchanged.
pub fn set(object: &mut Object, condition: Value) {
    let kind = condition["type"].as_str().unwrap_or_default().to_owned();
    let is_same = |old: &Value| old["status"] == condition["status"] && old["reason"] == condition["reason"];
    if object.items(&["status", "conditions"]).iter().any(|old| old["type"] == condition["type"] && is_same(old)) {
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
pub fn plain(condition: &NewCondition<'_>, now: Timestamp) -> Value {
    json!({"type": condition.kind, "status": condition.status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": time::format_seconds(now)})
}
