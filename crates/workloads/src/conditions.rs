//! Conditions as workload controllers write them: the changed one comes last.

use jiff::Timestamp;
use object::conditions::{ConditionView, NewCondition, find};
use object::{Object, time};
use serde_json::{Value, json};

/// Appends the condition. An existing one with the same status and reason is left unchanged.
pub fn set(object: &mut Object, condition: Value) {
    let new = ConditionView::of(&condition);
    let kind = new.kind().to_owned();
    let is_same = |old: ConditionView<'_>| (old.status(), old.reason()) == (new.status(), new.reason());
    if !find(object, &kind).is_some_and(is_same) {
        replace(object, &kind, condition);
    }
}

/// Appends the condition and removes the existing one.
pub fn replace(object: &mut Object, kind: &str, condition: Value) {
    let mut conditions = object.items(&["status", "conditions"]).to_vec();
    conditions.retain(|old| ConditionView::of(old).kind() != kind);
    conditions.push(condition);
    object.set(&["status", "conditions"], conditions);
}

/// The form ReplicaSets use.
pub fn plain(condition: &NewCondition<'_>, now: Timestamp) -> Value {
    json!({"type": condition.kind, "status": condition.status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": time::format_seconds(now)})
}
