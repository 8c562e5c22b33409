//! DaemonSets on an in-memory API: nodes come and go, pods are replaced.

use std::sync::Arc;
use std::time::Duration;

use object::Object;
use object::builtin;
use serde_json::{Value, json};

use crate::testing::{WorkloadsTestbed, template};

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
async fn images(testbed: &WorkloadsTestbed) -> String {
    let text = |pod: &Arc<Object>| {
        let containers = pod.items(&["spec", "containers"]);
        format!("{}={}", node_of(pod), containers[0]["image"].as_str().unwrap_or_default())
    };
    let mut images: Vec<String> = testbed.pods().await.iter().map(text).collect();
    images.sort();
    images.join(" ")
}

async fn stage_with(nodes: &[&str]) -> WorkloadsTestbed {
    let testbed = WorkloadsTestbed::start().await;
    for name in nodes {
        testbed.create(&builtin::nodes(), node(name)).await;
    }
    testbed
}

#[tokio::test(start_paused = true)]
async fn every_eligible_node_has_one_pod() {
    let testbed = stage_with(&["n1", "n2"]).await;
    let gvr = builtin::daemon_sets();
    testbed.create(&gvr, set()).await;
    assert_eq!(images(&testbed).await, "n1=a n2=a");
    let pod = testbed.pods().await[0].clone();
    assert_eq!(pod.items(&["spec", "tolerations"]).len(), 6);
    assert!(pod.label("controller-revision-hash").is_some());
    testbed.ready_all().await;
    let expected = json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberAvailable": 2,
        "numberMisscheduled": 0, "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2});
    assert_eq!(testbed.status(&gvr, "log").await, expected);

    testbed.create(&builtin::nodes(), node("n3")).await;
    assert_eq!(images(&testbed).await, "n1=a n2=a n3=a");
    // A NoExecute taint evicts, a NoSchedule taint only prevents new pods.
    let mut tainted = node("n1");
    tainted["spec"]["taints"] = json!([{"key": "x", "effect": "NoExecute"}]);
    testbed.create(&builtin::nodes(), tainted).await;
    let mut tainted = node("n2");
    tainted["spec"]["taints"] = json!([{"key": "x", "effect": "NoSchedule"}]);
    testbed.create(&builtin::nodes(), tainted).await;
    assert_eq!(images(&testbed).await, "n2=a n3=a");
    let status = testbed.status(&gvr, "log").await;
    assert_eq!((&status["desiredNumberScheduled"], &status["numberMisscheduled"]), (&json!(1), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_replaces_one_pod_at_a_time_and_can_be_undone() {
    let testbed = stage_with(&["n1", "n2", "n3"]).await;
    let gvr = builtin::daemon_sets();
    testbed.create(&gvr, set()).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "log", image("b")).await;
    assert_eq!(images(&testbed).await, "n1=b n2=a n3=a");
    testbed.roll_out().await;
    assert_eq!(images(&testbed).await, "n1=b n2=b n3=b");
    testbed.patch(&gvr, "log", image("a")).await;
    testbed.roll_out().await;
    assert_eq!(images(&testbed).await, "n1=a n2=a n3=a");
    let mut numbers: Vec<i64> = testbed
        .list(&builtin::controller_revisions())
        .await
        .iter()
        .map(|r| r.i64_at(&["revision"]).unwrap_or(0))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(testbed.status(&gvr, "log").await["updatedNumberScheduled"], 3);
}

#[tokio::test(start_paused = true)]
async fn with_surge_the_new_pod_is_created_first() {
    let testbed = stage_with(&["n1", "n2"]).await;
    let gvr = builtin::daemon_sets();
    let mut surging = set();
    surging["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 0, "maxSurge": 1});
    testbed.create(&gvr, surging).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "log", image("b")).await;
    assert_eq!(images(&testbed).await, "n1=a n1=b n2=a");
    testbed.ready_all().await;
    assert_eq!(images(&testbed).await, "n1=b n2=a n2=b");
    testbed.roll_out().await;
    assert_eq!(images(&testbed).await, "n1=b n2=b");
}

#[tokio::test(start_paused = true)]
async fn on_delete_replaces_deleted_pods() {
    let testbed = stage_with(&["n1", "n2"]).await;
    let gvr = builtin::daemon_sets();
    let mut patient = set();
    patient["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    testbed.create(&gvr, patient).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "log", image("b")).await;
    assert_eq!(images(&testbed).await, "n1=a n2=a");
    let pods = testbed.pods().await;
    let first = pods.iter().find(|pod| node_of(pod) == "n1").expect("a pod").name().to_owned();
    testbed.delete(&builtin::pods(), &first).await;
    assert_eq!(images(&testbed).await, "n1=b n2=a");
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_increase_the_backoff() {
    let testbed = stage_with(&["n1"]).await;
    testbed.create(&builtin::daemon_sets(), set()).await;
    let fail = async || {
        let name = testbed.pods().await[0].name().to_owned();
        testbed.set_pod_status(&name, json!({"phase": "Failed"})).await;
        testbed.settle().await;
        name
    };
    let (first, second, third) = (fail().await, fail().await, fail().await);
    assert!(first != second && second != third);
    assert_eq!(testbed.pod_names().await, third);
    testbed.pass(Duration::from_secs(2)).await;
    assert_ne!(testbed.pod_names().await, third);
    let events = testbed.events("DaemonSet").await;
    assert!(events.iter().any(|event| event.starts_with("FailedDaemonPod: Found failed daemon pod default/log-")));
}

#[tokio::test(start_paused = true)]
async fn node_heartbeats_trigger_no_reconcile() {
    let testbed = stage_with(&["n1"]).await;
    testbed.create(&builtin::daemon_sets(), set()).await;
    testbed.roll_out().await;
    testbed.pass(Duration::from_secs(10)).await;
    let before = testbed.api.calls().len();
    let mut beating = node("n1");
    beating["status"] = json!({"conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:01:00Z"}]});
    testbed.create(&builtin::nodes(), beating).await;
    assert_eq!(testbed.api.calls().len(), before);
}
