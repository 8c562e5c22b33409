//! Tests of the scheduler over an in-memory API, in virtual time.

use std::time::Duration;

use object::builtin::{nodes, persistent_volume_claims, persistent_volumes, pods, storage_classes};
use object::request::Subresource;
use serde_json::{Value, json};

use crate::settings::ClusterServiceSettings;
use crate::testing::{ServicesTestbed, node, pod, running, seed};

fn with(mut value: Value, field: &str, more: Value) -> Value {
    value["spec"][field] = more;
    value
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_and_an_event_recorded() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.create(&pods(), pod("p", "1")).await;
    assert_eq!(testbed.node_of("p").await, "a");
    assert_eq!(testbed.events("p").await, ["Scheduled: Successfully assigned default/p to a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_fitting_node() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&pods(), pod("p", "3")).await;
    assert_eq!(testbed.events("p").await, ["FailedScheduling: no nodes available to schedule pods"]);
    testbed.seed(&pods(), running("other", "a", true));
    let mut small = node("a");
    small["status"]["allocatable"]["cpu"] = "2".into();
    testbed.create(&nodes(), small).await;
    testbed.pass(Duration::from_secs(2)).await;
    let reported = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
        1 Preemption is not helpful for scheduling.";
    let waiting = testbed.get(&pods(), "p").await;
    let condition = object::conditions::find(&waiting, "PodScheduled").expect("said");
    assert_eq!((condition.reason(), condition.message()), ("Unschedulable", reported));
    testbed.create(&nodes(), node("b")).await;
    testbed.pass(Duration::from_secs(3)).await;
    assert_eq!(testbed.node_of("p").await, "b");
}

#[tokio::test(start_paused = true)]
async fn freed_capacity_is_used() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.create(&pods(), pod("first", "3")).await;
    testbed.create(&pods(), pod("second", "3")).await;
    assert_eq!((testbed.node_of("first").await.as_str(), testbed.node_of("second").await.as_str()), ("a", ""));
    testbed.patch_status(&pods(), "first", json!({"phase": "Succeeded"})).await;
    testbed.pass(Duration::from_secs(2)).await;
    assert_eq!(testbed.node_of("second").await, "a");
}

#[tokio::test(start_paused = true)]
async fn existing_pods_are_known_before_the_first_decision() {
    let testbed = ServicesTestbed::start_with(ClusterServiceSettings::default(), |api| {
        // Named so that the pending pod comes first.
        seed(api, &pods(), pod("a-new", "2"));
        for (name, at) in [("z-old", "a"), ("z-older", "b")] {
            seed(api, &pods(), with(pod(name, if at == "a" { "3" } else { "1" }), "nodeName", at.into()));
        }
        seed(api, &nodes(), node("a"));
        seed(api, &nodes(), node("b"));
    })
    .await;
    assert_eq!(testbed.node_of("a-new").await, "b");
}

#[tokio::test(start_paused = true)]
async fn gated_pods_and_pods_of_other_schedulers_are_ignored() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.create(&pods(), with(pod("theirs", "1"), "schedulerName", "mine".into())).await;
    testbed.create(&pods(), with(pod("gated", "1"), "schedulingGates", json!([{"name": "wait"}]))).await;
    assert_eq!((testbed.node_of("theirs").await.as_str(), testbed.node_of("gated").await.as_str()), ("", ""));
    testbed.patch(&pods(), "gated", json!({"spec": {"schedulingGates": []}})).await;
    assert_eq!(testbed.node_of("gated").await, "a");
}

#[tokio::test(start_paused = true)]
async fn higher_priority_pods_are_first_and_preempt_others() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.create(&pods(), pod("lesser", "3")).await;
    testbed.create(&pods(), with(pod("greater", "3"), "priority", 1000.into())).await;
    assert!(testbed.find(&pods(), "lesser").await.is_none(), "preempted");
    let uid = testbed.get(&pods(), "greater").await.uid().to_owned();
    let reported = format!("Preempted: Preempted by pod {uid} on node a");
    assert_eq!(testbed.events("lesser").await.last(), Some(&reported));
    testbed.pass(Duration::from_secs(2)).await;
    assert_eq!(testbed.node_of("greater").await, "a");
}

#[tokio::test(start_paused = true)]
async fn preempted_capacity_is_reserved() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    let mut lesser = pod("lesser", "3");
    // It terminates slowly.
    lesser["metadata"]["finalizers"] = json!(["test/slow"]);
    testbed.create(&pods(), lesser).await;
    testbed.create(&pods(), with(pod("greater", "3"), "priority", 1000.into())).await;
    let greater = testbed.get(&pods(), "greater").await;
    assert_eq!(greater.str_at(&["status", "nominatedNodeName"]), "a");
    testbed.create(&pods(), pod("sneaky", "2")).await;
    testbed.patch(&pods(), "lesser", json!({"metadata": {"finalizers": null}})).await;
    testbed.pass(Duration::from_secs(15)).await;
    assert_eq!((testbed.node_of("greater").await.as_str(), testbed.node_of("sneaky").await.as_str()), ("a", ""));
}

#[tokio::test(start_paused = true)]
async fn a_failed_binding_is_retried() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.api.set_fault(|call| {
        let is_binding = call.target.subresource == Some(Subresource::Binding);
        is_binding.then(|| object::Status::unavailable("not now"))
    });
    testbed.create(&pods(), pod("p", "3")).await;
    assert_eq!(testbed.node_of("p").await, "");
    testbed.api.clear_fault();
    testbed.pass(Duration::from_secs(20)).await;
    assert_eq!(testbed.node_of("p").await, "a");
}

#[tokio::test(start_paused = true)]
async fn claims_are_waited_for() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    testbed.create(&pods(), with(pod("p", "1"), "volumes", volume)).await;
    let reported = "FailedScheduling: 0/1 nodes are available: persistentvolumeclaim \"data\" not found. preemption: \
        0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(testbed.events("p").await, [reported]);
    // The class waits for the pod and the pod for the volume; the scheduler resolves both.
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    testbed.create(&persistent_volume_claims(), claim).await;
    testbed.pass(Duration::from_secs(5)).await;
    assert_eq!(testbed.node_of("p").await, "a");
    let claim = testbed.get(&persistent_volume_claims(), "data").await;
    assert_eq!(claim.str_at(&["status", "phase"]), "Bound");
    assert_eq!(claim.annotation("volume.kubernetes.io/selected-node"), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_placed_near_its_volume() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.create(&nodes(), node("b")).await;
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    testbed.create(&storage_classes(), class).await;
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"}, "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}]}}}});
    testbed.create(&persistent_volumes(), volume).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}}}});
    testbed.create(&persistent_volume_claims(), claim).await;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    testbed.create(&pods(), with(pod("p", "1"), "volumes", volume)).await;
    testbed.pass(Duration::from_secs(5)).await;
    assert_eq!(testbed.node_of("p").await, "b");
    assert_eq!(testbed.get(&persistent_volume_claims(), "data").await.str_at(&["spec", "volumeName"]), "disk");
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_spread_and_none_is_bound_twice() {
    let testbed = ServicesTestbed::start().await;
    for name in ["a", "b", "c", "d"] {
        testbed.create(&nodes(), node(name)).await;
    }
    for index in 0..100 {
        testbed.seed(&pods(), pod(&format!("p{index}"), "100m"));
    }
    testbed.pass(Duration::from_secs(2)).await;
    let mut counts = std::collections::BTreeMap::new();
    for pod in testbed.list(&pods()).await {
        *counts.entry(pod.str_at(&["spec", "nodeName"]).to_owned()).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [25, 25, 25, 25]);
    let bindings = testbed.api.calls().iter().filter(|call| call.starts_with("create pods/binding")).count();
    assert_eq!(bindings, 100);
}
