//! Bindings whose authors may write in one namespace only, against the objects and works of others.
//!
//! Admission refuses such bindings; here they are stored already, as in a store that is older than the rule.

use std::sync::Arc;

use api::features::Features;
use api::names::{binding_name, execution_namespace, work_name};
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, WORKS};
use object::Object;
use serde_json::{Value, json};

use crate::testing::{DEPLOYMENTS, NAMESPACES, SECRETS, Stage, until};
use crate::{dependencies, rollup, work};

const TENANT: &str = "tenant";

fn stage() -> Stage {
    let stage = Stage::new(&["m1", "m2"]);
    for (namespace, name) in
        [("karmada-cluster", "m1"), ("kube-system", "bootstrap-token-abcdef"), ("other", "topsecret"), (TENANT, "own")]
    {
        let metadata = json!({"name": name, "namespace": namespace});
        stage.seed(SECRETS, json!({"metadata": metadata, "data": {"token": "c2VjcmV0"}}));
    }
    stage.seed(NAMESPACES, json!({"metadata": {"name": "victim"}}));
    stage
}

fn start(stage: &Stage) {
    let plane = stage.plane(Features::default());
    tokio::spawn(work::run(Arc::clone(&plane), stage.cancel.clone()));
    tokio::spawn(rollup::run(Arc::clone(&plane), stage.cancel.clone()));
    tokio::spawn(dependencies::run(plane, stage.cancel.clone()));
}

/// Stores a binding as its author wrote it.
fn put(stage: &Stage, name: &str, id: &str, finalizers: Value, spec: Value) {
    let metadata = json!({"name": name, "namespace": TENANT, "finalizers": finalizers,
        "labels": {"resourcebinding.karmada.io/permanent-id": id}});
    stage.seed(RESOURCE_BINDINGS, json!({"metadata": metadata, "spec": spec}));
}

fn reference(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name})
}

/// Until the controllers have handled a binding that came later.
async fn settle(stage: &Stage) {
    let resource = reference("v1", "Secret", TENANT, "own");
    put(
        stage,
        "marker",
        "id-marker",
        json!(["karmada.io/binding-controller"]),
        json!({"resource": resource, "clusters": [{"name": "m1"}]}),
    );
    let name = work_name("Secret", "own", TENANT);
    stage.wait(WORKS, "karmada-es-m1", &name, "the marker", |_| true).await;
}

async fn works(stage: &Stage) -> Vec<String> {
    let list = stage.client.list_all(cluster_client::ResourceRef::all(&WORKS.gvr()), Default::default()).await;
    let marker = work_name("Secret", "own", TENANT);
    let items = list.expect("listed").items;
    items
        .iter()
        .filter(|work| work.name() != marker)
        .map(|work| format!("{}/{}", work.namespace(), work.name()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_stored_binding_of_another_scope_makes_no_work() {
    let clusters = json!([{"name": "m2"}]);
    let required = json!([{"namespace": "other", "name": "x", "clusters": [{"name": "m2"}]}]);
    let rows: &[(&str, Value)] = &[
        (
            "cluster credentials",
            json!({"resource": reference("v1", "Secret", "karmada-cluster", "m1"), "clusters": clusters}),
        ),
        (
            "bootstrap token",
            json!({"resource": reference("v1", "Secret", "kube-system", "bootstrap-token-abcdef"), "clusters": clusters}),
        ),
        (
            "secret of another tenant",
            json!({"resource": reference("v1", "Secret", "other", "topsecret"), "clusters": clusters}),
        ),
        ("required by", json!({"resource": reference("v1", "Secret", "other", "topsecret"), "requiredBy": required})),
        ("namespace", json!({"resource": reference("v1", "Namespace", "", "victim"), "clusters": clusters})),
        (
            "namespace under a namespace",
            json!({"resource": reference("v1", "Namespace", TENANT, "victim"), "clusters": clusters}),
        ),
        (
            "eviction task",
            json!({"resource": reference("v1", "Secret", "other", "topsecret"),
            "gracefulEvictionTasks": [{"fromCluster": "m2", "reason": "x", "producer": "x"}]}),
        ),
    ];
    for (title, spec) in rows {
        let stage = stage();
        start(&stage);
        put(&stage, "attack", "id-attack", json!([]), spec.clone());
        settle(&stage).await;
        assert_eq!(works(&stage).await, Vec::<String>::new(), "{title}");
        stage.stop();
    }
}

/// A work that a rightful binding made, and the binding.
async fn propagated(stage: &Stage) -> [(String, String); 2] {
    let secret = stage.find(SECRETS, "other", "topsecret").await.expect("seeded");
    stage.put_binding(&secret, json!({"clusters": [{"name": "m1"}]}));
    let namespace = stage.find(NAMESPACES, "", "victim").await.expect("seeded");
    stage.put_binding(&namespace, json!({"clusters": [{"name": "m1"}]}));
    let space = execution_namespace("m1");
    let keys = [work_name("Secret", "topsecret", "other"), work_name("Namespace", "victim", "")];
    for name in &keys {
        stage.wait(WORKS, &space, name, "made", |_| true).await;
    }
    keys.map(|name| (space.clone(), name))
}

#[tokio::test(start_paused = true)]
async fn deleting_a_binding_leaves_the_works_of_others() {
    let finalizers = json!(["karmada.io/binding-controller"]);
    let stolen = ["id-topsecret-secret", "id-victim-namespace", "id-attack"];
    let resources = [
        reference("v1", "Secret", "other", "topsecret"),
        reference("v1", "Namespace", "", "victim"),
        // In scope, with an id that is not its own.
        reference("v1", "Secret", TENANT, "own"),
    ];
    for id in stolen {
        for resource in &resources {
            let stage = stage();
            start(&stage);
            let before = propagated(&stage).await;
            let spec = json!({"resource": resource, "clusters": [{"name": "m1"}]});
            put(&stage, "attack", id, finalizers.clone(), spec);
            stage.settle().await;
            // The clusters of the binding change, then it goes: neither deletes what it did not make.
            stage.patch(RESOURCE_BINDINGS, TENANT, "attack", json!({"spec": {"clusters": [{"name": "m2"}]}})).await;
            stage.settle().await;
            stage.delete(RESOURCE_BINDINGS, TENANT, "attack").await;
            stage.wait_gone(RESOURCE_BINDINGS, TENANT, "attack").await;
            for (namespace, name) in &before {
                let work = stage.find(WORKS, namespace, name).await;
                let work = work.unwrap_or_else(|| panic!("{id} {resource}: {name} is gone"));
                assert!(!work.is_deleting(), "{id} {resource}");
                let names_attacker = work.annotation("resourcebinding.karmada.io/name") == Some("attack");
                assert!(!names_attacker, "{id} {resource}: {name} was taken over");
            }
            stage.stop();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_work_taken_over_earlier_is_returned_to_its_binding() {
    let stage = stage();
    let attacker = [("resourcebinding.karmada.io/namespace", TENANT), ("resourcebinding.karmada.io/name", "attack")];
    let cases = [("Secret", "other", "topsecret"), ("Namespace", "", "victim")];
    for (kind, namespace, name) in cases {
        let annotations: serde_json::Map<String, Value> =
            attacker.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        let manifest = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let metadata = json!({"name": work_name(kind, name, namespace), "namespace": "karmada-es-m1",
            "annotations": annotations, "labels": {"resourcebinding.karmada.io/permanent-id": "id-attack"}});
        stage.seed(WORKS, json!({"metadata": metadata, "spec": {"workload": {"manifests": [manifest]}}}));
    }
    put(
        &stage,
        "attack",
        "id-attack",
        json!(["karmada.io/binding-controller"]),
        json!({"resource": reference("v1", "Secret", "other", "topsecret"), "clusters": [{"name": "m1"}]}),
    );
    start(&stage);
    stage.settle().await;
    stage.delete(RESOURCE_BINDINGS, TENANT, "attack").await;
    stage.wait_gone(RESOURCE_BINDINGS, TENANT, "attack").await;
    let [secret, namespace] = propagated(&stage).await;
    let is_owned = |work: &Object, id: &str| {
        ["resourcebinding.karmada.io/permanent-id", "clusterresourcebinding.karmada.io/permanent-id"]
            .iter()
            .filter_map(|label| work.label(label))
            .eq([id])
    };
    stage.wait(WORKS, &secret.0, &secret.1, "taken back", |work| is_owned(work, "id-topsecret-secret")).await;
    stage.wait(WORKS, &namespace.0, &namespace.1, "taken back", |work| is_owned(work, "id-victim-namespace")).await;
}

#[tokio::test(start_paused = true)]
async fn a_work_stays_with_the_binding_that_created_it() {
    let stage = stage();
    start(&stage);
    let secret = stage.find(SECRETS, TENANT, "own").await.expect("seeded");
    stage.put_binding(&secret, json!({"clusters": [{"name": "m1"}]}));
    let name = work_name("Secret", "own", TENANT);
    stage.wait(WORKS, "karmada-es-m1", &name, "made", |_| true).await;
    let spec = json!({"resource": reference("v1", "Secret", TENANT, "own"), "clusters": [{"name": "m1"}]});
    put(&stage, "second", "id-second", json!([]), spec);
    let message = format!(
        "work karmada-es-m1/{name} belongs to ResourceBinding({TENANT}/{}) and is not taken over",
        binding_name("Secret", "own")
    );
    until("the refusal", || async {
        let events = stage.events_on("ResourceBinding").await;
        events.contains(&("SyncWorkFailed".to_owned(), message.clone())).then_some(())
    })
    .await;
    let work = stage.find(WORKS, "karmada-es-m1", &name).await.expect("there");
    assert_eq!(work.label("resourcebinding.karmada.io/permanent-id"), Some("id-own-secret"));
}

#[tokio::test(start_paused = true)]
async fn deleting_a_binding_created_without_finalizer_deletes_its_works() {
    let stage = stage();
    start(&stage);
    let spec = json!({"resource": reference("v1", "Secret", TENANT, "own"), "clusters": [{"name": "m1"}]});
    put(&stage, "handmade", "id-handmade", json!([]), spec);
    let name = work_name("Secret", "own", TENANT);
    stage.wait(WORKS, "karmada-es-m1", &name, "made", |_| true).await;
    stage.delete(RESOURCE_BINDINGS, TENANT, "handmade").await;
    stage.wait_gone(RESOURCE_BINDINGS, TENANT, "handmade").await;
    let work = stage.find(WORKS, "karmada-es-m1", &name).await;
    assert!(work.is_none_or(|work| work.is_deleting()));
}

#[tokio::test(start_paused = true)]
async fn works_outside_execution_namespaces_are_not_aggregated() {
    let stage = Stage::new(&["m1"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, json!({"replicas": 1, "clusters": [{"name": "m1", "replicas": 1}]}));
    let status = json!({"lastScheduledTime": "2026-11-16T12:00:00Z"});
    stage.patch_status(RESOURCE_BINDINGS, "default", "web-deployment", status).await;
    let identity = json!({"name": "forged", "namespace": TENANT,
        "labels": {"resourcebinding.karmada.io/permanent-id": "id-web-deployment"},
        "annotations": {"resourcebinding.karmada.io/namespace": "default",
            "resourcebinding.karmada.io/name": "web-deployment"}});
    // A status that cannot be read would stop the aggregation of the binding.
    stage.seed(WORKS, json!({"metadata": identity, "status": {"conditions": "forged"}}));
    until("the work", || stage.find_work("m1", "web")).await;
    let work = work_name("Deployment", "web", "default");
    let applied = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "x", "message": "",
        "lastTransitionTime": "2026-11-16T12:00:00Z"}]});
    stage.patch_status(WORKS, "karmada-es-m1", &work, applied).await;
    let is_reported = |binding: &Object| binding.items(&["status", "aggregatedStatus"]).len() == 1;
    stage.wait(RESOURCE_BINDINGS, "default", "web-deployment", "aggregated", is_reported).await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_template_is_written_by_bindings_of_its_namespace_only() {
    let stage = Stage::new(&["m1"]);
    start(&stage);
    stage.put_deployment("web");
    let identity =
        json!({"name": "attack", "namespace": TENANT, "labels": {"resourcebinding.karmada.io/permanent-id": "id"}});
    stage.seed(
        RESOURCE_BINDINGS,
        json!({"metadata": identity, "spec": {
        "resource": reference("apps/v1", "Deployment", "default", "web"), "clusters": [{"name": "m1"}]}}),
    );
    let forged = json!({"lastScheduledTime": "2026-11-16T12:00:00Z",
        "aggregatedStatus": [{"clusterName": "m1", "applied": true, "status": {"replicas": 7}}]});
    stage.patch_status(RESOURCE_BINDINGS, TENANT, "attack", forged).await;
    stage.settle().await;
    let template = stage.find(DEPLOYMENTS, "default", "web").await.expect("there");
    assert_eq!(template.get(&["status"]), None);
    assert!(stage.writes().iter().all(|write| !write.contains("deployments")), "{:?}", stage.writes());
}

#[tokio::test(start_paused = true)]
async fn cluster_bindings_name_cluster_scoped_objects_only() {
    let stage = stage();
    start(&stage);
    let identity = json!({"name": "attack", "labels": {"clusterresourcebinding.karmada.io/permanent-id": "id"}});
    stage.seed(
        CLUSTER_RESOURCE_BINDINGS,
        json!({"metadata": identity, "spec": {
        "resource": reference("v1", "Secret", "kube-system", "bootstrap-token-abcdef"), "clusters": [{"name": "m2"}]}}),
    );
    settle(&stage).await;
    assert_eq!(works(&stage).await, Vec::<String>::new());
}
