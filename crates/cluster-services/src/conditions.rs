//! Conditions in the status of an object.

use jiff::Timestamp;
use object::{Object, time};
use serde_json::{Value, json};

/// The content of a condition, without its timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

pub fn find<'a>(object: &'a Object, kind: &str) -> Option<&'a Value> {
    object.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(object: &Object, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Updates a condition in place, or appends it. The transition time changes only with the status; unknown fields are
/// kept.
pub fn set(object: &mut Object, update: &ConditionUpdate<'_>, now: Timestamp) {
    let mut conditions = object.items(&["status", "conditions"]).to_vec();
    let at = conditions.iter().position(|condition| condition["type"] == update.kind);
    let at = at.unwrap_or_else(|| {
        conditions.push(json!({"type": update.kind}));
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition["status"] != update.status {
        condition["status"] = update.status.into();
        condition["lastTransitionTime"] = time::format_seconds(now).into();
    }
    condition["reason"] = update.reason.into();
    condition["message"] = update.message.into();
    object.set(&["status", "conditions"], conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let mut object = Object::default();
        let update =
            |status: &'static str, message: &'static str| ConditionUpdate { kind: "A", status, reason: "R", message };
        let at = |text: &str| text.parse().expect("a time");
        set(&mut object, &update("False", "one"), at("2026-01-01T00:00:00Z"));
        set(&mut object, &update("False", "two"), at("2026-01-01T00:01:00Z"));
        let condition = find(&object, "A").expect("set");
        assert_eq!(
            (&condition["message"], &condition["lastTransitionTime"]),
            (&json!("two"), &json!("2026-01-01T00:00:00Z"))
        );
        set(&mut object, &update("True", "two"), at("2026-01-01T00:02:00Z"));
        assert_eq!(find(&object, "A").expect("set")["lastTransitionTime"], "2026-01-01T00:02:00Z");
        assert!(is_true(&object, "A"));
    }
}
