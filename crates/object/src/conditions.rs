//! Conditions in the status of an object, read and written without knowing its kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Object, time};

const PATH: [&str; 2] = ["status", "conditions"];

/// A condition as it stands in an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConditionView<'a>(&'a Value);

impl<'a> ConditionView<'a> {
    pub fn of(condition: &'a Value) -> Self {
        Self(condition)
    }

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

    /// The condition as JSON, under another type.
    pub fn renamed(self, kind: &str) -> Value {
        let mut condition = self.to_value();
        condition["type"] = kind.into();
        condition
    }

    /// A field that only some kinds have, such as `lastHeartbeatTime`.
    pub fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }
}

/// A condition that is being changed.
#[derive(Debug)]
pub struct ConditionMut<'a>(&'a mut Value);

impl ConditionMut<'_> {
    pub fn view(&self) -> ConditionView<'_> {
        ConditionView(self.0)
    }

    /// Sets the status; the time of transition moves if it differs.
    pub fn set_status(&mut self, status: &str, now: Timestamp) {
        if self.view().status() != status {
            self.set("status", status);
            self.set("lastTransitionTime", time::format_seconds(now));
        }
    }

    /// Sets status, reason and message and no time: for kinds whose conditions have none.
    pub fn write(&mut self, new: &NewCondition<'_>) {
        self.set("status", new.status);
        self.set("reason", new.reason);
        self.set("message", new.message);
    }

    /// Sets a field that only some kinds have.
    pub fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.0[field] = value.into();
    }

    /// Sets a text; an empty one is left out.
    pub fn set_text(&mut self, field: &str, text: &str) {
        match (text, self.0.as_object_mut()) {
            ("", Some(fields)) => drop(fields.remove(field)),
            _ => self.set(field, text),
        }
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
    edit_in(conditions, new.kind, |condition| {
        condition.set_status(new.status, now);
        condition.write(new);
    });
}

/// Changes the condition of a type; a missing one is added with its type only.
pub fn edit(object: &mut Object, kind: &str, change: impl FnOnce(&mut ConditionMut<'_>)) {
    let mut conditions = object.items(&PATH).to_vec();
    edit_in(&mut conditions, kind, change);
    object.set(&PATH, conditions);
}

/// Changes a condition in a list as [`edit`] does in an object.
pub fn edit_in(conditions: &mut Vec<Value>, kind: &str, change: impl FnOnce(&mut ConditionMut<'_>)) {
    let at = conditions.iter().position(|condition| ConditionView(condition).kind() == kind).unwrap_or_else(|| {
        conditions.push(json!({"type": kind}));
        conditions.len() - 1
    });
    change(&mut ConditionMut(&mut conditions[at]));
}

/// Removes a condition; the last one takes the list with it.
pub fn remove(object: &mut Object, kind: &str) {
    if find(object, kind).is_none() {
        return;
    }
    let mut conditions = object.items(&PATH).to_vec();
    conditions.retain(|condition| ConditionView(condition).kind() != kind);
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
