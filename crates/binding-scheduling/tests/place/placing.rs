//! Placement of bindings, and the events that reschedule them.

use api::capacity::{ClusterNodes, NodeCapacity};
use api::cluster::CLUSTERS;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use cluster_client::{ApiRequest, ResourceRef};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::plane::{TestPlane, dynamic, merge, summary};

#[tokio::test(start_paused = true)]
async fn a_placement_takes_two_writes() {
    for (strategy, expected) in [(json!({}), "m1:2, m2:2 (Success)"), (dynamic(), "m1:1, m2:1 (Success)")] {
        let plane = TestPlane::new();
        plane.cluster("m1", 10, json!({}));
        plane.cluster("m2", 10, json!({}));
        plane.binding("web", 2, strategy);
        plane.start("");
        plane.expect("web", expected).await;
        plane.rest().await;
        let binding = plane.get("web").await;
        assert_eq!(binding.generation(), 2);
        assert_eq!(binding.i64_at(&["status", "schedulerObservedGeneration"]), Some(2));
        assert!(binding.str_at(&["status", "lastScheduledTime"]).starts_with("2026-01-01T00:00:0"));
        let applied = binding.annotation("policy.karmada.io/applied-placement").expect("noted");
        let applied: Value = serde_json::from_str(applied).expect("json");
        assert_eq!(Some(&applied), binding.get(&["spec", "placement"]));
        assert_eq!(plane.writes("resourcebindings"), 2, "{:?}", plane.api.calls());
        let (placed, _) = expected.split_once(" (").expect("two parts");
        let text = format!("ScheduleBindingSucceed: Binding has been scheduled successfully. Result: {{{placed}}}");
        assert_eq!(plane.events().await, [format!("Deployment {text}"), format!("ResourceBinding {text}")]);
        let explanation = plane.decisions.get("default/web").expect("remembered").explanation;
        assert_eq!((explanation.reason.as_str(), explanation.attempts[0].candidates.len()), ("Success", 2));
    }
}

#[tokio::test(start_paused = true)]
async fn only_bindings_of_this_scheduler_are_placed() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    plane.binding("unclaimed", 1, json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": ""}}}));
    plane.binding("other", 1, json!({"spec": {"schedulerName": "other"}}));
    plane.binding("suspended", 1, json!({"spec": {"suspension": {"scheduling": true}}}));
    plane.binding("named", 1, json!({"spec": {"schedulerName": "default-scheduler"}}));
    plane.start("");
    plane.expect("named", "m1:1 (Success)").await;
    plane.rest().await;
    for name in ["unclaimed", "other", "suspended"] {
        plane.expect(name, " ()").await;
    }
    plane.patch(&RESOURCE_BINDINGS.gvr(), "suspended", json!({"spec": {"suspension": null}})).await;
    plane.expect("suspended", "m1:1 (Success)").await;
    let label = json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "id"}}});
    plane.patch(&RESOURCE_BINDINGS.gvr(), "unclaimed", label).await;
    plane.expect("unclaimed", "m1:1 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_fitting_cluster_the_clusters_are_cleared() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}));
    plane.binding("web", 1, json!({"spec": {"clusters": [{"name": "gone", "replicas": 1}]}}));
    plane.start("");
    let binding = plane.expect("web", " (NoClusterFit)").await;
    let message = "0/1 clusters are available: 1 cluster(s) had untolerated taint {k:NoSchedule}.";
    assert_eq!(binding.items(&["status", "conditions"])[0]["message"], message);
    plane.rest().await;
    let writes = plane.writes("resourcebindings");
    plane.rest().await;
    assert_eq!(plane.writes("resourcebindings"), writes, "no retry without an event");
    plane.patch(&CLUSTERS.gvr(), "m1", json!({"spec": {"taints": null}})).await;
    plane.expect("web", "m1:1 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn a_newly_served_kind_requeues_its_bindings() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({"status": {"apiEnablements": []}}));
    plane.binding("web", 1, json!({}));
    plane.start("");
    plane.expect("web", " (NoClusterFit)").await;
    plane.rest().await;
    let apis = json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
    plane.patch(&CLUSTERS.gvr(), "m1", json!({"status": {"apiEnablements": apis}})).await;
    plane.expect("web", "m1:1 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn without_capacity_the_clusters_are_kept_and_retried() {
    for features in ["", "PriorityBasedScheduling=true"] {
        let plane = TestPlane::new();
        plane.cluster("m1", 2, json!({}));
        let mut change = dynamic();
        merge(&mut change, &json!({"spec": {"clusters": [{"name": "m1", "replicas": 1}]}}));
        plane.binding("web", 9, change);
        plane.start(features);
        plane.expect("web", "m1:1 (Unschedulable)").await;
        let scheduler = json!({"status": {"resourceSummary": {"allocatable": {"pods": "20"}}}});
        plane.patch(&CLUSTERS.gvr(), "m1", scheduler).await;
        plane.expect("web", "m1:9 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_placement_is_reported_and_retried() {
    let refusals = [
        (Status::new(403, "QuotaExceeded", "quota says no"), "QuotaExceeded"),
        (Status::new(500, "InternalError", "the disk is full"), "SchedulerError"),
    ];
    for (refusal, reason) in refusals {
        let plane = TestPlane::new();
        plane.cluster("m1", 10, json!({}));
        plane.binding("web", 2, json!({}));
        let message = refusal.message.clone();
        plane.api.set_fault(move |call| {
            let is_placement = matches!(call.request, ApiRequest::Patch { .. })
                && call.target.gvr == RESOURCE_BINDINGS.gvr()
                && call.target.subresource.is_none();
            is_placement.then(|| refusal.clone())
        });
        plane.start("");
        let binding = plane.expect("web", &format!(" ({reason})")).await;
        assert_eq!(binding.items(&["status", "conditions"])[0]["message"], message);
        plane.api.clear_fault();
        plane.expect("web", "m1:2 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_write_does_not_delay_other_bindings() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    for name in ["a", "b", "c"] {
        plane.binding(name, 1, json!({}));
    }
    plane.api.set_fault(|call| {
        let is_stuck = call.target.name.as_deref() == Some("a") && matches!(call.request, ApiRequest::Patch { .. });
        is_stuck.then(|| Status::new(500, "InternalError", "no"))
    });
    plane.start("");
    plane.expect("b", "m1:1 (Success)").await;
    plane.expect("c", "m1:1 (Success)").await;
    plane.expect("a", " ()").await;
}

#[tokio::test(start_paused = true)]
async fn workloads_leave_a_deleted_cluster() {
    let plane = TestPlane::new();
    plane.cluster("m1", 9, json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}}));
    plane.cluster("m2", 5, json!({}));
    plane.binding(
        "web",
        4,
        json!({"spec": {"placement": {"replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated",
        }}}}),
    );
    plane.start("");
    plane.expect("web", "m1:4 (Success)").await;
    let m1 = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
    plane.client.delete(m1, Default::default()).await.expect("deleted");
    plane.expect("web", "m2:4 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn affinity_groups_are_tried_in_order_and_recorded() {
    let plane = TestPlane::new();
    plane.cluster("m2", 5, json!({}));
    let groups = json!([
        {"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2"]},
    ]);
    plane.binding("web", 4, json!({"spec": {"placement": {"clusterAffinities": groups}}}));
    plane.start("");
    let binding = plane.expect("web", "m2:4 (Success)").await;
    assert_eq!(binding.str_at(&["status", "schedulerObservingAffinityName"]), "second");
    plane.rest().await;
    let failed = "failed to schedule ResourceBinding(default/web) with clusterAffiliates index(0): 0/1 clusters are \
                  available: 1 cluster(s) did not match the placement cluster affinity constraint.";
    let events = plane.events().await;
    assert!(events.contains(&format!("Deployment ScheduleBindingFailed: {failed}")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn cluster_resource_bindings_are_placed_too() {
    let plane = TestPlane::new();
    plane.cluster("m1", 5, json!({}));
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding",
        "metadata": {"name": "x", "generation": 1, "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "id"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        },
    });
    plane.api.seed(&CLUSTER_RESOURCE_BINDINGS.gvr(), Object::from_value(binding).expect("a map"));
    plane.start("");
    plane.rest().await;
    let target = ResourceRef::cluster(&CLUSTER_RESOURCE_BINDINGS.gvr(), "x");
    assert_eq!(summary(&plane.client.get(target).await.expect("there")), "m1:0 (Success)");
    let text = "ScheduleBindingSucceed: Binding has been scheduled successfully. Result {m1:0}";
    assert_eq!(plane.events().await, [format!("ClusterResourceBinding {text}"), format!("Deployment {text}")]);
}

#[tokio::test(start_paused = true)]
async fn a_burst_does_not_exceed_the_capacity() {
    let plane = TestPlane::new();
    plane.cluster("m1", 7, json!({}));
    plane.cluster("m2", 5, json!({}));
    plane.start("");
    for n in 0..10 {
        plane.binding(&format!("web{n}"), 2, dynamic());
    }
    plane.rest().await;
    let mut given = [0, 0];
    let mut placed = 0;
    for n in 0..10 {
        let binding = plane.get(&format!("web{n}")).await;
        placed += usize::from(summary(&binding).ends_with("(Success)"));
        for target in binding.items(&["spec", "clusters"]) {
            given[usize::from(target["name"] == "m2")] += target["replicas"].as_i64().unwrap_or(0);
        }
    }
    assert!(given[0] <= 7 && given[1] <= 5, "{given:?}");
    assert_eq!((given[0] + given[1], placed), (12, 6), "and all replicas");
}

#[tokio::test(start_paused = true)]
async fn anti_affinity_holds_in_a_burst() {
    let plane = TestPlane::new();
    for name in ["m1", "m2", "m3"] {
        plane.cluster(name, 10, json!({}));
    }
    plane.start("WorkloadAffinity=true");
    let change = json!({"spec": {
        "workloadAffinityGroups": {"antiAffinityGroup": "app=db"},
        "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
    }});
    for n in 0..4 {
        plane.binding(&format!("db{n}"), 1, change.clone());
    }
    plane.rest().await;
    let mut seen = Vec::new();
    for n in 0..4 {
        let binding = plane.get(&format!("db{n}")).await;
        seen.push(summary(&binding));
    }
    seen.sort();
    assert_eq!(seen, [" (NoClusterFit)", "m1:1 (Success)", "m2:1 (Success)", "m3:1 (Success)"]);
}

#[tokio::test(start_paused = true)]
async fn a_requested_reschedule_runs_once() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    plane.cluster("m2", 10, json!({}));
    let mut change = dynamic();
    merge(&mut change, &json!({"spec": {"clusters": [{"name": "m1", "replicas": 4}]}}));
    plane.binding("web", 4, change);
    plane.start("");
    plane.expect("web", "m1:4 (Success)").await;
    plane.rest().await;
    plane
        .patch(&RESOURCE_BINDINGS.gvr(), "web", json!({"spec": {"rescheduleTriggeredAt": "2026-01-01T00:00:20Z"}}))
        .await;
    plane.expect("web", "m1:2, m2:2 (Success)").await;
    plane.rest().await;
    let writes = plane.writes("resourcebindings");
    plane.rest().await;
    assert_eq!(plane.writes("resourcebindings"), writes);
}

#[tokio::test(start_paused = true)]
async fn capacity_is_estimated_from_the_nodes_of_a_watched_member() {
    let plane = TestPlane::new();
    plane.cluster("m1", 100, json!({}));
    let nodes = |pods: i64| {
        let allocatable = [("pods".to_owned(), pods)].into();
        let nodes = vec![NodeCapacity { name: "n1".to_owned(), allocatable, ..NodeCapacity::default() }];
        ClusterNodes { nodes, ..ClusterNodes::default() }
    };
    plane.member_capacity.publish("m1", nodes(2));
    plane.binding("web", 3, dynamic());
    plane.start("");
    plane.expect("web", " (Unschedulable)").await;
    plane.member_capacity.publish("m1", nodes(3));
    plane.expect("web", "m1:3 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn each_estimate_from_nodes_is_counted() {
    let plane = TestPlane::new();
    for (name, is_watched) in [("m1", true), ("m2", true), ("m3", false)] {
        plane.cluster(name, 100, json!({}));
        let allocatable = [("pods".to_owned(), 10)].into();
        let nodes = vec![NodeCapacity { name: "n1".to_owned(), allocatable, ..NodeCapacity::default() }];
        if is_watched {
            plane.member_capacity.publish(name, ClusterNodes { nodes, ..ClusterNodes::default() });
        }
    }
    plane.binding("web", 1, json!({}));
    plane.start("");
    // The cluster with the most capacity comes first.
    plane.expect("web", "m3:1, m1:1, m2:1 (Success)").await;
    plane.rest().await;
    let mut text = String::new();
    plane.metrics.render(&mut text);
    let sum = |name: &str| -> u32 {
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<u32>().ok()).expect("a number")).sum()
    };
    let attempts = sum("karmada_scheduler_schedule_attempts_total");
    let estimates = "karmada_scheduler_estimator_estimating_request_total";
    assert!(attempts > 0, "{text}");
    assert_eq!(
        sum(&format!("{estimates}{{result=\"success\",type=\"MaxAvailableReplicas\"}}")),
        2 * attempts,
        "{text}"
    );
    assert_eq!(sum(estimates), 2 * attempts, "there are no others");
}
