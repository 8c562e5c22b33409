//! ReplicaSets and ReplicationControllers on an in-memory API.

use object::builtin;
use object::{GroupVersionResource, Status};
use serde_json::{Value, json};

use crate::testing::{WorkloadsTestbed, template};

fn replica_set(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "a")}})
}

fn orphan(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": []}})
}

#[tokio::test(start_paused = true)]
async fn pods_are_created_counted_and_deleted() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::replica_sets();
    let set = testbed.create(&gvr, replica_set(3)).await;
    let pods = testbed.pods().await;
    assert_eq!(pods.len(), 3);
    assert!(pods[0].name().starts_with("web-"));
    let expected = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set.uid(),
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(pods[0].get(&["metadata", "ownerReferences"]), Some(&expected));
    let expected = json!({"observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "terminatingReplicas": 0});
    assert_eq!(testbed.status(&gvr, "web").await, expected);
    testbed.ready_all().await;
    let expected = json!({"observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "terminatingReplicas": 0});
    assert_eq!(testbed.status(&gvr, "web").await, expected);

    testbed.patch(&gvr, "web", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(testbed.pods().await.len(), 1);
    let expected = json!({"observedGeneration": 2, "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1, "terminatingReplicas": 0});
    assert_eq!(testbed.status(&gvr, "web").await, expected);
    let events = testbed.events("ReplicaSet").await;
    assert_eq!(events.iter().filter(|event| event.starts_with("SuccessfulCreate: Created pod: web-")).count(), 3);
    assert_eq!(events.iter().filter(|event| event.starts_with("SuccessfulDelete: Deleted pod: web-")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_created_twice_while_the_mirror_lags() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::replica_sets();
    // Every write to the set triggers the controller, long before it observes its pods.
    testbed.api.seed(
        &gvr,
        object::Object::from_value({
            let mut set = replica_set(20);
            set["metadata"]["namespace"] = "default".into();
            set
        })
        .expect("a map"),
    );
    for round in 0..30 {
        tokio::task::yield_now().await;
        let set = testbed.get(&gvr, "web").await;
        let mut touched = object::Object::clone(&set);
        touched.set_annotation("round", &round.to_string());
        testbed.api.seed(&gvr, touched);
    }
    testbed.settle().await;
    assert_eq!(testbed.pods().await.len(), 20);
    let creates = testbed.api.calls().iter().filter(|call| call.starts_with("create pods")).count();
    assert_eq!(creates, 20);
}

#[tokio::test(start_paused = true)]
async fn matching_orphans_are_adopted_and_other_pods_released() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::replica_sets();
    testbed.create(&builtin::pods(), orphan("lost")).await;
    let set = testbed.create(&gvr, replica_set(2)).await;
    assert_eq!(testbed.pods().await.len(), 2);
    let lost = testbed.get(&builtin::pods(), "lost").await;
    assert_eq!(lost.owner_references()[0].uid, set.uid());

    testbed.patch(&builtin::pods(), "lost", json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(testbed.pods().await.len(), 3);
    assert!(testbed.get(&builtin::pods(), "lost").await.owner_references().is_empty());

    // A surplus orphan is adopted and one pod is deleted.
    testbed.create(&builtin::pods(), orphan("late")).await;
    assert_eq!(testbed.pods().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn failed_and_deleted_pods_are_replaced() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::replica_sets(), replica_set(2)).await;
    let name = testbed.pods().await[0].name().to_owned();
    testbed.set_pod_status(&name, json!({"phase": "Failed"})).await;
    testbed.settle().await;
    assert_eq!(testbed.pods().await.len(), 3);
    let name = testbed.pods().await[1].name().to_owned();
    testbed.delete(&builtin::pods(), &name).await;
    assert_eq!(testbed.pods().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn failed_creations_are_reported_and_retried() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::replica_sets();
    testbed.api.set_fault(|call| {
        let is_pod =
            call.target.gvr.resource == "pods" && matches!(call.request, cluster_client::ApiRequest::Create { .. });
        is_pod.then(|| Status::new(403, "Forbidden", "exceeded quota"))
    });
    testbed.create(&gvr, replica_set(2)).await;
    let status = testbed.status(&gvr, "web").await;
    assert_eq!(status["conditions"][0]["reason"], "FailedCreate");
    assert_eq!(status["conditions"][0]["message"], "exceeded quota");
    assert_eq!(status["replicas"], 0);
    assert_eq!(testbed.events("ReplicaSet").await[0], "FailedCreate: Error creating: exceeded quota");
    testbed.api.clear_fault();
    testbed.pass(std::time::Duration::from_secs(60)).await;
    assert_eq!(testbed.pods().await.len(), 2);
    assert_eq!(testbed.status(&gvr, "web").await.get("conditions"), None);
}

#[tokio::test(start_paused = true)]
async fn pods_are_available_after_min_ready_seconds() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::replica_sets();
    let mut set = replica_set(1);
    set["spec"]["minReadySeconds"] = 10.into();
    testbed.create(&gvr, set).await;
    testbed.ready_all().await;
    let status = testbed.status(&gvr, "web").await;
    assert_eq!((&status["readyReplicas"], status.get("availableReplicas")), (&json!(1), None));
    testbed.pass(std::time::Duration::from_secs(10)).await;
    assert_eq!(testbed.status(&gvr, "web").await["availableReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn replication_controllers_work_the_same() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = GroupVersionResource::new("", "v1", "replicationcontrollers");
    let set = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {"replicas": 2, "selector": {"app": "web"}, "template": template("web", "a")}});
    testbed.create(&gvr, set).await;
    testbed.ready_all().await;
    let expected = json!({"observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 2});
    assert_eq!(testbed.status(&gvr, "rc").await, expected);
}
