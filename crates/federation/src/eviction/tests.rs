//! Copies that leave in time, and workloads that leave where they stay unhealthy.

use std::time::Duration;

use api::features::Features;
use api::work::RESOURCE_BINDINGS;
use object::Object;

use crate::testing::{Stage, until};

use super::*;

fn set_up() -> Stage {
    let stage = Stage::new(&["m1", "m2"]);
    let template = stage.put_deployment("web");
    let task = json!({"fromCluster": "m1", "purgeMode": "Gracefully", "reason": "r", "producer": "p"});
    stage.put_binding(&template, json!({"clusters": [{"name": "m2"}], "gracefulEvictionTasks": [task]}));
    let plane = stage.plane(Features::default());
    tokio::spawn(run(plane, stage.cancel.clone()));
    stage
}

async fn tasks(stage: &Stage) -> Vec<Value> {
    let binding: Arc<Object> = stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.expect("there");
    binding.items(&["spec", "gracefulEvictionTasks"]).to_vec()
}

async fn begun(stage: &Stage) {
    until("the time of the task", || async { tasks(stage).await[0]["creationTimestamp"].is_string().then_some(()) })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_task_starts_now_and_ends_after_its_timeout() {
    let stage = set_up();
    let start = tokio::time::Instant::now();
    begun(&stage).await;
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(tasks(&stage).await.len(), 1);
    until("the task to go", || async { tasks(&stage).await.is_empty().then_some(()) }).await;
    assert!(start.elapsed() >= Duration::from_secs(600), "{:?}", start.elapsed());
    let event = ("EvictWorkloadFromClusterSucceed".to_owned(), "Evict from cluster m1 succeed.".to_owned());
    for kind in ["ResourceBinding", "Deployment"] {
        until("an event", || async { stage.events_on(kind).await.contains(&event).then_some(()) }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_once_the_workload_is_healthy_elsewhere() {
    let stage = set_up();
    begun(&stage).await;
    let binding = stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.expect("there");
    let status = json!({"schedulerObservedGeneration": binding.generation(),
        "aggregatedStatus": [{"clusterName": "m2", "health": "Healthy", "applied": true}]});
    let start = tokio::time::Instant::now();
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", status).await;
    until("the task to go", || async { tasks(&stage).await.is_empty().then_some(()) }).await;
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_stays_unhealthy_is_evicted_after_the_toleration() {
    let stage = Stage::new(&["m1", "m2"]);
    let template = stage.put_deployment("web");
    let application = json!({"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": "Gracefully"});
    let spec = json!({"propagateDeps": true, "failover": {"application": application},
        "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]});
    stage.put_binding(&template, spec);
    tokio::spawn(run_failover(stage.plane(Features::default()), stage.cancel.clone()));
    let report = |health: &str| {
        json!({"aggregatedStatus": [{"clusterName": "m1", "health": health, "applied": true},
            {"clusterName": "m2", "health": "Healthy", "applied": true}]})
    };
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", report("Unhealthy")).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    // Healthy for a moment: the time starts over.
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", report("Healthy")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", report("Unhealthy")).await;
    let start = tokio::time::Instant::now();
    until("the workload to leave m1", || async { (!tasks(&stage).await.is_empty()).then_some(()) }).await;
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(60) && waited < Duration::from_secs(63), "{waited:?}");
    let binding = stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.expect("there");
    assert_eq!(json!(binding.items(&["spec", "clusters"])), json!([{"name": "m2", "replicas": 1}]));
    let task = json!({"fromCluster": "m1", "purgeMode": "Gracefully", "replicas": 2, "reason": "ApplicationFailure",
        "producer": "resource-binding-application-failover-controller"});
    assert_eq!(tasks(&stage).await, [task]);
}

/// A plane that removes nothing on doubt, with a task that began long before.
fn careful(clusters: Value) -> Stage {
    let stage = Stage::new(&["m1", "m2"]);
    let template = stage.put_deployment("web");
    let task = json!({"fromCluster": "m1", "purgeMode": "Gracefully", "reason": "TaintUntolerated", "replicas": 2,
        "producer": "TaintManager", "creationTimestamp": "2026-11-16T06:00:00Z"});
    let spec = json!({"clusters": clusters, "replicas": 2, "gracefulEvictionTasks": [task]});
    stage.put_binding(&template, spec);
    tokio::spawn(run(stage.plane(Features::flotilla()), stage.cancel.clone()));
    stage
}

async fn set_ready(stage: &Stage, cluster: &str, ready: &str) {
    let conditions = json!({"conditions": [{"type": "Ready", "status": ready}]});
    stage.patch_status(api::cluster::CLUSTERS, "", cluster, conditions).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_a_lost_member_is_kept_until_the_replacement_is_confirmed() {
    let stage = careful(json!([{"name": "m2", "replicas": 2}]));
    let binding = stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.expect("there");
    let report = |health: &str, available: i64| {
        json!({"schedulerObservedGeneration": binding.generation(), "aggregatedStatus": [{"clusterName": "m2",
            "health": health, "applied": true, "status": {"replicas": 2, "availableReplicas": available}}]})
    };
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", report("Unhealthy", 0)).await;
    set_ready(&stage, "m1", "True").await;
    set_ready(&stage, "m2", "Unknown").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(tasks(&stage).await.len(), 1, "the member came back, but its replacement is not well");
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", report("Healthy", 2)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(tasks(&stage).await.len(), 1, "the replacement does not report: its last status proves nothing");
    set_ready(&stage, "m2", "True").await;
    until("the task to go", || async { tasks(&stage).await.is_empty().then_some(()) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_without_a_replacement_stays_in_its_recovered_member() {
    let stage = careful(json!([]));
    let refused = json!({"schedulerObservedGeneration": 0, "conditions": [{"type": "Scheduled", "status": "False",
        "reason": "NoClusterFit"}]});
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", refused).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(tasks(&stage).await.len(), 1, "it may be the only copy");
    set_ready(&stage, "m1", "True").await;
    until("the task to go", || async { tasks(&stage).await.is_empty().then_some(()) }).await;
    let binding = stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.expect("there");
    assert_eq!(json!(binding.items(&["spec", "clusters"])), json!([{"name": "m1", "replicas": 2}]));
}
