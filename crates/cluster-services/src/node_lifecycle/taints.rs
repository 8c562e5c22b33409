//! Computes the taints of a node from its conditions. Pure.

use object::Object;
use object::conditions::{self, ConditionView};
use object::taints::NODE_UNSCHEDULABLE;
use serde_json::{Value, json};

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Condition, status, and the NoSchedule taint for it.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The readiness of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady,
    Unknown,
}

pub fn readiness_of(node: &Object) -> Readiness {
    match conditions::find(node, "Ready").map(ConditionView::status) {
        Some("True") => Readiness::Ready,
        Some("Unknown") => Readiness::Unknown,
        _ => Readiness::NotReady,
    }
}

/// Returns the NoExecute taint of a readiness.
pub fn eviction_taint(readiness: Readiness) -> Option<&'static str> {
    match readiness {
        Readiness::Ready => None,
        Readiness::NotReady => Some(NOT_READY),
        Readiness::Unknown => Some(UNREACHABLE),
    }
}

fn is(taint: &Value, key: &str, effect: &str) -> bool {
    taint["key"] == key && taint["effect"] == effect
}

pub fn has_driving(node: &Object) -> bool {
    let taints = node.items(&["spec", "taints"]).iter();
    taints.into_iter().any(|taint| is(taint, NOT_READY, "NoExecute") || is(taint, UNREACHABLE, "NoExecute"))
}

/// The eviction decision for a node, in addition to its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionMode {
    /// Evict pods with the taint of the node's state.
    Out,
    /// Keep the current eviction state.
    AsIs,
    /// Evict no pods.
    Stop,
}

/// Returns the desired taints. Taints of other owners are kept.
pub fn plan_taints(node: &Object, eviction_mode: EvictionMode, now: &str) -> Vec<Value> {
    let readiness = readiness_of(node);
    let drives = match eviction_mode {
        EvictionMode::Out => eviction_taint(readiness),
        EvictionMode::AsIs => eviction_taint(readiness).filter(|_| has_driving(node)),
        EvictionMode::Stop => None,
    };
    let is_said = |(kind, status, _): &&(&str, &str, &str)| {
        conditions::find(node, kind).is_some_and(|condition| condition.status() == *status)
            || (*kind == "Ready" && *status == "False" && conditions::find(node, kind).is_none())
    };
    let mut wanted: Vec<(&str, &str)> =
        BY_CONDITION.iter().filter(is_said).map(|(_, _, key)| (*key, "NoSchedule")).collect();
    if node.bool_at(&["spec", "unschedulable"]) == Some(true) {
        wanted.push((NODE_UNSCHEDULABLE, "NoSchedule"));
    }
    wanted.extend(drives.map(|key| (key, "NoExecute")));
    let is_managed = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        match taint["effect"].as_str() {
            Some("NoSchedule") => key == NODE_UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, known)| *known == key),
            Some("NoExecute") => matches!(key, NOT_READY | UNREACHABLE),
            _ => false,
        }
    };
    let is_wanted = |taint: &Value| wanted.iter().any(|(key, effect)| is(taint, key, effect));
    let old = node.items(&["spec", "taints"]);
    let mut taints: Vec<Value> = old.iter().filter(|taint| !is_managed(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in &wanted {
        if !old.iter().any(|taint| is(taint, key, effect)) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": now}));
        }
    }
    taints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str, taints: Value) -> Object {
        let node = json!({"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Object::from_value(node).expect("a map")
    }

    #[track_caller]
    fn check(node: &Object, eviction_mode: EvictionMode, expected: &[&str]) {
        let taints = plan_taints(node, eviction_mode, "now");
        let text = |taint: &Value| {
            format!("{}:{}", taint["key"].as_str().unwrap_or_default(), taint["effect"].as_str().unwrap_or_default())
                .replace("node.kubernetes.io/", "")
        };
        assert_eq!(taints.iter().map(text).collect::<Vec<_>>(), expected, "{node:?} {eviction_mode:?}");
    }

    #[test]
    fn taints_follow_conditions() {
        let driven = json!([{"key": UNREACHABLE, "effect": "NoExecute"}, {"key": "mine", "effect": "NoExecute"}]);
        check(&node("True", json!([])), EvictionMode::Out, &[]);
        check(&node("True", driven.clone()), EvictionMode::AsIs, &["mine:NoExecute"]);
        check(&node("Unknown", json!([])), EvictionMode::Out, &["unreachable:NoSchedule", "unreachable:NoExecute"]);
        check(&node("Unknown", json!([])), EvictionMode::AsIs, &["unreachable:NoSchedule"]);
        check(
            &node("False", driven.clone()),
            EvictionMode::AsIs,
            &["mine:NoExecute", "not-ready:NoSchedule", "not-ready:NoExecute"],
        );
        check(&node("Unknown", driven), EvictionMode::Stop, &["mine:NoExecute", "unreachable:NoSchedule"]);
        let cordoned = json!({"spec": {"unschedulable": true}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]}});
        let cordoned = Object::from_value(cordoned).expect("a map");
        check(&cordoned, EvictionMode::AsIs, &["disk-pressure:NoSchedule", "unschedulable:NoSchedule"]);
        check(&Object::default(), EvictionMode::AsIs, &["not-ready:NoSchedule"]);
    }
}
