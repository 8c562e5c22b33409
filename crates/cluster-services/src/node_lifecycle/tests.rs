//! Tests of node lifecycle over an in-memory API, in virtual time.

use std::time::Duration;

use object::builtin::{leases, nodes, pods};
use serde_json::json;

use crate::testing::{ServicesTestbed, node, running};

fn renew(testbed: &ServicesTestbed, name: &str) {
    let lease =
        json!({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": testbed.now()}});
    testbed.seed(&leases(), lease);
}

/// Advances time while the named nodes send heartbeats.
async fn live(testbed: &ServicesTestbed, names: &[&str], seconds: u64) {
    for _ in 0..seconds / 5 {
        for name in names {
            renew(testbed, name);
        }
        testbed.pass(Duration::from_secs(5)).await;
    }
}

async fn taints(testbed: &ServicesTestbed, name: &str) -> Vec<String> {
    let node = testbed.get(&nodes(), name).await;
    let text = |taint: &serde_json::Value| {
        let part = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        format!("{}:{}", part("key").replace("node.kubernetes.io/", ""), part("effect"))
    };
    node.items(&["spec", "taints"]).iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_without_heartbeats_is_unknown_and_its_pods_are_evicted() {
    let testbed = ServicesTestbed::start().await;
    for name in ["a", "b", "c"] {
        testbed.create(&nodes(), node(name)).await;
    }
    let mut patient = running("patient", "a", true);
    patient["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 60}]);
    let mut steadfast = running("steadfast", "a", true);
    steadfast["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    testbed.seed(&pods(), patient);
    testbed.seed(&pods(), steadfast);
    testbed.seed(&pods(), running("weak", "a", true));
    live(&testbed, &["a", "b", "c"], 100).await;
    assert_eq!(testbed.condition(&nodes(), "a", "Ready").await, "True");
    assert_eq!(taints(&testbed, "a").await, Vec::<String>::new());

    live(&testbed, &["b", "c"], 60).await;
    assert_eq!(testbed.condition(&nodes(), "a", "Ready").await, "Unknown NodeStatusUnknown");
    assert_eq!(testbed.condition(&nodes(), "b", "Ready").await, "True");
    assert_eq!(taints(&testbed, "a").await, ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert!(testbed.find(&pods(), "weak").await.is_none(), "it does not tolerate the taint");
    assert_eq!(testbed.condition(&pods(), "patient", "Ready").await, "False");
    assert!(testbed.events("a").await.contains(&"NodeNotReady: Node a status is now: NodeNotReady".to_owned()));

    live(&testbed, &["b", "c"], 70).await;
    assert!(testbed.find(&pods(), "patient").await.is_none(), "its toleration has expired");
    assert!(testbed.find(&pods(), "steadfast").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_recovered_node_keeps_its_pods() {
    let testbed = ServicesTestbed::start().await;
    for name in ["a", "b"] {
        testbed.create(&nodes(), node(name)).await;
    }
    let mut patient = running("p", "a", true);
    patient["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    testbed.create(&pods(), patient).await;
    live(&testbed, &["b"], 80).await;
    assert_eq!(taints(&testbed, "a").await.len(), 2);
    let well = json!({"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": testbed.now()}]});
    testbed.patch_status(&nodes(), "a", well).await;
    live(&testbed, &["a", "b"], 100).await;
    assert_eq!(taints(&testbed, "a").await, Vec::<String>::new());
    assert!(testbed.find(&pods(), "p").await.is_some());
    assert!(
        testbed.events("p").await.contains(&"TaintManagerEviction: Cancelling deletion of Pod default/p".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_while_all_nodes_are_silent() {
    let testbed = ServicesTestbed::start().await;
    for name in ["a", "b", "c"] {
        testbed.create(&nodes(), node(name)).await;
        testbed.seed(&pods(), running(&format!("on-{name}"), name, true));
    }
    testbed.pass(Duration::from_secs(900)).await;
    for name in ["a", "b", "c"] {
        assert_eq!(testbed.condition(&nodes(), name, "Ready").await, "Unknown NodeStatusUnknown");
        assert_eq!(taints(&testbed, name).await, ["unreachable:NoSchedule"], "{name}");
        assert!(testbed.find(&pods(), &format!("on-{name}")).await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_node_has_the_startup_grace_period() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), json!({"metadata": {"name": "new"}})).await;
    testbed.pass(Duration::from_secs(55)).await;
    assert_eq!(testbed.condition(&nodes(), "new", "Ready").await, "");
    assert_eq!(taints(&testbed, "new").await, ["not-ready:NoSchedule"]);
    testbed.pass(Duration::from_secs(10)).await;
    assert_eq!(testbed.condition(&nodes(), "new", "Ready").await, "Unknown NodeStatusNeverUpdated");
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_is_tainted_and_untainted() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.patch(&nodes(), "a", json!({"spec": {"unschedulable": true}})).await;
    assert_eq!(taints(&testbed, "a").await, ["unschedulable:NoSchedule"]);
    testbed.patch(&nodes(), "a", json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(taints(&testbed, "a").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_taint_set_by_a_user_evicts_pods_at_once() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.create(&pods(), running("p", "a", true)).await;
    testbed.patch(&nodes(), "a", json!({"spec": {"taints": [{"key": "leave", "effect": "NoExecute"}]}})).await;
    assert!(testbed.find(&pods(), "p").await.is_none());
}
