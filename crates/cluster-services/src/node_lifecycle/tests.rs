//! Tests of node lifecycle over an in-memory API, in virtual time.

use std::time::Duration;

use serde_json::json;

use crate::resources::{leases, nodes, pods};
use crate::testing::{Stage, node, running};

fn renew(stage: &Stage, name: &str) {
    let lease = json!({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": stage.now()}});
    stage.seed(&leases(), lease);
}

/// Advances time while the named nodes send heartbeats.
async fn live(stage: &Stage, names: &[&str], seconds: u64) {
    for _ in 0..seconds / 5 {
        for name in names {
            renew(stage, name);
        }
        stage.pass(Duration::from_secs(5)).await;
    }
}

async fn taints(stage: &Stage, name: &str) -> Vec<String> {
    let node = stage.get(&nodes(), name).await;
    let text = |taint: &serde_json::Value| {
        let part = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        format!("{}:{}", part("key").replace("node.kubernetes.io/", ""), part("effect"))
    };
    node.items(&["spec", "taints"]).iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_unknown_and_its_pods_go_when_they_bear_it_no_longer() {
    let stage = Stage::start().await;
    for name in ["a", "b", "c"] {
        stage.create(&nodes(), node(name)).await;
    }
    let mut patient = running("patient", "a", true);
    patient["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 60}]);
    let mut steadfast = running("steadfast", "a", true);
    steadfast["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    stage.seed(&pods(), patient);
    stage.seed(&pods(), steadfast);
    stage.seed(&pods(), running("weak", "a", true));
    live(&stage, &["a", "b", "c"], 100).await;
    assert_eq!(stage.condition(&nodes(), "a", "Ready").await, "True");
    assert_eq!(taints(&stage, "a").await, Vec::<String>::new());

    live(&stage, &["b", "c"], 60).await;
    assert_eq!(stage.condition(&nodes(), "a", "Ready").await, "Unknown NodeStatusUnknown");
    assert_eq!(stage.condition(&nodes(), "b", "Ready").await, "True");
    assert_eq!(taints(&stage, "a").await, ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert!(stage.find(&pods(), "weak").await.is_none(), "it does not tolerate the taint");
    assert_eq!(stage.condition(&pods(), "patient", "Ready").await, "False");
    assert!(stage.events("a").await.contains(&"NodeNotReady: Node a status is now: NodeNotReady".to_owned()));

    live(&stage, &["b", "c"], 70).await;
    assert!(stage.find(&pods(), "patient").await.is_none(), "its toleration has expired");
    assert!(stage.find(&pods(), "steadfast").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_keeps_its_pods() {
    let stage = Stage::start().await;
    for name in ["a", "b"] {
        stage.create(&nodes(), node(name)).await;
    }
    let mut patient = running("p", "a", true);
    patient["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    stage.create(&pods(), patient).await;
    live(&stage, &["b"], 80).await;
    assert_eq!(taints(&stage, "a").await.len(), 2);
    let well = json!({"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": stage.now()}]});
    stage.patch_status(&nodes(), "a", well).await;
    live(&stage, &["a", "b"], 100).await;
    assert_eq!(taints(&stage, "a").await, Vec::<String>::new());
    assert!(stage.find(&pods(), "p").await.is_some());
    assert!(stage.events("p").await.contains(&"TaintManagerEviction: Cancelling deletion of Pod default/p".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn when_all_nodes_are_silent_nobody_is_driven_out() {
    let stage = Stage::start().await;
    for name in ["a", "b", "c"] {
        stage.create(&nodes(), node(name)).await;
        stage.seed(&pods(), running(&format!("on-{name}"), name, true));
    }
    stage.pass(Duration::from_secs(900)).await;
    for name in ["a", "b", "c"] {
        assert_eq!(stage.condition(&nodes(), name, "Ready").await, "Unknown NodeStatusUnknown");
        assert_eq!(taints(&stage, name).await, ["unreachable:NoSchedule"], "{name}");
        assert!(stage.find(&pods(), &format!("on-{name}")).await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_spoke_is_given_longer() {
    let stage = Stage::start().await;
    stage.create(&nodes(), json!({"metadata": {"name": "new"}})).await;
    stage.pass(Duration::from_secs(55)).await;
    assert_eq!(stage.condition(&nodes(), "new", "Ready").await, "");
    assert_eq!(taints(&stage, "new").await, ["not-ready:NoSchedule"]);
    stage.pass(Duration::from_secs(10)).await;
    assert_eq!(stage.condition(&nodes(), "new", "Ready").await, "Unknown NodeStatusNeverUpdated");
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_is_tainted_and_untainted() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.patch(&nodes(), "a", json!({"spec": {"unschedulable": true}})).await;
    assert_eq!(taints(&stage, "a").await, ["unschedulable:NoSchedule"]);
    stage.patch(&nodes(), "a", json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(taints(&stage, "a").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_people_set_drives_pods_out_at_once() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.create(&pods(), running("p", "a", true)).await;
    stage.patch(&nodes(), "a", json!({"spec": {"taints": [{"key": "leave", "effect": "NoExecute"}]}})).await;
    assert!(stage.find(&pods(), "p").await.is_none());
}
