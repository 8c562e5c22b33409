//! The deletion order of surplus pods: least useful first, then most recently started.

use std::cmp::Ordering;
use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::pods::Pod;

/// Tie-breakers for pods with equal assignment, phase and readiness.
pub enum Ranking<'a> {
    /// As for Jobs: younger pods first.
    Plain,
    /// As for ReplicaSets: by deletion cost, by the number of related pods on the node, and by age in powers of two,
    /// so that it is not always the youngest.
    Spread { related_by_node: &'a HashMap<String, usize>, now: Timestamp },
}

/// Sorts pods so that the first one is deleted first.
pub fn sort_for_deletion(pods: &mut [Pod], ranking: &Ranking<'_>) {
    pods.sort_by(|a, b| compare(a, b, ranking));
}

fn compare(a: &Pod, b: &Pod, ranking: &Ranking<'_>) -> Ordering {
    let is_assigned = |pod: &Pod| !pod.node_name().is_empty();
    let common = is_assigned(a)
        .cmp(&is_assigned(b))
        .then_with(|| phase_order(a).cmp(&phase_order(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()));
    let placed = common.then_with(|| match ranking {
        Ranking::Plain => Ordering::Equal,
        Ranking::Spread { related_by_node, .. } => {
            let related = |pod: &Pod| related_by_node.get(pod.node_name()).copied().unwrap_or(0);
            a.deletion_cost().cmp(&b.deletion_cost()).then_with(|| related(b).cmp(&related(a)))
        }
    });
    placed
        .then_with(|| match a.is_ready() && b.is_ready() {
            true => compare_age(a, a.ready_since(), b, b.ready_since(), ranking),
            false => Ordering::Equal,
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| compare_age(a, a.created(), b, b.created(), ranking))
}

fn phase_order(pod: &Pod) -> u8 {
    match pod.phase() {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

/// Pods without a timestamp first, then the later one.
fn compare_age(a: &Pod, since_a: Option<Timestamp>, b: &Pod, since_b: Option<Timestamp>, by: &Ranking<'_>) -> Ordering {
    let (Some(since_a), Some(since_b)) = (since_a, since_b) else {
        return since_a.is_some().cmp(&since_b.is_some());
    };
    match by {
        _ if since_a == since_b => Ordering::Equal,
        Ranking::Plain => since_b.cmp(&since_a),
        Ranking::Spread { now, .. } => {
            age_rank(since_a, *now).cmp(&age_rank(since_b, *now)).then_with(|| a.uid().cmp(b.uid()))
        }
    }
}

/// The logarithm of the age.
fn age_rank(since: Timestamp, now: Timestamp) -> i32 {
    let age = now.duration_since(since).as_nanos();
    if age > 0 { age.ilog2() as i32 } else { -1 }
}

fn restarts(pod: &Pod) -> i64 {
    let counts = pod.container_statuses().iter().filter_map(|status| status.get("restartCount"));
    counts.filter_map(Value::as_i64).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::Object;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, changes: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        if let Some(changes) = changes.as_object() {
            for (pointer, value) in changes {
                *pod.pointer_mut(pointer).expect("a field of a pod") = value.clone();
            }
        }
        Pod::new(Arc::new(Object::from_value(pod).expect("a map")))
    }

    #[track_caller]
    fn check(pods: Vec<Pod>, ranking: &Ranking<'_>, expected: &str) {
        let mut pods = pods;
        sort_for_deletion(&mut pods, ranking);
        let names: Vec<&str> = pods.iter().map(|pod| pod.name()).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn least_useful_pods_are_deleted_first() {
        let old = || pod("old", json!({}));
        let unassigned = || pod("unassigned", json!({"/spec": {}}));
        let pending = || pod("pending", json!({"/status/phase": "Pending"}));
        let unready = || pod("unready", json!({"/status/conditions": []}));
        let young = || pod("young", json!({"/status/conditions/0/lastTransitionTime": "2026-01-01T00:59:00Z"}));
        let restarted = || {
            let status = json!({"phase": "Running", "containerStatuses": [{"restartCount": 3}], "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
            pod("restarted", json!({"/status": status}))
        };
        let all = || vec![old(), young(), restarted(), unready(), pending(), unassigned()];
        check(all(), &Ranking::Plain, "unassigned pending unready young restarted old");
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let related = HashMap::new();
        let spread = Ranking::Spread { related_by_node: &related, now };
        check(all(), &spread, "unassigned pending unready young restarted old");
    }

    #[test]
    fn deletion_cost_precedes_node_sharing_which_precedes_age() {
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let related = HashMap::from([("n1".to_owned(), 1), ("n2".to_owned(), 3)]);
        let spread = Ranking::Spread { related_by_node: &related, now };
        let cheap = json!({"name": "cheap", "uid": "c", "annotations":
            {"controller.kubernetes.io/pod-deletion-cost": "-1"}});
        let cheap = pod("cheap", json!({"/metadata": cheap}));
        let shared = pod("shared", json!({"/spec/nodeName": "n2"}));
        let young = pod("young", json!({"/status/conditions/0/lastTransitionTime": "2026-01-01T00:59:00Z"}));
        check(vec![young, shared, cheap], &spread, "cheap shared young");
    }

    #[test]
    fn pods_of_equal_age_rank_are_ordered_by_uid() {
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let related = HashMap::new();
        let spread = Ranking::Spread { related_by_node: &related, now };
        let since = |time: &str| json!({"/status/conditions/0/lastTransitionTime": time});
        let a = pod("a", since("2026-01-01T00:00:00Z"));
        let b = pod("b", since("2026-01-01T00:01:00Z"));
        check(vec![b.clone(), a.clone()], &spread, "a b");
        check(vec![a, b], &Ranking::Plain, "b a");
    }
}
