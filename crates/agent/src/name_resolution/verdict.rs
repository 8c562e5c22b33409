//! The condition of a member from the conditions of its Nodes.

use std::sync::Arc;
use std::time::Duration;

use api::core::Condition;
use jiff::{SignedDuration, Timestamp};
use object::Object;
use object::conditions::{self, ConditionView};
use object::time::{self, format_seconds};
use serde_json::{Value, json};

use super::CONDITION;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberResolution {
    /// Not all ready Nodes have a fresh condition, so nothing is reported.
    Unknown,
    Ready,
    /// No ready Node can resolve names.
    Failed,
}

/// Judges the Nodes that are ready; the others run nothing that could resolve a name.
pub fn of(nodes: &[Arc<Object>], now: Timestamp, stale: Duration) -> MemberResolution {
    let mut statuses =
        nodes.iter().filter(|node| conditions::is_true(node, "Ready")).map(|node| status(node, now, stale)).peekable();
    if statuses.peek().is_none() {
        return MemberResolution::Unknown;
    }
    let mut verdict = MemberResolution::Failed;
    for status in statuses {
        match status {
            None => return MemberResolution::Unknown,
            Some(true) => verdict = MemberResolution::Ready,
            Some(false) => {}
        }
    }
    verdict
}

/// Returns the conditions of a Node with a new one, or `None` when they have it already and its heartbeat is fresh.
pub fn node_conditions(node: &Object, new: &Condition, now: Timestamp, refresh: Duration) -> Option<Value> {
    let old = conditions::find(node, CONDITION);
    let is_same = |old: &ConditionView<'_>| {
        old.status() == new.status && old.reason() == new.reason && old.message() == new.message
    };
    if old.is_some_and(|old| is_same(&old) && is_fresh(old, now, refresh)) {
        return None;
    }
    let keeps_time = old.filter(|old| old.status() == new.status).map(|old| old.text("lastTransitionTime"));
    let time = keeps_time.filter(|time| !time.is_empty()).unwrap_or(&new.last_transition_time);
    let written = json!({"type": CONDITION, "status": new.status, "reason": new.reason, "message": new.message,
        "lastTransitionTime": time, "lastHeartbeatTime": format_seconds(now)});
    let mut all = node.items(&["status", "conditions"]).to_vec();
    match all.iter_mut().find(|condition| condition["type"] == CONDITION) {
        Some(old) => *old = written,
        None => all.push(written),
    }
    Some(Value::Array(all))
}

/// `None` if it is unknown or stale.
fn status(node: &Object, now: Timestamp, stale: Duration) -> Option<bool> {
    let found = conditions::find(node, CONDITION).filter(|found| is_fresh(*found, now, stale))?;
    match found.status() {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

fn is_fresh(condition: ConditionView<'_>, now: Timestamp, limit: Duration) -> bool {
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    time::parse(condition.text("lastHeartbeatTime")).is_some_and(|heartbeat| now.duration_since(heartbeat) <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    /// A Node with the status of its readiness, of its condition, and the age of that in seconds.
    fn node((ready, status, age): (&str, &str, i64)) -> Arc<Object> {
        let now: Timestamp = NOW.parse().expect("a time");
        let heartbeat = format_seconds(now - SignedDuration::from_secs(age));
        let mut conditions = vec![json!({"type": "Ready", "status": ready})];
        if !status.is_empty() {
            conditions.push(json!({"type": CONDITION, "status": status, "lastHeartbeatTime": heartbeat}));
        }
        let mut node = super::super::NODES.object("", "n");
        node.set(&["status", "conditions"], json!(conditions));
        Arc::new(node)
    }

    #[test]
    fn a_member_fails_when_every_ready_node_fails() {
        let check = |nodes: &[(&str, &str, i64)], expected: MemberResolution| {
            let now = NOW.parse().expect("a time");
            let objects: Vec<_> = nodes.iter().copied().map(node).collect();
            assert_eq!(of(&objects, now, Duration::from_secs(60)), expected, "{nodes:?}");
        };
        check(&[], MemberResolution::Unknown);
        check(&[("True", "True", 0)], MemberResolution::Ready);
        check(&[("True", "False", 0)], MemberResolution::Failed);
        check(&[("True", "False", 0), ("True", "True", 0)], MemberResolution::Ready);
        check(&[("True", "False", 0), ("True", "False", 60)], MemberResolution::Failed);
        // Stale, absent and unknown conditions of ready nodes.
        check(&[("True", "False", 0), ("True", "False", 61)], MemberResolution::Unknown);
        check(&[("True", "True", 0), ("True", "", 0)], MemberResolution::Unknown);
        check(&[("True", "Unknown", 0)], MemberResolution::Unknown);
        // Nodes that are not ready do not count.
        check(&[("True", "False", 0), ("False", "True", 0)], MemberResolution::Failed);
        check(&[("Unknown", "False", 0)], MemberResolution::Unknown);
    }

    #[test]
    fn unchanged_conditions_are_written_only_to_stay_fresh() {
        let check = |age: i64, new: &str, expected: Option<&str>| {
            let now: Timestamp = NOW.parse().expect("a time");
            let new =
                Condition { status: new.to_owned(), last_transition_time: "later".to_owned(), ..Condition::default() };
            let mut node = (*node(("True", "True", age))).clone();
            let mut conditions = node.items(&["status", "conditions"]).to_vec();
            for (field, value) in [("reason", ""), ("message", ""), ("lastTransitionTime", "earlier")] {
                conditions[1][field] = json!(value);
            }
            node.set(&["status", "conditions"], Value::Array(conditions));
            let written = node_conditions(&node, &new, now, Duration::from_secs(20));
            let time = written.as_ref().map(|all| all[1]["lastTransitionTime"].as_str().unwrap_or_default().to_owned());
            assert_eq!(time.as_deref(), expected, "{age} {new:?}");
            assert!(written.is_none_or(|all| all[0]["type"] == "Ready" && all[1]["lastHeartbeatTime"] == NOW));
        };
        check(5, "True", None);
        check(25, "True", Some("earlier"));
        check(5, "False", Some("later"));
    }
}
