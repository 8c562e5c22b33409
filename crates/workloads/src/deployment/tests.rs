//! Deployments on an in-memory API: rollouts from the first pod to the last revision.

use std::time::Duration;

use object::builtin;
use serde_json::{Value, json};

use crate::testing::{WorkloadsTestbed, template};

fn deployment(replicas: i64, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", image),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}})
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// Returns `image=replicas` of each set by revision.
async fn sets(testbed: &WorkloadsTestbed) -> String {
    let mut sets = testbed.list(&builtin::replica_sets()).await;
    let revision = |set: &object::Object| {
        let revision = set.annotation("deployment.kubernetes.io/revision").unwrap_or_default();
        revision.parse::<i64>().unwrap_or(0)
    };
    sets.sort_by_key(|set| revision(set));
    let text = |set: &std::sync::Arc<object::Object>| {
        let containers = set.items(&["spec", "template", "spec", "containers"]);
        let image = containers[0]["image"].as_str().unwrap_or_default().to_owned();
        format!("{image}={}", set.i64_at(&["spec", "replicas"]).unwrap_or(-1))
    };
    sets.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn conditions(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value| format!("{} {} {}", c["type"], c["status"], c["reason"]).replace('"', "");
    conditions.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_becomes_available() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    testbed.create(&gvr, deployment(2, "a")).await;
    assert_eq!(sets(&testbed).await, "a=2");
    let status = testbed.status(&gvr, "web").await;
    assert_eq!((&status["replicas"], &status["unavailableReplicas"]), (&json!(2), &json!(2)));
    let set = testbed.list(&builtin::replica_sets()).await[0].name().to_owned();
    testbed.roll_out().await;
    let mut status = testbed.status(&gvr, "web").await;
    assert_eq!(
        conditions(&status),
        ["Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"]
    );
    let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
    assert_eq!(status["conditions"][1]["message"], message);
    status.as_object_mut().expect("a map").remove("conditions");
    let expected = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 2, "terminatingReplicas": 0});
    assert_eq!(status, expected);
    let deployment = testbed.get(&gvr, "web").await;
    assert_eq!(deployment.annotation("deployment.kubernetes.io/revision"), Some("1"));
    let scaled = format!("ScalingReplicaSet: Scaled up replica set {set} from 0 to 2");
    assert_eq!(testbed.events("Deployment").await, [scaled]);
}

#[tokio::test(start_paused = true)]
async fn an_update_rolls_and_an_undo_rolls_back() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    testbed.create(&gvr, deployment(3, "a")).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "web", image("b")).await;
    // One surge pod, none unavailable.
    assert_eq!(sets(&testbed).await, "a=3 b=1");
    testbed.ready_all().await;
    assert_eq!(sets(&testbed).await, "a=2 b=2");
    testbed.roll_out().await;
    assert_eq!(sets(&testbed).await, "a=0 b=3");
    assert_eq!(testbed.pods().await.len(), 3);
    assert_eq!(testbed.status(&gvr, "web").await["updatedReplicas"], 3);

    testbed.patch(&gvr, "web", image("a")).await;
    testbed.roll_out().await;
    assert_eq!(sets(&testbed).await, "b=0 a=3");
    let deployment = testbed.get(&gvr, "web").await;
    assert_eq!(deployment.annotation("deployment.kubernetes.io/revision"), Some("3"));
    let history = testbed.list(&builtin::replica_sets()).await;
    let histories: Vec<_> =
        history.iter().filter_map(|set| set.annotation("deployment.kubernetes.io/revision-history")).collect();
    assert_eq!(histories, ["1"]);
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_last_old_pod() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    let mut recreated = deployment(2, "a");
    recreated["spec"]["strategy"] = json!({"type": "Recreate"});
    testbed.create(&gvr, recreated).await;
    testbed.roll_out().await;
    // A pod that terminates slowly.
    let slow = testbed.pods().await[0].name().to_owned();
    testbed.patch(&builtin::pods(), &slow, json!({"metadata": {"finalizers": ["test/slow"]}})).await;
    testbed.patch(&gvr, "web", image("b")).await;
    assert_eq!(sets(&testbed).await, "a=0");
    testbed.patch(&builtin::pods(), &slow, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(sets(&testbed).await, "a=0 b=2");
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_and_does_not_roll() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    testbed.create(&gvr, deployment(2, "a")).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "web", json!({"spec": {"paused": true}})).await;
    testbed.patch(&gvr, "web", image("b")).await;
    assert_eq!(sets(&testbed).await, "a=2");
    assert_eq!(conditions(&testbed.status(&gvr, "web").await)[1], "Progressing Unknown DeploymentPaused");
    testbed.patch(&gvr, "web", json!({"spec": {"replicas": 4}})).await;
    assert_eq!(sets(&testbed).await, "a=4");
    testbed.roll_out().await;
    testbed.patch(&gvr, "web", json!({"spec": {"paused": false}})).await;
    assert_eq!(sets(&testbed).await, "a=4 b=1");
    testbed.roll_out().await;
    assert_eq!(sets(&testbed).await, "a=0 b=4");
}

#[tokio::test(start_paused = true)]
async fn scaling_during_a_rollout_is_proportional() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    let mut wide = deployment(10, "a");
    wide["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 2});
    testbed.create(&gvr, wide).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "web", image("b")).await;
    assert_eq!(sets(&testbed).await, "a=8 b=5");
    // 13 become 18: eight thirteenths and five thirteenths of them.
    testbed.patch(&gvr, "web", json!({"spec": {"replicas": 15}})).await;
    assert_eq!(sets(&testbed).await, "a=11 b=7");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_rollout_exceeds_its_deadline() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    let mut short = deployment(1, "a");
    short["spec"]["progressDeadlineSeconds"] = 30.into();
    testbed.create(&gvr, short).await;
    testbed.pass(Duration::from_secs(20)).await;
    assert_eq!(conditions(&testbed.status(&gvr, "web").await)[1], "Progressing True ReplicaSetUpdated");
    testbed.pass(Duration::from_secs(15)).await;
    let status = testbed.status(&gvr, "web").await;
    assert_eq!(conditions(&status)[1], "Progressing False ProgressDeadlineExceeded");
    testbed.roll_out().await;
    assert_eq!(conditions(&testbed.status(&gvr, "web").await)[1], "Progressing True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn old_sets_beyond_the_limit_are_deleted() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    let mut forgetful = deployment(1, "a");
    forgetful["spec"]["revisionHistoryLimit"] = 1.into();
    testbed.create(&gvr, forgetful).await;
    for name in ["b", "c", "d"] {
        testbed.roll_out().await;
        testbed.patch(&gvr, "web", image(name)).await;
    }
    testbed.roll_out().await;
    assert_eq!(sets(&testbed).await, "c=0 d=1");
}

#[tokio::test(start_paused = true)]
async fn a_name_collision_gets_another_name() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    let first = testbed.create(&gvr, deployment(1, "a")).await;
    let set = testbed.list(&builtin::replica_sets()).await[0].clone();
    testbed.delete(&gvr, first.name()).await;
    let mut taken = object::Object::clone(&set);
    taken.set(&["metadata", "ownerReferences"], json!([{"uid": "other", "controller": true, "kind": "Other"}]));
    testbed.api.seed(&builtin::replica_sets(), taken);
    testbed.create(&gvr, deployment(1, "a")).await;
    assert_eq!(testbed.status(&gvr, "web").await["collisionCount"], 1);
    assert_eq!(testbed.list(&builtin::replica_sets()).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn annotations_are_copied_to_the_new_set() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::deployments();
    testbed.create(&gvr, deployment(1, "a")).await;
    testbed.patch(&gvr, "web", json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "why"}}})).await;
    let set = testbed.list(&builtin::replica_sets()).await[0].clone();
    assert_eq!(set.annotation("kubernetes.io/change-cause"), Some("why"));
    assert_eq!(set.annotation("deployment.kubernetes.io/max-replicas"), Some("2"));
}
