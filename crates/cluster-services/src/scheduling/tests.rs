//! Tests of the scheduler over an in-memory API, in virtual time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::resources::{claims, nodes, pods, storage_classes, volumes};
use crate::settings::Settings;
use crate::testing::{Stage, node, pod, running, seed};

fn with(mut value: Value, field: &str, more: Value) -> Value {
    value["spec"][field] = more;
    value
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_a_node_and_users_are_told() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.create(&pods(), pod("p", "1")).await;
    assert_eq!(stage.node_of("p").await, "a");
    assert_eq!(stage.events("p").await, ["Scheduled: Successfully assigned default/p to a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_a_node_can_take_it() {
    let stage = Stage::start().await;
    stage.create(&pods(), pod("p", "3")).await;
    assert_eq!(stage.events("p").await, ["FailedScheduling: no nodes available to schedule pods"]);
    stage.seed(&pods(), running("other", "a", true));
    let mut small = node("a");
    small["status"]["allocatable"]["cpu"] = "2".into();
    stage.create(&nodes(), small).await;
    stage.pass(Duration::from_secs(2)).await;
    let told = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
        1 Preemption is not helpful for scheduling.";
    let waiting = stage.get(&pods(), "p").await;
    let condition = crate::conditions::find(&waiting, "PodScheduled").expect("said");
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("Unschedulable"), &json!(told)));
    stage.create(&nodes(), node("b")).await;
    stage.pass(Duration::from_secs(3)).await;
    assert_eq!(stage.node_of("p").await, "b");
}

#[tokio::test(start_paused = true)]
async fn room_that_a_pod_leaves_is_used() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.create(&pods(), pod("first", "3")).await;
    stage.create(&pods(), pod("second", "3")).await;
    assert_eq!((stage.node_of("first").await.as_str(), stage.node_of("second").await.as_str()), ("a", ""));
    stage.patch_status(&pods(), "first", json!({"phase": "Succeeded"})).await;
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!(stage.node_of("second").await, "a");
}

#[tokio::test(start_paused = true)]
async fn what_is_on_nodes_is_known_before_the_first_decision() {
    let stage = Stage::start_with(Settings::default(), |api| {
        // Named so that the pending pod comes first.
        seed(api, &pods(), pod("a-new", "2"));
        for (name, at) in [("z-old", "a"), ("z-older", "b")] {
            seed(api, &pods(), with(pod(name, if at == "a" { "3" } else { "1" }), "nodeName", at.into()));
        }
        seed(api, &nodes(), node("a"));
        seed(api, &nodes(), node("b"));
    })
    .await;
    assert_eq!(stage.node_of("a-new").await, "b");
}

#[tokio::test(start_paused = true)]
async fn others_pods_and_gated_pods_are_left_alone() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.create(&pods(), with(pod("theirs", "1"), "schedulerName", "mine".into())).await;
    stage.create(&pods(), with(pod("gated", "1"), "schedulingGates", json!([{"name": "wait"}]))).await;
    assert_eq!((stage.node_of("theirs").await.as_str(), stage.node_of("gated").await.as_str()), ("", ""));
    stage.patch(&pods(), "gated", json!({"spec": {"schedulingGates": []}})).await;
    assert_eq!(stage.node_of("gated").await, "a");
}

#[tokio::test(start_paused = true)]
async fn the_important_go_first_and_may_drive_others_out() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.create(&pods(), pod("lesser", "3")).await;
    stage.create(&pods(), with(pod("greater", "3"), "priority", 1000.into())).await;
    assert!(stage.find(&pods(), "lesser").await.is_none(), "preempted");
    let uid = stage.get(&pods(), "greater").await.uid().to_owned();
    let told = format!("Preempted: Preempted by pod {uid} on node a");
    assert_eq!(stage.events("lesser").await.last(), Some(&told));
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!(stage.node_of("greater").await, "a");
}

#[tokio::test(start_paused = true)]
async fn room_made_is_not_taken_by_others() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    let mut lesser = pod("lesser", "3");
    // It terminates slowly.
    lesser["metadata"]["finalizers"] = json!(["test/slow"]);
    stage.create(&pods(), lesser).await;
    stage.create(&pods(), with(pod("greater", "3"), "priority", 1000.into())).await;
    let greater = stage.get(&pods(), "greater").await;
    assert_eq!(greater.str_at(&["status", "nominatedNodeName"]), "a");
    stage.create(&pods(), pod("sneaky", "2")).await;
    stage.patch(&pods(), "lesser", json!({"metadata": {"finalizers": null}})).await;
    stage.pass(Duration::from_secs(15)).await;
    assert_eq!((stage.node_of("greater").await.as_str(), stage.node_of("sneaky").await.as_str()), ("a", ""));
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_fails_is_tried_again() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.api.set_fault(|call| {
        let is_binding = call.target.subresource.as_deref() == Some("binding");
        is_binding.then(|| object::Status::unavailable("not now"))
    });
    stage.create(&pods(), pod("p", "3")).await;
    assert_eq!(stage.node_of("p").await, "");
    stage.api.clear_fault();
    stage.pass(Duration::from_secs(20)).await;
    assert_eq!(stage.node_of("p").await, "a");
}

#[tokio::test(start_paused = true)]
async fn claims_are_waited_for() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    stage.create(&pods(), with(pod("p", "1"), "volumes", volume)).await;
    let told = "FailedScheduling: 0/1 nodes are available: persistentvolumeclaim \"data\" not found. preemption: \
        0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(stage.events("p").await, [told]);
    // The class waits for the pod and the pod for the volume; the scheduler resolves both.
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    stage.create(&claims(), claim).await;
    stage.pass(Duration::from_secs(5)).await;
    assert_eq!(stage.node_of("p").await, "a");
    let claim = stage.get(&claims(), "data").await;
    assert_eq!(claim.str_at(&["status", "phase"]), "Bound");
    assert_eq!(claim.annotation("volume.kubernetes.io/selected-node"), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_goes_where_its_volume_is() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.create(&nodes(), node("b")).await;
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    stage.create(&storage_classes(), class).await;
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"}, "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}]}}}});
    stage.create(&volumes(), volume).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}}}});
    stage.create(&claims(), claim).await;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    stage.create(&pods(), with(pod("p", "1"), "volumes", volume)).await;
    stage.pass(Duration::from_secs(5)).await;
    assert_eq!(stage.node_of("p").await, "b");
    assert_eq!(stage.get(&claims(), "data").await.str_at(&["spec", "volumeName"]), "disk");
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_spread_and_none_is_bound_twice() {
    let stage = Stage::start().await;
    for name in ["a", "b", "c", "d"] {
        stage.create(&nodes(), node(name)).await;
    }
    for index in 0..100 {
        stage.seed(&pods(), pod(&format!("p{index}"), "100m"));
    }
    stage.pass(Duration::from_secs(2)).await;
    let mut counts = std::collections::BTreeMap::new();
    for pod in stage.list(&pods()).await {
        *counts.entry(pod.str_at(&["spec", "nodeName"]).to_owned()).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [25, 25, 25, 25]);
    let bindings = stage.api.calls().iter().filter(|call| call.starts_with("create pods/binding")).count();
    assert_eq!(bindings, 100);
}
