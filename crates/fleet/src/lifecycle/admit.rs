//! Keeps the taints and the finalizer of a cluster: taints stop scheduling while it is not ready.

use api::cluster::{CONDITION_READY, FINALIZER, TAINT_NOT_READY, TAINT_UNREACHABLE};
use jiff::Timestamp;
use object::taints::NO_SCHEDULE;
use object::{Object, conditions};

use crate::taints;

/// The cluster as it should be, and whether its taints change.
pub fn plan(cluster: &Object, now: Timestamp) -> (Object, bool) {
    let not_ready = || taints::taint(TAINT_NOT_READY, NO_SCHEDULE);
    let unreachable = || taints::taint(TAINT_UNREACHABLE, NO_SCHEDULE);
    let (add, remove) = match conditions::find(cluster, CONDITION_READY).map(|ready| ready.status()) {
        None => (vec![not_ready()], vec![]),
        Some("False") => (vec![not_ready()], vec![unreachable()]),
        Some("Unknown") => (vec![unreachable()], vec![not_ready()]),
        Some("True") => (vec![], vec![not_ready(), unreachable()]),
        Some(_) => (vec![], vec![]),
    };
    let current = cluster.items(&["spec", "taints"]);
    let wanted = taints::change(current, &add, &remove, now);
    let mut desired = cluster.clone();
    let has_new_taints = wanted != current;
    if has_new_taints {
        match wanted.is_empty() {
            true => drop(desired.remove(&["spec", "taints"])),
            false => desired.set(&["spec", "taints"], wanted),
        }
    }
    desired.add_finalizer(FINALIZER);
    (desired, has_new_taints)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-05-01T00:00:00Z";

    fn taints_after(taints: Value, ready: Option<&str>) -> Vec<String> {
        let conditions: Vec<Value> =
            ready.map(|status| json!({"type": "Ready", "status": status})).into_iter().collect();
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "m1"}, "spec": {"taints": taints}, "status": {"conditions": conditions}});
        let cluster = Object::from_value(cluster).expect("a map");
        let (desired, _) = plan(&cluster, NOW.parse().expect("a time"));
        assert!(desired.has_finalizer(FINALIZER));
        let described = |taint: &Value| {
            let time = taint["timeAdded"].as_str().unwrap_or("-").to_owned();
            format!(
                "{}:{}@{time}",
                taint["key"].as_str().unwrap_or_default(),
                taint["effect"].as_str().unwrap_or_default()
            )
        };
        desired.items(&["spec", "taints"]).iter().map(described).collect()
    }

    #[track_caller]
    fn check(taints: Value, ready: Option<&str>, expected: &[&str]) {
        assert_eq!(taints_after(taints.clone(), ready), expected, "{taints} {ready:?}");
    }

    #[test]
    fn taints_follow_the_ready_condition_and_leave_others_alone() {
        let not_ready = || json!({"key": TAINT_NOT_READY, "effect": NO_SCHEDULE, "timeAdded": "then"});
        let unreachable = || json!({"key": TAINT_UNREACHABLE, "effect": NO_SCHEDULE, "timeAdded": "then"});
        let own = || json!({"key": "mine", "effect": "NoExecute", "timeAdded": "then"});
        let added_not_ready = "cluster.karmada.io/not-ready:NoSchedule@2026-05-01T00:00:00Z";
        let added_unreachable = "cluster.karmada.io/unreachable:NoSchedule@2026-05-01T00:00:00Z";
        check(json!([]), None, &[added_not_ready]);
        check(json!([unreachable()]), None, &["cluster.karmada.io/unreachable:NoSchedule@then", added_not_ready]);
        check(json!([]), Some("False"), &[added_not_ready]);
        check(json!([unreachable(), own()]), Some("False"), &["mine:NoExecute@then", added_not_ready]);
        check(json!([not_ready()]), Some("False"), &["cluster.karmada.io/not-ready:NoSchedule@then"]);
        check(json!([not_ready()]), Some("Unknown"), &[added_unreachable]);
        check(json!([not_ready(), own(), unreachable()]), Some("True"), &["mine:NoExecute@then"]);
        check(json!([]), Some("True"), &[]);
        // The same key with another effect is another taint.
        let execute = json!({"key": TAINT_NOT_READY, "effect": "NoExecute", "timeAdded": "then"});
        check(json!([execute]), Some("True"), &["cluster.karmada.io/not-ready:NoExecute@then"]);
    }

    #[test]
    fn an_up_to_date_cluster_is_not_written() {
        let cluster = json!({"metadata": {"name": "m1", "finalizers": [FINALIZER]}, "spec": {"taints": []},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let cluster = Object::from_value(cluster).expect("a map");
        let (desired, has_new_taints) = plan(&cluster, NOW.parse().expect("a time"));
        assert_eq!((desired, has_new_taints), (cluster, false));
    }
}
