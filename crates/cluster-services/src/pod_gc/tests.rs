//! Tests of pod garbage collection over an in-memory API, in virtual time.

use std::time::Duration;

use object::builtin::{nodes, pods};
use serde_json::json;

use crate::settings::ClusterServiceSettings;
use crate::testing::{ServicesTestbed, node, pod, running};

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_deleted_after_the_quarantine() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&nodes(), node("a")).await;
    testbed.seed(&pods(), running("stays", "a", true));
    testbed.create(&pods(), running("lost", "gone", true)).await;
    testbed.pass(Duration::from_secs(30)).await;
    assert!(testbed.find(&pods(), "lost").await.is_some(), "the node may still appear");
    testbed.pass(Duration::from_secs(45)).await;
    assert!(testbed.find(&pods(), "lost").await.is_none());
    assert!(testbed.find(&pods(), "stays").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_without_confirmation_by_the_api() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&pods(), running("p", "gone", true)).await;
    testbed.api.set_fault(|call| (call.target.gvr.resource == "nodes").then(|| object::Status::unavailable("not now")));
    testbed.pass(Duration::from_secs(200)).await;
    assert!(testbed.find(&pods(), "p").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_without_a_node_is_removed() {
    let testbed = ServicesTestbed::start().await;
    let mut unbound = pod("p", "1");
    unbound["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    testbed.create(&pods(), unbound).await;
    testbed.pass(Duration::from_secs(25)).await;
    assert!(testbed.find(&pods(), "p").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_newest_finished_pods_are_kept() {
    let settings = ClusterServiceSettings { terminated_pod_gc_threshold: 2, ..ClusterServiceSettings::default() };
    let testbed = ServicesTestbed::start_with(settings, |_| {}).await;
    for name in ["a", "b", "c"] {
        let mut ended = pod(name, "1");
        ended["status"] = json!({"phase": "Succeeded"});
        testbed.create(&pods(), ended).await;
    }
    testbed.create(&pods(), running("d", "n", true)).await;
    testbed.pass(Duration::from_secs(25)).await;
    let names: Vec<String> = testbed.list(&pods()).await.iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(names, ["b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_out_of_service_node_are_deleted_at_once() {
    let testbed = ServicesTestbed::start().await;
    let mut lost = node("a");
    lost["status"]["conditions"][0]["status"] = "Unknown".into();
    lost["spec"] = json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
    testbed.create(&nodes(), lost).await;
    let mut leaving = running("p", "a", false);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    testbed.create(&pods(), leaving).await;
    testbed.pass(Duration::from_secs(25)).await;
    assert!(testbed.find(&pods(), "p").await.is_none());
}
