//! The taints of clusters that cannot run anything, as if a ClusterTaintPolicy asked for them.
//!
//! Karmada 1.18 only keeps new work away from a lost cluster; what drives work out is left to policies the user has to
//! know of. These are the ones nearly everybody would write: `docs/decisions/0006-failover-by-default.md`.

use api::cluster::{CONDITION_READY, ClusterStatus, TAINT_NOT_READY, TAINT_UNREACHABLE};
use api::core::find_condition;
use api::failover::{
    CONDITION_SCHEDULABLE_NODES, REASON_NODES_CORDONED, TAINT_NODES_UNSCHEDULABLE, VALUE_CORDONED, VALUE_NOT_READY,
};
use jiff::Timestamp;
use object::taints::Taint;
use serde_json::Value;

use crate::taints;

const NO_EXECUTE: &str = "NoExecute";

/// Is it a taint that is put on here?
pub fn is_of_loss(taint: &Taint) -> bool {
    let keys = [TAINT_NOT_READY, TAINT_UNREACHABLE, TAINT_NODES_UNSCHEDULABLE];
    taint.effect == NO_EXECUTE && keys.contains(&taint.key.as_str())
}

/// The taints of a cluster in this condition. Those that stay keep the time they were added, for tolerations count from it.
pub fn plan(current: &[Value], status: &ClusterStatus, now: Timestamp) -> Vec<Value> {
    let not_ready = || taints::taint(TAINT_NOT_READY, NO_EXECUTE);
    let unreachable = || taints::taint(TAINT_UNREACHABLE, NO_EXECUTE);
    let ready = find_condition(&status.conditions, CONDITION_READY).map(|ready| ready.status.as_str());
    let (add, remove) = match ready {
        Some("False") => (vec![not_ready()], vec![unreachable()]),
        Some("Unknown") => (vec![unreachable()], vec![not_ready()]),
        Some("True") => (vec![], vec![not_ready(), unreachable()]),
        // It never said anything, so there is nothing in it to drive out.
        _ => (vec![], vec![]),
    };
    let mut wanted = taints::change(current, &add, &remove, now);
    let without_nodes = taints::taint(TAINT_NODES_UNSCHEDULABLE, NO_EXECUTE);
    match nodes(status) {
        Nodes::Unknown => {}
        Nodes::Usable => wanted = taints::change(&wanted, &[], &[without_nodes], now),
        Nodes::Unusable(why) => {
            let taint = Taint { value: why.to_owned(), ..without_nodes };
            wanted = taints::change(&wanted, std::slice::from_ref(&taint), &[], now);
            let key = |other: &&mut Value| other["key"] == taint.key.as_str() && other["effect"] == NO_EXECUTE;
            if let Some(same) = wanted.iter_mut().find(key) {
                same["value"] = why.into();
            }
        }
    }
    wanted
}

enum Nodes {
    Usable,
    Unusable(&'static str),
    /// Not reported; existing taints stay.
    Unknown,
}

/// Karmada's own agent counts nodes that are ready, and says nothing of cordons.
fn nodes(status: &ClusterStatus) -> Nodes {
    match find_condition(&status.conditions, CONDITION_SCHEDULABLE_NODES) {
        Some(described) if described.is_false() && described.reason == REASON_NODES_CORDONED => {
            Nodes::Unusable(VALUE_CORDONED)
        }
        Some(described) if described.is_false() => Nodes::Unusable(VALUE_NOT_READY),
        Some(_) => Nodes::Usable,
        None => match &status.node_summary {
            Some(counted) if counted.total_num > 0 && counted.ready_num == 0 => Nodes::Unusable(VALUE_NOT_READY),
            Some(_) => Nodes::Usable,
            None => Nodes::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(current: Value, status: Value, expected: &[&str]) {
        let status: ClusterStatus = serde_json::from_value(status).expect("a status");
        let current = current.as_array().expect("a list").clone();
        let now = "2026-05-01T00:00:00Z".parse().expect("a time");
        let planned = plan(&current, &status, now);
        let text = |taint: &Value, key: &str| taint[key].as_str().unwrap_or_default().to_owned();
        let described: Vec<String> = planned
            .iter()
            .map(|taint| {
                let age = if taint["timeAdded"] == "then" { "kept" } else { "new" };
                format!("{}={} {age}", text(taint, "key"), text(taint, "value"))
            })
            .collect();
        assert_eq!(described, expected, "{current:?}");
        assert_eq!(plan(&planned, &status, now), planned, "planning twice changes nothing");
    }

    fn ready(status: &str) -> Value {
        json!({"conditions": [{"type": "Ready", "status": status}]})
    }

    fn nodes_condition(status: &str, reason: &str) -> Value {
        json!({"conditions": [{"type": "Ready", "status": "True"},
            {"type": "SchedulableNodes", "status": status, "reason": reason}]})
    }

    #[test]
    fn a_lost_cluster_is_tainted_no_execute_until_it_returns() {
        let had = |key: &str| json!([{"key": key, "effect": "NoExecute", "timeAdded": "then"}]);
        check(json!([]), ready("False"), &["cluster.karmada.io/not-ready= new"]);
        check(json!([]), ready("Unknown"), &["cluster.karmada.io/unreachable= new"]);
        check(had(TAINT_UNREACHABLE), ready("Unknown"), &["cluster.karmada.io/unreachable= kept"]);
        check(had(TAINT_NOT_READY), ready("Unknown"), &["cluster.karmada.io/unreachable= new"]);
        check(had(TAINT_UNREACHABLE), ready("True"), &[]);
        check(had("mine"), ready("True"), &["mine= kept"]);
        check(json!([]), json!({}), &[]);
        let kept_away = json!([{"key": TAINT_NOT_READY, "effect": "NoSchedule", "timeAdded": "then"}]);
        check(kept_away, ready("True"), &["cluster.karmada.io/not-ready= kept"]);
    }

    #[test]
    fn a_cluster_without_a_schedulable_node_is_tainted_too() {
        let cordoned = "flotilla.dev/unschedulable=cordoned";
        let had = json!([{"key": TAINT_NODES_UNSCHEDULABLE, "effect": "NoExecute", "value": "not-ready",
            "timeAdded": "then"}]);
        check(json!([]), nodes_condition("False", "AllNodesCordoned"), &[&format!("{cordoned} new")]);
        check(json!([]), nodes_condition("False", "NoNodeReady"), &["flotilla.dev/unschedulable=not-ready new"]);
        check(had.clone(), nodes_condition("False", "AllNodesCordoned"), &[&format!("{cordoned} kept")]);
        check(had.clone(), nodes_condition("True", ""), &[]);
        check(had.clone(), nodes_condition("Unknown", "NoNodes"), &[]);
        check(had.clone(), ready("True"), &["flotilla.dev/unschedulable=not-ready kept"]);
        // As Karmada's agent reports it.
        let counted = |ready: i32| json!({"nodeSummary": {"totalNum": 3, "readyNum": ready}});
        check(json!([]), counted(0), &["flotilla.dev/unschedulable=not-ready new"]);
        check(had, counted(1), &[]);
        check(json!([]), json!({"nodeSummary": {"totalNum": 0, "readyNum": 0}}), &[]);
    }
}
