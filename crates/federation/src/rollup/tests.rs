//! Member status in bindings and templates.

use api::features::Features;
use api::work::{RESOURCE_BINDINGS, WORKS};
use cluster_client::ResourceRef;
use serde_json::{Value, json};

use crate::testing::{DEPLOYMENTS, Stage, object, until};

use super::*;

fn start(stage: &Stage) {
    let plane = stage.plane(Features::default());
    tokio::spawn(run(plane, stage.cancel.clone()));
}

/// A work of `web` in a member, as the work controller makes it.
fn put_work(stage: &Stage, cluster: &str) {
    let name = api::names::work_name("Deployment", "web", "default");
    let mut work = WORKS.object(&api::names::execution_namespace(cluster), &name);
    work.set_label("resourcebinding.karmada.io/permanent-id", "id-web-deployment");
    work.set_annotation("resourcebinding.karmada.io/namespace", "default");
    work.set_annotation("resourcebinding.karmada.io/name", "web-deployment");
    let manifest =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}});
    work.set(&["spec", "workload", "manifests"], vec![manifest]);
    stage.api.seed(&WORKS.gvr(), work);
}

async fn report(stage: &Stage, cluster: &str, replicas: i64, health: &str) {
    let name = api::names::work_name("Deployment", "web", "default");
    let applied = json!({"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "m",
        "lastTransitionTime": "2026-11-16T12:00:00Z"});
    let identifier = json!({"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "",
        "namespace": "default", "name": "web"});
    let reflected = json!({"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas,
        "availableReplicas": replicas, "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 1});
    let status = json!({"conditions": [applied],
        "manifestStatuses": [{"identifier": identifier, "status": reflected, "health": health}]});
    stage.patch_status(WORKS, &api::names::execution_namespace(cluster), &name, status).await;
}

fn set_up() -> Stage {
    let stage = Stage::new(&["m1", "m2", "m3"]);
    let template = stage.put_deployment("web");
    let clusters: Vec<Value> = ["m1", "m2", "m3"].map(|name| json!({"name": name, "replicas": 1})).into();
    stage.put_binding(&template, json!({"clusters": clusters}));
    for cluster in ["m1", "m2", "m3"] {
        put_work(&stage, cluster);
    }
    start(&stage);
    stage
}

async fn binding(stage: &Stage) -> Arc<Object> {
    stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.expect("there")
}

async fn template(stage: &Stage) -> Arc<Object> {
    let target = ResourceRef::namespaced(&DEPLOYMENTS.gvr(), "default", "web");
    stage.client.get(target).await.expect("there")
}

fn condition(binding: &Object, kind: &str) -> Option<String> {
    let conditions = binding.items(&["status", "conditions"]);
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn simultaneous_reports_cause_one_write_to_binding_and_template() {
    let stage = set_up();
    for (cluster, replicas) in [("m1", 1), ("m2", 2), ("m3", 3)] {
        report(&stage, cluster, replicas, "Healthy").await;
    }
    until("the sum in the template", || async {
        (template(&stage).await.i64_at(&["status", "readyReplicas"]) == Some(6)).then_some(())
    })
    .await;
    let binding = binding(&stage).await;
    let items = binding.items(&["status", "aggregatedStatus"]);
    let said: Vec<(&Value, &Value, &Value)> =
        items.iter().map(|item| (&item["clusterName"], &item["applied"], &item["health"])).collect();
    let yes = json!(true);
    let healthy = json!("Healthy");
    assert_eq!(said, [(&json!("m1"), &yes, &healthy), (&json!("m2"), &yes, &healthy), (&json!("m3"), &yes, &healthy)]);
    assert_eq!(items[2]["status"]["replicas"], 3);
    assert_eq!(condition(&binding, "FullyApplied").as_deref(), Some("True"));
    assert_eq!(stage.writes_to("resourcebindings/status"), ["patch default"]);
    assert_eq!(stage.writes_to("deployments/status"), ["patch default"]);
    let event = (
        "AggregateStatusSucceed".to_owned(),
        "Update ResourceBinding(default/web-deployment) with AggregatedStatus successfully.".to_owned(),
    );
    until("an event", || async { stage.events_on("ResourceBinding").await.contains(&event).then_some(()) }).await;
}

#[tokio::test(start_paused = true)]
async fn later_reports_and_lost_works_are_aggregated_and_repetitions_are_not_written() {
    let stage = set_up();
    report(&stage, "m1", 1, "Unhealthy").await;
    let first = until("the first item", || async {
        let binding = binding(&stage).await;
        let items = binding.items(&["status", "aggregatedStatus"]);
        (items.len() == 3 && items[0]["health"] == "Unhealthy").then(|| binding.clone())
    })
    .await;
    assert_eq!(condition(&first, "FullyApplied").as_deref(), Some("False"));
    assert_eq!(first.items(&["status", "aggregatedStatus"])[1], json!({"clusterName": "m2", "health": "Unknown"}));
    // Back and forth within one gathering: nothing to write in the end.
    let written = stage.writes_to("resourcebindings/status").len();
    report(&stage, "m1", 2, "Healthy").await;
    report(&stage, "m1", 1, "Unhealthy").await;
    report(&stage, "m2", 4, "Healthy").await;
    until("four replicas", || async {
        (binding(&stage).await.items(&["status", "aggregatedStatus"])[1]["status"]["replicas"] == 4).then_some(())
    })
    .await;
    assert_eq!(stage.writes_to("resourcebindings/status").len(), written + 1);

    let name = api::names::work_name("Deployment", "web", "default");
    let target = stage.target(WORKS, "karmada-es-m3", &name);
    stage.client.delete(target, Default::default()).await.expect("deleted");
    until("two items", || async {
        (binding(&stage).await.items(&["status", "aggregatedStatus"]).len() == 2).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_fully_applied_after_the_last_eviction() {
    let stage = Stage::new(&["m1", "m2"]);
    let template = stage.put_deployment("web");
    let leaving = json!([{"fromCluster": "m2", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    stage.put_binding(&template, json!({"clusters": [{"name": "m1"}], "gracefulEvictionTasks": leaving}));
    let scheduled = json!({"lastScheduledTime": "2026-11-16T12:00:00Z"});
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", scheduled).await;
    put_work(&stage, "m1");
    start(&stage);
    report(&stage, "m1", 1, "Healthy").await;
    let says = |expected: &'static str| {
        let stage = &stage;
        async move { (condition(&*binding(stage).await, "FullyApplied").as_deref() == Some(expected)).then_some(()) }
    };
    // The work in m2 is gone already, and nothing more is heard from there.
    until("what is still expected of m2", || says("False")).await;
    let over = json!({"spec": {"gracefulEvictionTasks": null}});
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", over).await;
    until("the end of the eviction to be seen", || says("True")).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_returns_to_its_mirrored_value_is_written() {
    let stage = set_up();
    for round in 0..20 {
        let replicas = 1 + round % 2;
        report(&stage, "m1", replicas, "Healthy").await;
        // Right after the write, before the mirror can have it.
        until("the binding to follow", || async {
            let binding = binding(&stage).await;
            let items = binding.items(&["status", "aggregatedStatus"]);
            (items.first()?["status"]["replicas"] == replicas).then_some(())
        })
        .await;
        until("the template to follow", || async {
            (template(&stage).await.i64_at(&["status", "replicas"]) == Some(replicas)).then_some(())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_scheduled_bindings_are_aggregated_at_start() {
    let stage = Stage::new(&["m1"]);
    for name in ["web", "new"] {
        stage.put_binding(&stage.put_deployment(name), json!({"clusters": [{"name": "m1"}]}));
    }
    stage
        .patch_status(
            RESOURCE_BINDINGS,
            "default",
            "web-deployment",
            json!({"lastScheduledTime": "2026-11-16T12:00:00Z"}),
        )
        .await;
    put_work(&stage, "m1");
    report(&stage, "m1", 1, "Healthy").await;
    start(&stage);
    until("the status", || async {
        (condition(&*binding(&stage).await, "FullyApplied").as_deref() == Some("True")).then_some(())
    })
    .await;
    let other = stage.find(RESOURCE_BINDINGS, "default", "new-deployment").await.expect("there");
    assert_eq!(other.get(&["status"]), None);
}

#[tokio::test(start_paused = true)]
async fn templates_of_kinds_without_aggregation_are_not_written() {
    let stage = Stage::new(&["m1"]);
    let gvr = object::builtin::config_maps();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    let template = stage.api.seed(&gvr, object(map));
    stage.put_binding(&template, json!({"clusters": [{"name": "m1"}]}));
    let mut work = WORKS.object("karmada-es-m1", "c");
    work.set_label("resourcebinding.karmada.io/permanent-id", "id-c-configmap");
    work.set_annotation("resourcebinding.karmada.io/namespace", "default");
    work.set_annotation("resourcebinding.karmada.io/name", "c-configmap");
    stage.api.seed(&WORKS.gvr(), work);
    start(&stage);
    let condition = json!({"type": "Applied", "status": "False", "reason": "r", "message": "denied",
        "lastTransitionTime": "2026-11-16T12:00:00Z"});
    stage.patch_status(WORKS, "karmada-es-m1", "c", json!({"conditions": [condition]})).await;
    until("the message", || async {
        let binding = stage.find(RESOURCE_BINDINGS, "default", "c-configmap").await?;
        (binding.items(&["status", "aggregatedStatus"]).first()?["appliedMessage"] == "denied").then_some(())
    })
    .await;
    assert_eq!(stage.writes_to("configmaps/status"), Vec::<String>::new());
}
