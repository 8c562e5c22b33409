//! DaemonSets on an in-memory API: nodes come and go, pods are replaced.

use std::sync::Arc;
use std::time::Duration;

use object::Object;
use serde_json::{Value, json};

use crate::resources;
use crate::testing::{Stage, template};

fn set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template("log", "a"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}})
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}})
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn node_of(pod: &Object) -> String {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = pod.items(&["spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"]);
    terms[0]["matchFields"][0]["values"][0].as_str().unwrap_or_default().to_owned()
}

/// Returns `node=image` of each pod that is not being deleted.
async fn images(stage: &Stage) -> String {
    let text = |pod: &Arc<Object>| {
        let containers = pod.items(&["spec", "containers"]);
        format!("{}={}", node_of(pod), containers[0]["image"].as_str().unwrap_or_default())
    };
    let mut images: Vec<String> = stage.pods().await.iter().map(text).collect();
    images.sort();
    images.join(" ")
}

async fn stage_with(nodes: &[&str]) -> Stage {
    let stage = Stage::start().await;
    for name in nodes {
        stage.create(&resources::nodes(), node(name)).await;
    }
    stage
}

#[tokio::test(start_paused = true)]
async fn every_node_that_fits_has_one_pod() {
    let stage = stage_with(&["n1", "n2"]).await;
    let gvr = resources::daemon_sets();
    stage.create(&gvr, set()).await;
    assert_eq!(images(&stage).await, "n1=a n2=a");
    let pod = stage.pods().await[0].clone();
    assert_eq!(pod.items(&["spec", "tolerations"]).len(), 6);
    assert!(pod.label("controller-revision-hash").is_some());
    stage.ready_all().await;
    let expected = json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberAvailable": 2,
        "numberMisscheduled": 0, "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2});
    assert_eq!(stage.status(&gvr, "log").await, expected);

    stage.create(&resources::nodes(), node("n3")).await;
    assert_eq!(images(&stage).await, "n1=a n2=a n3=a");
    // A NoExecute taint evicts, a NoSchedule taint only prevents new pods.
    let mut tainted = node("n1");
    tainted["spec"]["taints"] = json!([{"key": "x", "effect": "NoExecute"}]);
    stage.create(&resources::nodes(), tainted).await;
    let mut tainted = node("n2");
    tainted["spec"]["taints"] = json!([{"key": "x", "effect": "NoSchedule"}]);
    stage.create(&resources::nodes(), tainted).await;
    assert_eq!(images(&stage).await, "n2=a n3=a");
    let status = stage.status(&gvr, "log").await;
    assert_eq!((&status["desiredNumberScheduled"], &status["numberMisscheduled"]), (&json!(1), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_one_after_another_and_an_undo_goes_back() {
    let stage = stage_with(&["n1", "n2", "n3"]).await;
    let gvr = resources::daemon_sets();
    stage.create(&gvr, set()).await;
    stage.roll_out().await;
    stage.patch(&gvr, "log", image("b")).await;
    assert_eq!(images(&stage).await, "n1=b n2=a n3=a");
    stage.roll_out().await;
    assert_eq!(images(&stage).await, "n1=b n2=b n3=b");
    stage.patch(&gvr, "log", image("a")).await;
    stage.roll_out().await;
    assert_eq!(images(&stage).await, "n1=a n2=a n3=a");
    let mut numbers: Vec<i64> =
        stage.list(&resources::revisions()).await.iter().map(|r| r.i64_at(&["revision"]).unwrap_or(0)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(stage.status(&gvr, "log").await["updatedNumberScheduled"], 3);
}

#[tokio::test(start_paused = true)]
async fn with_surge_the_new_pod_comes_before_the_old_one_goes() {
    let stage = stage_with(&["n1", "n2"]).await;
    let gvr = resources::daemon_sets();
    let mut surging = set();
    surging["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 0, "maxSurge": 1});
    stage.create(&gvr, surging).await;
    stage.roll_out().await;
    stage.patch(&gvr, "log", image("b")).await;
    assert_eq!(images(&stage).await, "n1=a n1=b n2=a");
    stage.ready_all().await;
    assert_eq!(images(&stage).await, "n1=b n2=a n2=b");
    stage.roll_out().await;
    assert_eq!(images(&stage).await, "n1=b n2=b");
}

#[tokio::test(start_paused = true)]
async fn on_delete_replaces_what_goes() {
    let stage = stage_with(&["n1", "n2"]).await;
    let gvr = resources::daemon_sets();
    let mut patient = set();
    patient["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    stage.create(&gvr, patient).await;
    stage.roll_out().await;
    stage.patch(&gvr, "log", image("b")).await;
    assert_eq!(images(&stage).await, "n1=a n2=a");
    let pods = stage.pods().await;
    let first = pods.iter().find(|pod| node_of(pod) == "n1").expect("a pod").name().to_owned();
    stage.delete(&resources::pods(), &first).await;
    assert_eq!(images(&stage).await, "n1=b n2=a");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_again_stays_for_longer() {
    let stage = stage_with(&["n1"]).await;
    stage.create(&resources::daemon_sets(), set()).await;
    let fail = async || {
        let name = stage.pods().await[0].name().to_owned();
        stage.set_pod_status(&name, json!({"phase": "Failed"})).await;
        stage.settle().await;
        name
    };
    let (first, second, third) = (fail().await, fail().await, fail().await);
    assert!(first != second && second != third);
    assert_eq!(stage.pod_names().await, third);
    stage.pass(Duration::from_secs(2)).await;
    assert_ne!(stage.pod_names().await, third);
    let events = stage.events("DaemonSet").await;
    assert!(events.iter().any(|event| event.starts_with("FailedDaemonPod: Found failed daemon pod default/log-")));
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_nodes_wake_nobody() {
    let stage = stage_with(&["n1"]).await;
    stage.create(&resources::daemon_sets(), set()).await;
    stage.roll_out().await;
    stage.pass(Duration::from_secs(10)).await;
    let before = stage.api.calls().len();
    let mut beating = node("n1");
    beating["status"] = json!({"conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:01:00Z"}]});
    stage.create(&resources::nodes(), beating).await;
    assert_eq!(stage.api.calls().len(), before);
}
