//! Tests of pod garbage collection over an in-memory API, in virtual time.

use std::time::Duration;

use serde_json::json;

use crate::resources::{nodes, pods};
use crate::settings::Settings;
use crate::testing::{Stage, node, pod, running};

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_go_after_a_while() {
    let stage = Stage::start().await;
    stage.create(&nodes(), node("a")).await;
    stage.seed(&pods(), running("stays", "a", true));
    stage.create(&pods(), running("lost", "gone", true)).await;
    stage.pass(Duration::from_secs(30)).await;
    assert!(stage.find(&pods(), "lost").await.is_some(), "the node may still appear");
    stage.pass(Duration::from_secs(45)).await;
    assert!(stage.find(&pods(), "lost").await.is_none());
    assert!(stage.find(&pods(), "stays").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_the_api_cannot_say_that_the_node_is_gone() {
    let stage = Stage::start().await;
    stage.create(&pods(), running("p", "gone", true)).await;
    stage.api.set_fault(|call| (call.target.gvr.resource == "nodes").then(|| object::Status::unavailable("not now")));
    stage.pass(Duration::from_secs(200)).await;
    assert!(stage.find(&pods(), "p").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_before_it_had_a_node_goes() {
    let stage = Stage::start().await;
    let mut homeless = pod("p", "1");
    homeless["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    stage.create(&pods(), homeless).await;
    stage.pass(Duration::from_secs(25)).await;
    assert!(stage.find(&pods(), "p").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn of_ended_pods_the_newest_are_kept() {
    let settings = Settings { terminated_pod_gc_threshold: 2, ..Settings::default() };
    let stage = Stage::start_with(settings, |_| {}).await;
    for name in ["a", "b", "c"] {
        let mut ended = pod(name, "1");
        ended["status"] = json!({"phase": "Succeeded"});
        stage.create(&pods(), ended).await;
    }
    stage.create(&pods(), running("d", "n", true)).await;
    stage.pass(Duration::from_secs(25)).await;
    let names: Vec<String> = stage.list(&pods()).await.iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(names, ["b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_leave_a_node_declared_lost_are_not_waited_for() {
    let stage = Stage::start().await;
    let mut lost = node("a");
    lost["status"]["conditions"][0]["status"] = "Unknown".into();
    lost["spec"] = json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
    stage.create(&nodes(), lost).await;
    let mut leaving = running("p", "a", false);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    stage.create(&pods(), leaving).await;
    stage.pass(Duration::from_secs(25)).await;
    assert!(stage.find(&pods(), "p").await.is_none());
}
