//! Conditions in the status of an object, read and written without knowing its kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Object, time};

const PATH: [&str; 2] = ["status", "conditions"];

/// A condition as it stands in an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConditionView<'a>(&'a Value);

impl<'a> ConditionView<'a> {
    pub fn kind(self) -> &'a str {
        self.text("type")
    }

    /// `True`, `False` or `Unknown`; empty when it is absent.
    pub fn status(self) -> &'a str {
        self.text("status")
    }

    pub fn reason(self) -> &'a str {
        self.text("reason")
    }

    pub fn message(self) -> &'a str {
        self.text("message")
    }

    pub fn is_true(self) -> bool {
        self.status() == "True"
    }

    pub fn is_false(self) -> bool {
        self.status() == "False"
    }

    /// The time of the last change of status, if it is a valid one.
    pub fn last_transition(self) -> Option<Timestamp> {
        time::parse(self.text("lastTransitionTime"))
    }

    /// The condition as JSON.
    pub fn to_value(self) -> Value {
        self.0.clone()
    }

    /// A field that only some kinds have, such as `lastHeartbeatTime`.
    pub fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }
}

/// The fields of a condition that its writer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCondition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// The conditions of an object.
pub fn all(object: &Object) -> impl Iterator<Item = ConditionView<'_>> {
    all_in(object.items(&PATH))
}

/// The condition of a type.
pub fn find<'a>(object: &'a Object, kind: &str) -> Option<ConditionView<'a>> {
    find_in(object.items(&PATH), kind)
}

/// The conditions in a list.
pub fn all_in(conditions: &[Value]) -> impl Iterator<Item = ConditionView<'_>> {
    conditions.iter().map(ConditionView)
}

/// The condition of a type in a list of conditions.
pub fn find_in<'a>(conditions: &'a [Value], kind: &str) -> Option<ConditionView<'a>> {
    all_in(conditions).find(|condition| condition.kind() == kind)
}

/// Reports whether the object has the condition with status `True`.
pub fn is_true(object: &Object, kind: &str) -> bool {
    find(object, kind).is_some_and(ConditionView::is_true)
}

/// Reports whether the list has the condition with status `True`.
pub fn is_true_in(conditions: &[Value], kind: &str) -> bool {
    find_in(conditions, kind).is_some_and(ConditionView::is_true)
}

/// Sets a condition in its position, or last. The time of transition is kept while the status stays; fields only other
/// writers know are kept too.
pub fn set(object: &mut Object, new: &NewCondition<'_>, now: Timestamp) {
    let mut conditions = object.items(&PATH).to_vec();
    set_in(&mut conditions, new, now);
    object.set(&PATH, conditions);
}

/// Sets a condition in a list as [`set`] does in an object.
pub fn set_in(conditions: &mut Vec<Value>, new: &NewCondition<'_>, now: Timestamp) {
    let at = conditions.iter().position(|condition| condition["type"] == new.kind).unwrap_or_else(|| {
        conditions.push(json!({"type": new.kind}));
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition["status"] != new.status {
        condition["status"] = new.status.into();
        condition["lastTransitionTime"] = time::format_seconds(now).into();
    }
    condition["reason"] = new.reason.into();
    condition["message"] = new.message.into();
}

/// Removes a condition; the last one takes the list with it.
pub fn remove(object: &mut Object, kind: &str) {
    if find(object, kind).is_none() {
        return;
    }
    let mut conditions = object.items(&PATH).to_vec();
    conditions.retain(|condition| condition["type"] != kind);
    if conditions.is_empty() {
        object.remove(&PATH);
    } else {
        object.set(&PATH, conditions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn the_time_of_transition_moves_with_the_status_only() {
        let mut object = Object::default();
        let new =
            |status: &'static str, message: &'static str| NewCondition { kind: "A", status, reason: "R", message };
        set(&mut object, &new("False", "one"), at("2026-01-01T00:00:00Z"));
        set(&mut object, &new("False", "two"), at("2026-01-01T00:01:00Z"));
        let condition = find(&object, "A").expect("set");
        assert_eq!((condition.message(), condition.text("lastTransitionTime")), ("two", "2026-01-01T00:00:00Z"));
        set(&mut object, &new("True", "two"), at("2026-01-01T00:02:00Z"));
        assert_eq!(find(&object, "A").expect("set").last_transition(), Some(at("2026-01-01T00:02:00Z")));
        assert!(is_true(&object, "A") && !is_true(&object, "B"));
    }

    #[test]
    fn other_conditions_and_fields_of_other_writers_are_kept() {
        let status = json!({"conditions": [
            {"type": "A", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}, {"type": "B", "status": "False"}]});
        let mut object = Object::from_value(json!({"status": status})).expect("an object");
        let new = NewCondition { kind: "A", status: "Unknown", reason: "R", message: "" };
        set(&mut object, &new, at("2026-01-01T00:02:00Z"));
        assert_eq!(all(&object).map(|condition| condition.kind()).collect::<Vec<_>>(), ["A", "B"]);
        assert_eq!(find(&object, "A").expect("kept").text("lastHeartbeatTime"), "2026-01-01T00:00:00Z");
        assert!(find(&object, "B").is_some_and(|condition| condition.is_false()));
    }

    #[test]
    fn the_last_condition_takes_the_list_with_it() {
        let mut object =
            Object::from_value(json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}})).expect("an object");
        remove(&mut object, "A");
        remove(&mut object, "A");
        assert!(find(&object, "A").is_none() && find(&object, "B").is_some());
        remove(&mut object, "B");
        assert_eq!(object.get(&["status", "conditions"]), None);
    }
}
