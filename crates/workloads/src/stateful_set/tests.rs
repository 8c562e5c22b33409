//! StatefulSets on an in-memory API: order, storage, partitions and history.

use object::Object;
use serde_json::{Value, json};

use crate::resources;
use crate::testing::{Stage, template};

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
async fn images(stage: &Stage) -> String {
    let image = |pod: &std::sync::Arc<Object>| {
        let containers = pod.items(&["spec", "containers"]);
        format!("{}={}", pod.name(), containers[0]["image"].as_str().unwrap_or_default())
    };
    stage.pods().await.iter().map(image).collect::<Vec<_>>().join(" ")
}

async fn claim_names(stage: &Stage) -> String {
    let claims = stage.list(&resources::claims()).await;
    claims.iter().map(|claim| claim.name().to_owned()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn pods_come_one_after_another_and_go_in_reverse() {
    let stage = Stage::start().await;
    let gvr = resources::stateful_sets();
    stage.create(&gvr, set(3)).await;
    assert_eq!(stage.pod_names().await, "db-0");
    stage.ready_all().await;
    assert_eq!(stage.pod_names().await, "db-0 db-1");
    stage.roll_out().await;
    assert_eq!(stage.pod_names().await, "db-0 db-1 db-2");
    assert_eq!(claim_names(&stage).await, "data-db-0 data-db-1 data-db-2");
    let revision = stage.list(&resources::revisions()).await[0].name().to_owned();
    let expected = json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "currentReplicas": 3, "updatedReplicas": 3, "currentRevision": revision, "updateRevision": revision,
        "collisionCount": 0});
    assert_eq!(stage.status(&gvr, "db").await, expected);
    let events = stage.events("StatefulSet").await;
    assert_eq!(events[0], "SuccessfulCreate: Create Claim data-db-0 Pod db-0 in StatefulSet db success");
    assert_eq!(events[1], "SuccessfulCreate: Create Pod db-0 in StatefulSet db successful");

    stage.patch(&gvr, "db", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(stage.pod_names().await, "db-0");
    let deleted: Vec<String> =
        stage.events("StatefulSet").await.into_iter().filter(|event| event.contains("Delete")).collect();
    assert!(deleted[0].contains("db-2") && deleted[1].contains("db-1"), "{deleted:?}");
    assert_eq!(claim_names(&stage).await, "data-db-0 data-db-1 data-db-2");
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_come_at_once() {
    let stage = Stage::start().await;
    let mut parallel = set(3);
    parallel["spec"]["podManagementPolicy"] = "Parallel".into();
    parallel["spec"]["ordinals"] = json!({"start": 5});
    stage.create(&resources::stateful_sets(), parallel).await;
    assert_eq!(stage.pod_names().await, "db-5 db-6 db-7");
    stage.patch(&resources::stateful_sets(), "db", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(stage.pod_names().await, "db-5");
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_last_to_the_partition_and_back() {
    let stage = Stage::start().await;
    let gvr = resources::stateful_sets();
    stage.create(&gvr, set(3)).await;
    stage.roll_out().await;
    stage.patch(&gvr, "db", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}})).await;
    stage.patch(&gvr, "db", image("b")).await;
    assert_eq!(images(&stage).await, "db-0=a db-1=a db-2=b");
    stage.roll_out().await;
    assert_eq!(images(&stage).await, "db-0=a db-1=b db-2=b");
    let status = stage.status(&gvr, "db").await;
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(1), &json!(2)));
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    // A deleted pod below the partition is restored at its old revision.
    stage.delete(&resources::pods(), "db-0").await;
    assert_eq!(images(&stage).await, "db-0=a db-1=b db-2=b");
    stage.patch(&gvr, "db", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    stage.roll_out().await;
    assert_eq!(images(&stage).await, "db-0=b db-1=b db-2=b");
    let status = stage.status(&gvr, "db").await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);

    stage.patch(&gvr, "db", image("a")).await;
    stage.roll_out().await;
    assert_eq!(images(&stage).await, "db-0=a db-1=a db-2=a");
    let mut numbers: Vec<i64> =
        stage.list(&resources::revisions()).await.iter().map(|r| r.i64_at(&["revision"]).unwrap_or(0)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn several_are_updated_at_once_where_so_many_may_be_away() {
    let stage = Stage::start().await;
    let gvr = resources::stateful_sets();
    let mut fast = set(4);
    fast["spec"]["podManagementPolicy"] = "Parallel".into();
    fast["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2.into();
    stage.create(&gvr, fast).await;
    stage.roll_out().await;
    stage.patch(&gvr, "db", image("b")).await;
    assert_eq!(images(&stage).await, "db-0=a db-1=a db-2=b db-3=b");
}

#[tokio::test(start_paused = true)]
async fn on_delete_leaves_pods_until_they_go() {
    let stage = Stage::start().await;
    let gvr = resources::stateful_sets();
    let mut patient = set(2);
    patient["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    stage.create(&gvr, patient).await;
    stage.roll_out().await;
    stage.patch(&gvr, "db", image("b")).await;
    assert_eq!(images(&stage).await, "db-0=a db-1=a");
    stage.delete(&resources::pods(), "db-0").await;
    assert_eq!(images(&stage).await, "db-0=b db-1=a");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_made_anew_under_its_name() {
    let stage = Stage::start().await;
    stage.create(&resources::stateful_sets(), set(1)).await;
    let first = stage.get(&resources::pods(), "db-0").await;
    stage.set_pod_status("db-0", json!({"phase": "Failed"})).await;
    stage.settle().await;
    assert_ne!(stage.get(&resources::pods(), "db-0").await.uid(), first.uid());
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_who_takes_them_along() {
    let stage = Stage::start().await;
    let gvr = resources::stateful_sets();
    let mut tidy = set(2);
    tidy["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let owner = stage.create(&gvr, tidy).await;
    stage.roll_out().await;
    let claim = stage.get(&resources::claims(), "data-db-1").await;
    assert_eq!(claim.owner_references()[0].uid, owner.uid());
    let pod = stage.get(&resources::pods(), "db-1").await;
    stage.patch(&gvr, "db", json!({"spec": {"replicas": 1}})).await;
    let claim = stage.get(&resources::claims(), "data-db-1").await;
    assert_eq!(claim.owner_references()[0].uid, pod.uid());
    // The claim is deleted together with its pod: no new pod uses it.
    stage.patch(&gvr, "db", json!({"spec": {"replicas": 2}})).await;
    assert_eq!(stage.pod_names().await, "db-0");
    stage.delete(&resources::claims(), "data-db-1").await;
    assert_eq!(stage.pod_names().await, "db-0 db-1");
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_up_to_its_limit() {
    let stage = Stage::start().await;
    let gvr = resources::stateful_sets();
    let mut forgetful = set(1);
    forgetful["spec"]["revisionHistoryLimit"] = 1.into();
    stage.create(&gvr, forgetful).await;
    for name in ["b", "c", "d", "e"] {
        stage.roll_out().await;
        stage.patch(&gvr, "db", image(name)).await;
    }
    stage.roll_out().await;
    assert_eq!(stage.list(&resources::revisions()).await.len(), 2);
}
