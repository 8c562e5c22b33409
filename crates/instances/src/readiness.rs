//! When an object of an instance counts as ready: workloads by their aggregated status, bindings and works by conditions.

use object::{Object, conditions};
use serde_json::Value;

/// Returns true for a workload whose replicas are all ready in the clusters it runs in. A Job is ready when it is complete, a
/// CronJob while it is not suspended.
pub fn is_workload_ready(workload: &Object) -> bool {
    let status = |field: &str| workload.i64_at(&["status", field]);
    let observed = status("observedGeneration");
    let is_current = observed.zip(workload.i64_at(&["metadata", "generation"])).is_none_or(|(seen, now)| seen >= now);
    let replicas = workload.i64_at(&["spec", "replicas"]).unwrap_or(1);
    match workload.kind() {
        "Job" => conditions::is_true(workload, "Complete"),
        "CronJob" => workload.bool_at(&["spec", "suspend"]) != Some(true),
        "DaemonSet" => {
            let wanted = status("desiredNumberScheduled");
            is_current && wanted.is_some_and(|wanted| status("numberReady").unwrap_or(0) >= wanted)
        }
        _ => is_current && status("readyReplicas").unwrap_or(0) >= replicas,
    }
}

pub fn is_scheduled(binding: &Object) -> bool {
    conditions::is_true(binding, "Scheduled")
}

pub fn is_fully_applied(binding: &Object) -> bool {
    conditions::is_true(binding, "FullyApplied")
}

/// Returns true for a binding whose object is healthy in every cluster.
pub fn is_healthy(binding: &Object) -> bool {
    let clusters = binding.items(&["status", "aggregatedStatus"]);
    let is_healthy = |cluster: &Value| cluster["health"] == "Healthy";
    !clusters.is_empty() && clusters.iter().all(is_healthy)
}

pub fn is_applied(work: &Object) -> bool {
    conditions::is_true(work, "Applied")
}

/// Returns true for a work that a cluster refused or that could not be written there.
pub fn is_failed(work: &Object) -> bool {
    conditions::find(work, "Applied").is_some_and(|applied| applied.is_false())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: &str, spec: Value, status: Value, expected: bool) {
        let object = json!({"kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status});
        let object = Object::from_value(object).expect("an object");
        assert_eq!(is_workload_ready(&object), expected, "{object:?}");
    }

    #[test]
    fn workloads_are_ready_when_all_replicas_are() {
        check("Deployment", json!({"replicas": 2}), json!({"readyReplicas": 2, "observedGeneration": 2}), true);
        check("Deployment", json!({"replicas": 2}), json!({"readyReplicas": 1, "observedGeneration": 2}), false);
        check("Deployment", json!({"replicas": 2}), json!({"readyReplicas": 2, "observedGeneration": 1}), false);
        check("Deployment", json!({}), json!({}), false);
        check("StatefulSet", json!({"replicas": 0}), json!({}), true);
        check("DaemonSet", json!({}), json!({"desiredNumberScheduled": 3, "numberReady": 3}), true);
        check("DaemonSet", json!({}), json!({"desiredNumberScheduled": 3, "numberReady": 2}), false);
        check("DaemonSet", json!({}), json!({}), false);
        check("Job", json!({}), json!({"conditions": [{"type": "Complete", "status": "True"}]}), true);
        check("Job", json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]}), false);
        check("CronJob", json!({}), json!({}), true);
        check("CronJob", json!({"suspend": true}), json!({}), false);
    }

    #[test]
    fn a_binding_is_healthy_when_every_cluster_says_so() {
        let check = |clusters: Value, expected: bool| {
            let binding = json!({"kind": "ResourceBinding", "status": {"aggregatedStatus": clusters}});
            assert_eq!(is_healthy(&Object::from_value(binding).expect("an object")), expected);
        };
        check(json!([{"health": "Healthy"}, {"health": "Healthy"}]), true);
        check(json!([{"health": "Healthy"}, {"health": "Unknown"}]), false);
        check(json!([]), false);
    }
}
