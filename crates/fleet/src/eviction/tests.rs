//! Evictions on an API in memory, with time that tests move.

use api::cluster::CLUSTERS;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use cluster_client::testing::MemoryApi;
use cluster_client::{Patch, ResourceRef};
use object::request::Subresource;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, eventually};

fn seed_binding(api: &MemoryApi, name: &str, tolerations: Value) {
    let placement = json!({"clusterTolerations": tolerations}).to_string();
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "default", "annotations": {ANNOTATION_APPLIED_PLACEMENT: placement}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
            "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]}});
    api.seed(&RESOURCE_BINDINGS.gvr(), testing::object(binding));
}

async fn clusters(api: &MemoryApi, name: &str) -> Vec<String> {
    let target = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", name);
    let binding = api.client().get(target).await.expect("there");
    target_names(&binding).map(str::to_owned).collect()
}

async fn taint(api: &MemoryApi, added: &str) {
    let taints = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute", "timeAdded": added}]}});
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
    api.client().patch(target, Patch::merge(taints), Default::default()).await.expect("written");
}

fn start(api: &MemoryApi, change: impl Fn(&mut crate::Settings)) -> CancellationToken {
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(api, &cancel, change), cancel.clone()));
    cancel
}

#[tokio::test(start_paused = true)]
async fn workloads_are_evicted_when_their_toleration_expires() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    let tolerate = |seconds: Value| json!([{"key": "down", "operator": "Exists", "tolerationSeconds": seconds}]);
    seed_binding(&api, "at-once", json!([]));
    seed_binding(&api, "later", tolerate(json!(60)));
    seed_binding(&api, "never", tolerate(Value::Null));
    let mut unplaced = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding",
        "metadata": {"name": "unplaced"}, "spec": {"clusters": [{"name": "m1"}]}});
    api.seed(&CLUSTER_RESOURCE_BINDINGS.gvr(), testing::object(unplaced.clone()));
    let cancel = start(&api, |settings| settings.enable_no_execute_taint_eviction = true);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(clusters(&api, "at-once").await, ["m1", "m2"]);

    taint(&api, testing::NOW).await;
    eventually("it leaves", async || clusters(&api, "at-once").await == ["m2"]).await;
    assert_eq!(clusters(&api, "later").await, ["m1", "m2"]);
    let left = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", "at-once");
    let task = json!({"fromCluster": "m1", "purgeMode": "Gracefully", "replicas": 1, "reason": "TaintUntolerated",
        "producer": "TaintManager"});
    let tasks = api.client().get(left).await.expect("there").items(&["spec", "gracefulEvictionTasks"]).to_vec();
    assert_eq!(tasks, [task]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(clusters(&api, "later").await, ["m2"]);
    assert_eq!(clusters(&api, "never").await, ["m1", "m2"]);
    let unplaced_ref = ResourceRef::cluster(&CLUSTER_RESOURCE_BINDINGS.gvr(), "unplaced");
    let kept = api.client().get(unplaced_ref.clone()).await.expect("there");
    assert_eq!(target_names(&kept).count(), 1, "what it tolerates is not known");

    unplaced["metadata"]["annotations"] = json!({ANNOTATION_APPLIED_PLACEMENT: "{}"});
    api.seed(&CLUSTER_RESOURCE_BINDINGS.gvr(), testing::object(unplaced));
    eventually("it leaves once placed", async || {
        let binding = api.client().get(unplaced_ref.clone()).await.expect("there");
        target_names(&binding).count() == 0
    })
    .await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn evictions_are_rate_limited() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    for index in 0..12 {
        seed_binding(&api, &format!("b{index}"), json!([]));
    }
    taint(&api, testing::NOW).await;
    let cancel = start(&api, |settings| settings.enable_no_execute_taint_eviction = true);
    let left = async || {
        let mut left = 0;
        for index in 0..12 {
            left += usize::from(clusters(&api, &format!("b{index}")).await == ["m2"]);
        }
        left
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(left().await, 3, "one per worker");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(left().await, 6);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(left().await, 12);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_unless_enabled() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    seed_binding(&api, "b", json!([]));
    taint(&api, testing::NOW).await;
    let cancel = start(&api, |_| {});
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(clusters(&api, "b").await, ["m1", "m2"]);
    cancel.cancel();
}

fn start_resilient(api: &MemoryApi, change: impl Fn(&mut crate::Settings)) -> CancellationToken {
    let cancel = CancellationToken::new();
    let plane = testing::plane_with(api, &cancel, api::features::Features::flotilla(), |settings| {
        settings.enable_no_execute_taint_eviction = true;
        settings.resource_eviction_rate = 10.0;
        change(settings);
    });
    tokio::spawn(run(plane, cancel.clone()));
    cancel
}

async fn lose(api: &MemoryApi, cluster: &str, added: &str) {
    let taints = json!({"spec": {"taints": [{"key": "cluster.karmada.io/unreachable", "effect": "NoExecute",
        "timeAdded": added}]}});
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), cluster);
    api.client().patch(target.clone(), Patch::merge(taints), Default::default()).await.expect("written");
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    api.client()
        .patch(target.subresource(Subresource::Status), Patch::merge(silent), Default::default())
        .await
        .expect("written");
}

#[tokio::test(start_paused = true)]
async fn workloads_leave_a_lost_cluster_at_the_configured_rate_and_are_recorded() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    testing::seed_member(&api, "m2");
    for index in 0..40 {
        seed_binding(&api, &format!("b{index}"), json!([]));
    }
    let cancel = start_resilient(&api, |settings| settings.default_tolerations.unreachable = Duration::from_secs(30));
    let left = async || {
        let mut left = 0;
        for index in 0..40 {
            left += usize::from(clusters(&api, &format!("b{index}")).await == ["m2"]);
        }
        left
    };
    lose(&api, "m1", testing::NOW).await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(left().await, 0, "tolerated");
    tokio::time::sleep(Duration::from_millis(2950)).await;
    let moved = left().await;
    assert!((18..=21).contains(&moved), "ten in a second, whatever the number of workers: {moved}");
    eventually("all leave", async || left().await == 40).await;
    let target = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", "b0");
    let binding = api.client().get(target).await.expect("there");
    let history = propagation::failover_history::History::of(&binding).0;
    assert_eq!((history.len(), history[0].from.as_str(), history[0].replicas), (1, "m1", Some(1)));
    assert_eq!(history[0].message, "the cluster has cluster.karmada.io/unreachable");
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_without_any_ready_cluster_evicts_nothing() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    testing::seed_member(&api, "m2");
    seed_binding(&api, "b", json!([{"operator": "Exists", "tolerationSeconds": 0}]));
    lose(&api, "m1", testing::NOW).await;
    lose(&api, "m2", testing::NOW).await;
    let cancel = start_resilient(&api, |_| {});
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(clusters(&api, "b").await, ["m1", "m2"]);
    let well = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), "m2").subresource(Subresource::Status);
    api.client().patch(target, Patch::merge(well), Default::default()).await.expect("written");
    eventually("it leaves the one that is lost", async || !clusters(&api, "b").await.contains(&"m1".to_owned())).await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_loss_recorded_before_a_restart_may_have_ended() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    testing::seed_member(&api, "m2");
    seed_binding(&api, "b", json!([]));
    lose(&api, "m1", "2026-04-30T00:00:00Z").await;
    let cancel = start_resilient(&api, |_| {});
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(clusters(&api, "b").await, ["m1", "m2"]);
    eventually("it leaves", async || clusters(&api, "b").await == ["m2"]).await;
    cancel.cancel();
}
