//! Tests of autoscalers over an in-memory API, in virtual time.

use std::time::Duration;

use object::GroupVersionResource;
use object::builtin;
use object::builtin::{horizontal_pod_autoscalers, pod_metrics, pods};
use serde_json::{Value, json};

use crate::testing::{ServicesTestbed, running};

fn deployments() -> GroupVersionResource {
    builtin::deployments()
}

fn autoscaler(more: Value) -> Value {
    let mut autoscaler = json!({"metadata": {"name": "h"}, "spec": {"minReplicas": 1, "maxReplicas": 10,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    for (key, value) in more.as_object().into_iter().flatten() {
        autoscaler["spec"][key] = value.clone();
    }
    autoscaler
}

/// Two pods that request 100m each.
async fn testbed() -> ServicesTestbed {
    let testbed = ServicesTestbed::start().await;
    testbed.create_living_node("n").await;
    // The in-memory API has no scale subresource: the object itself has all fields that are read.
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": {"selector": "app=web"}});
    testbed.seed(&deployments(), deployment);
    for name in ["a", "b"] {
        testbed.seed(&pods(), running(name, "n", true));
    }
    testbed.pass(Duration::from_secs(600)).await;
    testbed
}

fn measure(testbed: &ServicesTestbed, cpu: &str) {
    for name in ["a", "b"] {
        let metrics = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "timestamp": testbed.now(),
            "window": "15s", "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "10Mi"}}]});
        testbed.seed(&pod_metrics(), metrics);
    }
}

async fn replicas(testbed: &ServicesTestbed) -> i64 {
    testbed.get(&deployments(), "web").await.i64_at(&["spec", "replicas"]).expect("set")
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_usage_and_scale_down_after_stabilization() {
    let testbed = testbed().await;
    measure(&testbed, "100m");
    testbed.create(&horizontal_pod_autoscalers(), autoscaler(json!({}))).await;
    assert_eq!(replicas(&testbed).await, 4);
    let reported =
        "SuccessfulRescale: New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(testbed.events("h").await, [reported]);
    let object = testbed.get(&horizontal_pod_autoscalers(), "h").await;
    let current = &object.items(&["status", "currentMetrics"])[0]["resource"]["current"];
    assert_eq!(*current, json!({"averageUtilization": 100, "averageValue": "100m"}));
    assert_eq!(object.i64_at(&["status", "desiredReplicas"]), Some(4));
    assert_eq!(testbed.condition(&horizontal_pod_autoscalers(), "h", "AbleToScale").await, "True SucceededRescale");
    assert_eq!(testbed.condition(&horizontal_pod_autoscalers(), "h", "ScalingActive").await, "True ValidMetricFound");
    assert_eq!(
        testbed.condition(&horizontal_pod_autoscalers(), "h", "ScalingLimited").await,
        "False DesiredWithinRange"
    );

    measure(&testbed, "10m");
    testbed.pass(Duration::from_secs(60)).await;
    assert_eq!(replicas(&testbed).await, 4);
    assert_eq!(testbed.condition(&horizontal_pod_autoscalers(), "h", "AbleToScale").await, "True ScaleDownStabilized");
    testbed.pass(Duration::from_secs(300)).await;
    assert_eq!(replicas(&testbed).await, 1);
}

#[tokio::test(start_paused = true)]
async fn bounds_hold_without_metrics() {
    let testbed = testbed().await;
    testbed.create(&horizontal_pod_autoscalers(), autoscaler(json!({"minReplicas": 3}))).await;
    assert_eq!(replicas(&testbed).await, 3);
    let reported = "SuccessfulRescale: New size: 3; reason: Current number of replicas below Spec.MinReplicas";
    assert_eq!(testbed.events("h").await, [reported]);
    testbed.pass(Duration::from_secs(16)).await;
    assert_eq!(
        testbed.condition(&horizontal_pod_autoscalers(), "h", "ScalingActive").await,
        "False FailedGetResourceMetric"
    );
    assert_eq!(replicas(&testbed).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_target_with_zero_replicas_is_disabled() {
    let testbed = testbed().await;
    testbed.patch(&deployments(), "web", json!({"spec": {"replicas": 0}})).await;
    testbed.create(&horizontal_pod_autoscalers(), autoscaler(json!({}))).await;
    assert_eq!(testbed.condition(&horizontal_pod_autoscalers(), "h", "ScalingActive").await, "False ScalingDisabled");
    assert_eq!(replicas(&testbed).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_target_is_reported() {
    let testbed = testbed().await;
    let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "missing"});
    testbed.create(&horizontal_pod_autoscalers(), autoscaler(json!({"scaleTargetRef": reference}))).await;
    assert_eq!(testbed.condition(&horizontal_pod_autoscalers(), "h", "AbleToScale").await, "False FailedGetScale");
}

#[tokio::test(start_paused = true)]
async fn one_container_can_be_measured_and_amounts_be_targets() {
    let testbed = testbed().await;
    measure(&testbed, "150m");
    let metrics = json!([{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main",
        "target": {"type": "AverageValue", "averageValue": "100m"}}}]);
    testbed.create(&horizontal_pod_autoscalers(), autoscaler(json!({"metrics": metrics}))).await;
    assert_eq!(replicas(&testbed).await, 3);
    assert!(testbed.events("h").await[0].ends_with("reason: cpu container resource above target"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_metric_prevents_scaling_down() {
    let testbed = testbed().await;
    measure(&testbed, "10m");
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization",
        "averageUtilization": 50}}}, {"type": "External", "external": {"metric": {"name": "queue"}}}]);
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    testbed.create(&horizontal_pod_autoscalers(), autoscaler(json!({"metrics": metrics, "behavior": behavior}))).await;
    testbed.pass(Duration::from_secs(60)).await;
    assert_eq!(replicas(&testbed).await, 2);
    assert_eq!(
        testbed.condition(&horizontal_pod_autoscalers(), "h", "ScalingActive").await,
        "False FailedGetExternalMetric"
    );
}
