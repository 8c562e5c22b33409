//! StatefulSets on an in-memory API: order, storage, partitions and history.

use object::Object;
use object::builtin;
use serde_json::{Value, json};

use crate::testing::{WorkloadsTestbed, template};

fn set(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", "a"), "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}})
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// Returns `name=image` of each pod.
async fn images(testbed: &WorkloadsTestbed) -> String {
    let image = |pod: &std::sync::Arc<Object>| {
        let containers = pod.items(&["spec", "containers"]);
        format!("{}={}", pod.name(), containers[0]["image"].as_str().unwrap_or_default())
    };
    testbed.pods().await.iter().map(image).collect::<Vec<_>>().join(" ")
}

async fn claim_names(testbed: &WorkloadsTestbed) -> String {
    let claims = testbed.list(&builtin::persistent_volume_claims()).await;
    claims.iter().map(|claim| claim.name().to_owned()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn pods_are_created_in_order_and_deleted_in_reverse() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::stateful_sets();
    testbed.create(&gvr, set(3)).await;
    assert_eq!(testbed.pod_names().await, "db-0");
    testbed.ready_all().await;
    assert_eq!(testbed.pod_names().await, "db-0 db-1");
    testbed.roll_out().await;
    assert_eq!(testbed.pod_names().await, "db-0 db-1 db-2");
    assert_eq!(claim_names(&testbed).await, "data-db-0 data-db-1 data-db-2");
    let revision = testbed.list(&builtin::controller_revisions()).await[0].name().to_owned();
    let expected = json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "currentReplicas": 3, "updatedReplicas": 3, "currentRevision": revision, "updateRevision": revision,
        "collisionCount": 0});
    assert_eq!(testbed.status(&gvr, "db").await, expected);
    let events = testbed.events("StatefulSet").await;
    assert_eq!(events[0], "SuccessfulCreate: Create Claim data-db-0 Pod db-0 in StatefulSet db success");
    assert_eq!(events[1], "SuccessfulCreate: Create Pod db-0 in StatefulSet db successful");

    testbed.patch(&gvr, "db", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(testbed.pod_names().await, "db-0");
    let deleted: Vec<String> =
        testbed.events("StatefulSet").await.into_iter().filter(|event| event.contains("Delete")).collect();
    assert!(deleted[0].contains("db-2") && deleted[1].contains("db-1"), "{deleted:?}");
    assert_eq!(claim_names(&testbed).await, "data-db-0 data-db-1 data-db-2");
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_are_created_at_once() {
    let testbed = WorkloadsTestbed::start().await;
    let mut parallel = set(3);
    parallel["spec"]["podManagementPolicy"] = "Parallel".into();
    parallel["spec"]["ordinals"] = json!({"start": 5});
    testbed.create(&builtin::stateful_sets(), parallel).await;
    assert_eq!(testbed.pod_names().await, "db-5 db-6 db-7");
    testbed.patch(&builtin::stateful_sets(), "db", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(testbed.pod_names().await, "db-5");
}

#[tokio::test(start_paused = true)]
async fn an_update_runs_from_the_last_ordinal_to_the_partition() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::stateful_sets();
    testbed.create(&gvr, set(3)).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "db", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}})).await;
    testbed.patch(&gvr, "db", image("b")).await;
    assert_eq!(images(&testbed).await, "db-0=a db-1=a db-2=b");
    testbed.roll_out().await;
    assert_eq!(images(&testbed).await, "db-0=a db-1=b db-2=b");
    let status = testbed.status(&gvr, "db").await;
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(1), &json!(2)));
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    // A deleted pod below the partition is restored at its old revision.
    testbed.delete(&builtin::pods(), "db-0").await;
    assert_eq!(images(&testbed).await, "db-0=a db-1=b db-2=b");
    testbed.patch(&gvr, "db", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    testbed.roll_out().await;
    assert_eq!(images(&testbed).await, "db-0=b db-1=b db-2=b");
    let status = testbed.status(&gvr, "db").await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);

    testbed.patch(&gvr, "db", image("a")).await;
    testbed.roll_out().await;
    assert_eq!(images(&testbed).await, "db-0=a db-1=a db-2=a");
    let mut numbers: Vec<i64> = testbed
        .list(&builtin::controller_revisions())
        .await
        .iter()
        .map(|r| r.i64_at(&["revision"]).unwrap_or(0))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn max_unavailable_pods_are_updated_at_once() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::stateful_sets();
    let mut fast = set(4);
    fast["spec"]["podManagementPolicy"] = "Parallel".into();
    fast["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2.into();
    testbed.create(&gvr, fast).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "db", image("b")).await;
    assert_eq!(images(&testbed).await, "db-0=a db-1=a db-2=b db-3=b");
}

#[tokio::test(start_paused = true)]
async fn on_delete_keeps_pods_until_they_are_deleted() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::stateful_sets();
    let mut patient = set(2);
    patient["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    testbed.create(&gvr, patient).await;
    testbed.roll_out().await;
    testbed.patch(&gvr, "db", image("b")).await;
    assert_eq!(images(&testbed).await, "db-0=a db-1=a");
    testbed.delete(&builtin::pods(), "db-0").await;
    assert_eq!(images(&testbed).await, "db-0=b db-1=a");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_recreated_with_its_name() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::stateful_sets(), set(1)).await;
    let first = testbed.get(&builtin::pods(), "db-0").await;
    testbed.set_pod_status("db-0", json!({"phase": "Failed"})).await;
    testbed.settle().await;
    assert_ne!(testbed.get(&builtin::pods(), "db-0").await.uid(), first.uid());
}

#[tokio::test(start_paused = true)]
async fn claims_are_deleted_by_their_retention_policy() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::stateful_sets();
    let mut tidy = set(2);
    tidy["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let owner = testbed.create(&gvr, tidy).await;
    testbed.roll_out().await;
    let claim = testbed.get(&builtin::persistent_volume_claims(), "data-db-1").await;
    assert_eq!(claim.owner_references()[0].uid, owner.uid());
    let pod = testbed.get(&builtin::pods(), "db-1").await;
    testbed.patch(&gvr, "db", json!({"spec": {"replicas": 1}})).await;
    let claim = testbed.get(&builtin::persistent_volume_claims(), "data-db-1").await;
    assert_eq!(claim.owner_references()[0].uid, pod.uid());
    // The claim is deleted together with its pod: no new pod uses it.
    testbed.patch(&gvr, "db", json!({"spec": {"replicas": 2}})).await;
    assert_eq!(testbed.pod_names().await, "db-0");
    testbed.delete(&builtin::persistent_volume_claims(), "data-db-1").await;
    assert_eq!(testbed.pod_names().await, "db-0 db-1");
}

#[tokio::test(start_paused = true)]
async fn the_revision_history_is_limited() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::stateful_sets();
    let mut forgetful = set(1);
    forgetful["spec"]["revisionHistoryLimit"] = 1.into();
    testbed.create(&gvr, forgetful).await;
    for name in ["b", "c", "d", "e"] {
        testbed.roll_out().await;
        testbed.patch(&gvr, "db", image(name)).await;
    }
    testbed.roll_out().await;
    assert_eq!(testbed.list(&builtin::controller_revisions()).await.len(), 2);
}
