//! Bindings that become works, and what takes the works away again.

use api::cluster::CLUSTERS;
use api::features::Features;
use api::policy::{CLUSTER_OVERRIDE_POLICIES, OVERRIDE_POLICIES};
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, WORKS};
use cluster_client::{ApiRequest, DeleteOptions, ResourceRef};
use object::builtin;
use serde_json::{Value, json};

use super::*;
use crate::testing::{DEPLOYMENTS, Stage, object, until};

/// Starts the controller on what the stage has.
fn start(stage: &Stage) {
    let plane = stage.plane(Features::default());
    tokio::spawn(run(plane, stage.cancel.clone()));
}

fn manifest(work: &Object) -> Value {
    work.items(&["spec", "workload", "manifests"])[0].clone()
}

async fn work_in(stage: &Stage, cluster: &str, deployment: &str) -> Arc<Object> {
    until(&format!("a work in {cluster}"), || stage.find_work(cluster, deployment)).await
}

async fn no_work_in(stage: &Stage, cluster: &str, deployment: &str) {
    until(&format!("no work in {cluster}"), || async {
        stage.find_work(cluster, deployment).await.is_none().then_some(())
    })
    .await;
}

fn two_members() -> Value {
    json!({"replicas": 5, "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}]})
}

/// Until a later change of the same kind has been dealt with, so that what came before has been too.
async fn settle(stage: &Stage) {
    let marker = stage.put_deployment("marker");
    stage.put_binding(&marker, json!({"clusters": [{"name": "m1", "replicas": 1}]}));
    work_in(stage, "m1", "marker").await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_becomes_one_work_per_member_with_its_share() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, two_members());
    for (cluster, replicas) in [("m1", 2), ("m2", 3)] {
        let work = work_in(&stage, cluster, "web").await;
        let manifest = manifest(&work);
        assert_eq!(manifest["spec"]["replicas"], replicas, "{cluster}");
        assert_eq!(manifest["metadata"]["managedFields"], Value::Null);
        assert_eq!(manifest["metadata"]["annotations"]["resourcetemplate.karmada.io/uid"], template.uid());
        assert_eq!(work.label("resourcebinding.karmada.io/permanent-id"), Some("id-web-deployment"));
        assert!(work.has_finalizer("karmada.io/execution-controller"));
    }
    let event =
        ("SyncWorkSucceed".to_owned(), "Sync work of ResourceBinding(default/web-deployment) successful.".to_owned());
    for kind in ["ResourceBinding", "Deployment"] {
        until(&format!("an event on {kind}"), || async { stage.events_on(kind).await.contains(&event).then_some(()) })
            .await;
    }
    let mut writes = stage.writes_to("works");
    writes.sort();
    assert_eq!(writes, ["create karmada-es-m1", "create karmada-es-m2"]);
}

#[tokio::test(start_paused = true)]
async fn only_changed_works_are_written() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, two_members());
    work_in(&stage, "m2", "web").await;
    // Nothing a work shows.
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", json!({"spec": {"schedulerName": "x"}})).await;
    // Something only one shows.
    let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 4}]);
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", json!({"spec": {"clusters": clusters}})).await;
    until("four replicas in m2", || async {
        let work = stage.find_work("m2", "web").await?;
        (manifest(&work)["spec"]["replicas"] == 4).then_some(())
    })
    .await;
    settle(&stage).await;
    let mut writes = stage.writes_to("works");
    writes.sort();
    let expected = ["create karmada-es-m1", "create karmada-es-m1", "create karmada-es-m2", "patch karmada-es-m2"];
    assert_eq!(writes, expected, "one of them is the marker's");
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_reaches_every_member_once() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, two_members());
    work_in(&stage, "m2", "web").await;
    let target = ResourceRef::of(&DEPLOYMENTS.gvr(), &template);
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "b.example/web:v2"}]}}}});
    let changed = stage.client.patch(target, Patch::merge(image), WriteOptions::default()).await.expect("patched");
    let version = json!({"spec": {"resource": {"resourceVersion": changed.resource_version()}}});
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", version).await;
    for cluster in ["m1", "m2"] {
        until("the new image", || async {
            let work = stage.find_work(cluster, "web").await?;
            let image = &manifest(&work)["spec"]["template"]["spec"]["containers"][0]["image"];
            (image == "b.example/web:v2").then_some(())
        })
        .await;
    }
    assert_eq!(stage.writes_to("works").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_removed_target_cluster_loses_its_work() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, two_members());
    let stays = work_in(&stage, "m2", "web").await;
    work_in(&stage, "m1", "web").await;
    let clusters = json!([{"name": "m2", "replicas": 3}]);
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", json!({"spec": {"clusters": clusters}})).await;
    until("the work in m1 to be deleted", || async {
        stage.find_work("m1", "web").await.filter(|work| work.is_deleting())
    })
    .await;
    assert_eq!(stage.find_work("m2", "web").await, Some(stays));
}

#[tokio::test(start_paused = true)]
async fn an_error_in_one_member_is_reported_and_blocks_no_other() {
    let stage = Stage::new(&["m1", "m2"]);
    stage.api.set_fault(|call| {
        let is_it = call.target.namespace.as_deref() == Some("karmada-es-m1")
            && matches!(call.request, ApiRequest::Create { .. });
        is_it.then(|| Status::internal("no space in m1"))
    });
    start(&stage);
    let template = stage.put_deployment("web");
    let three = json!({"clusters": [{"name": "m1"}, {"name": "unknown"}, {"name": "m2"}]});
    stage.put_binding(&template, three);
    work_in(&stage, "m2", "web").await;
    until("an event", || async {
        let events = stage.events_on("ResourceBinding").await;
        let is_reported =
            |part: &str| events.iter().any(|(reason, text)| reason == "SyncWorkFailed" && text.contains(part));
        (is_reported("no space in m1") && is_reported("Cluster.cluster.karmada.io \"unknown\" not found")).then_some(())
    })
    .await;
    stage.api.clear_fault();
    work_in(&stage, "m1", "web").await;
    let unknown =
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "unknown"}});
    stage.api.seed(&CLUSTERS.gvr(), object(unknown));
    work_in(&stage, "unknown", "web").await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_binding_deletes_its_works() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, two_members());
    work_in(&stage, "m1", "web").await;
    work_in(&stage, "m2", "web").await;
    let target = stage.target(RESOURCE_BINDINGS, "default", "web-deployment");
    stage.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    until("the binding to be gone", || async {
        stage.find(RESOURCE_BINDINGS, "default", "web-deployment").await.is_none().then_some(())
    })
    .await;
    for cluster in ["m1", "m2"] {
        // Their own finalizers are not this controller's.
        assert!(work_in(&stage, cluster, "web").await.is_deleting(), "{cluster}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_to_be_purged_first_delays_the_new_works() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, json!({"clusters": [{"name": "m1", "replicas": 1}]}));
    work_in(&stage, "m1", "web").await;
    let moved = json!({"spec": {"clusters": [{"name": "m2", "replicas": 1}], "gracefulEvictionTasks":
        [{"fromCluster": "m1", "purgeMode": "Directly", "reason": "r", "producer": "p"}]}});
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", moved).await;
    until("m1 to be left", || async { stage.find_work("m1", "web").await.filter(|work| work.is_deleting()) }).await;
    settle(&stage).await;
    assert_eq!(stage.find_work("m2", "web").await, None, "m1 still has it");
    let name = api::names::work_name("Deployment", "web", "default");
    stage.patch(WORKS, "karmada-es-m1", &name, json!({"metadata": {"finalizers": null}})).await;
    let before = tokio::time::Instant::now();
    work_in(&stage, "m2", "web").await;
    assert!(before.elapsed() < PURGE_CHECK_EVERY, "the end of the work was noticed");
}

#[tokio::test(start_paused = true)]
async fn a_gracefully_evicted_cluster_keeps_its_work_unchanged() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let template = stage.put_deployment("web");
    stage.put_binding(&template, json!({"clusters": [{"name": "m1", "replicas": 1}]}));
    let kept = work_in(&stage, "m1", "web").await;
    let moved = json!({"spec": {"clusters": [{"name": "m2", "replicas": 1}], "gracefulEvictionTasks":
        [{"fromCluster": "m1", "purgeMode": "Gracefully", "reason": "r", "producer": "p"}]}});
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", moved).await;
    work_in(&stage, "m2", "web").await;
    assert_eq!(stage.find_work("m1", "web").await, Some(kept));
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", json!({"spec": {"gracefulEvictionTasks": null}})).await;
    until("m1 to be left", || async { stage.find_work("m1", "web").await.filter(|work| work.is_deleting()) }).await;
}

fn image_policy(namespace: &str, name: &str, selectors: Value, tag: &str) -> Object {
    let resource = if namespace.is_empty() { CLUSTER_OVERRIDE_POLICIES } else { OVERRIDE_POLICIES };
    let mut policy = resource.object(namespace, name);
    let rule = json!({"targetCluster": {"clusterNames": ["m1"]},
        "overriders": {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": tag}]}});
    policy.set(&["spec"], json!({"resourceSelectors": selectors, "overrideRules": [rule]}));
    policy
}

async fn image_becomes(stage: &Stage, deployment: &str, image: &str) {
    until(&format!("{image} in {deployment}"), || async {
        let work = stage.find_work("m1", deployment).await?;
        let found = &manifest(&work)["spec"]["template"]["spec"]["containers"][0]["image"];
        (found == image).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn override_policies_change_the_works_they_select_and_no_other() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    for name in ["web", "api"] {
        stage.put_binding(&stage.put_deployment(name), two_members());
        work_in(&stage, "m1", name).await;
        work_in(&stage, "m2", name).await;
    }
    let untouched = work_in(&stage, "m1", "api").await;
    let made = stage.writes_to("works").len();
    let by_name = |name: &str| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]);
    let by_label = |name: &str| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": name}}}]);
    stage.api.seed(&CLUSTER_OVERRIDE_POLICIES.gvr(), image_policy("", "wide", by_label("web"), "wide"));
    image_becomes(&stage, "web", "a.example/web:wide").await;
    stage.api.seed(&OVERRIDE_POLICIES.gvr(), image_policy("default", "near", by_name("web"), "near"));
    image_becomes(&stage, "web", "a.example/web:near").await;
    let work = work_in(&stage, "m1", "web").await;
    assert!(work.annotation("policy.karmada.io/applied-overrides").is_some_and(|text| text.contains("\"near\"")));
    assert!(
        work.annotation("policy.karmada.io/applied-cluster-overrides").is_some_and(|text| text.contains("\"wide\""))
    );

    // It now selects another: the old one is put right too.
    let moved = json!({"spec": {"resourceSelectors": by_name("api")}});
    stage.patch(OVERRIDE_POLICIES, "default", "near", moved).await;
    image_becomes(&stage, "web", "a.example/web:wide").await;
    image_becomes(&stage, "api", "a.example/web:near").await;
    let target = stage.target(OVERRIDE_POLICIES, "default", "near");
    stage.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    image_becomes(&stage, "api", "a.example/web:v1").await;
    let api = work_in(&stage, "m1", "api").await;
    assert_eq!(manifest(&api)["spec"], manifest(&untouched)["spec"]);
    let writes = stage.writes_to("works").split_off(made);
    assert_eq!(writes, ["patch karmada-es-m1"; 5], "m2 was never meant");
    let event = "Apply override policy(default/near) for cluster(m1) succeed.".to_owned();
    until("an event", || async {
        let events = stage.events_on("Deployment").await;
        events.contains(&("ApplyOverridePolicySucceed".to_owned(), event.clone())).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_override_that_cannot_be_applied_keeps_the_template_from_that_member_alone() {
    let stage = Stage::new(&["m1", "m2"]);
    let mut policy = image_policy("default", "bad", json!([]), "x");
    let broken = json!([{"targetCluster": {"clusterNames": ["m1"]},
        "overriders": {"plaintext": [{"path": "/spec/replica", "operator": "replace", "value": 5}]}}]);
    policy.set(&["spec", "overrideRules"], broken);
    stage.api.seed(&OVERRIDE_POLICIES.gvr(), policy);
    start(&stage);
    stage.put_binding(&stage.put_deployment("web"), two_members());
    work_in(&stage, "m2", "web").await;
    let event = "Apply override policy(default/bad) for cluster(m1) failed.".to_owned();
    until("an event", || async {
        let events = stage.events_on("Deployment").await;
        events.contains(&("ApplyOverridePolicyFailed".to_owned(), event.clone())).then_some(())
    })
    .await;
    let reason = "replace operation does not apply: doc is missing key: /spec/replica: missing value".to_owned();
    for kind in ["ResourceBinding", "Deployment"] {
        until("the reason", || async {
            let events = stage.events_on(kind).await;
            events.contains(&("SyncWorkFailed".to_owned(), reason.clone())).then_some(())
        })
        .await;
    }
    assert_eq!(stage.find_work("m1", "web").await, None);
}

#[tokio::test(start_paused = true)]
async fn cluster_wide_templates_have_works_and_overrides_too() {
    let stage = Stage::new(&["m1"]);
    start(&stage);
    let gvr = builtin::cluster_roles();
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r:x"}});
    let template = stage.api.seed(&gvr, object(role));
    stage.put_binding(&template, json!({"clusters": [{"name": "m1"}], "preserveResourcesOnDeletion": true}));
    let name = api::names::work_name("ClusterRole", "r:x", "");
    let work = until("a work", || stage.find(WORKS, "karmada-es-m1", &name)).await;
    assert_eq!(work.annotation("clusterresourcebinding.karmada.io/name"), Some("r.x-clusterrole"));
    assert_eq!(work.bool_at(&["spec", "preserveResourcesOnDeletion"]), Some(true));
    let mut policy = CLUSTER_OVERRIDE_POLICIES.object("", "labels");
    policy.set(
        &["spec", "overrideRules"],
        json!([{"overriders":
        {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}]),
    );
    stage.api.seed(&CLUSTER_OVERRIDE_POLICIES.gvr(), policy);
    until("a label", || async {
        let work = stage.find(WORKS, "karmada-es-m1", &name).await?;
        (manifest(&work)["metadata"]["labels"]["a"] == "b").then_some(())
    })
    .await;
    let target = stage.target(CLUSTER_RESOURCE_BINDINGS, "", "r.x-clusterrole");
    stage.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    until("the work to be deleted", || async {
        stage.find(WORKS, "karmada-es-m1", &name).await.filter(|work| work.is_deleting())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dependencies_get_works_in_the_clusters_of_their_dependents() {
    let stage = Stage::new(&["m1", "m2"]);
    start(&stage);
    let gvr = builtin::config_maps();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    let template = stage.api.seed(&gvr, object(map));
    let required = json!({"requiredBy": [{"namespace": "default", "name": "web-deployment",
        "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]}]});
    stage.put_binding(&template, required);
    let name = api::names::work_name("ConfigMap", "c", "default");
    until("a work in m1", || stage.find(WORKS, "karmada-es-m1", &name)).await;
    until("a work in m2", || stage.find(WORKS, "karmada-es-m2", &name)).await;
    stage.patch(RESOURCE_BINDINGS, "default", "c-configmap", json!({"spec": {"requiredBy": null}})).await;
    for namespace in ["karmada-es-m1", "karmada-es-m2"] {
        until("it to be deleted", || async {
            stage.find(WORKS, namespace, &name).await.filter(|work| work.is_deleting())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_work_is_recreated() {
    let stage = Stage::new(&["m1"]);
    start(&stage);
    stage.put_binding(&stage.put_deployment("web"), json!({"clusters": [{"name": "m1", "replicas": 1}]}));
    let first = work_in(&stage, "m1", "web").await;
    let target = stage.target(WORKS, "karmada-es-m1", first.name());
    stage.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    stage.patch(WORKS, "karmada-es-m1", first.name(), json!({"metadata": {"finalizers": null}})).await;
    until("another work", || async { stage.find_work("m1", "web").await.filter(|work| work.uid() != first.uid()) })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_member_being_removed_gets_no_new_work() {
    let stage = Stage::new(&["m1", "m2"]);
    let mut leaving = CLUSTERS.object("", "m3");
    leaving.add_finalizer("karmada.io/cluster-controller");
    stage.api.seed(&CLUSTERS.gvr(), leaving);
    stage.client.delete(stage.target(CLUSTERS, "", "m3"), DeleteOptions::default()).await.expect("deleted");
    start(&stage);
    stage.put_binding(&stage.put_deployment("web"), json!({"clusters": [{"name": "m3"}, {"name": "m1"}]}));
    work_in(&stage, "m1", "web").await;
    settle(&stage).await;
    no_work_in(&stage, "m3", "web").await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_during_many_deliveries_loses_and_repeats_nothing() {
    const MANY: usize = 100;
    let stage = Stage::new(&["m1", "m2"]);
    for index in 0..MANY {
        stage.put_binding(&stage.put_deployment(&format!("web-{index}")), two_members());
    }
    let first = CancellationToken::new();
    let plane = stage.plane(Features::default());
    let running = tokio::spawn(run(plane, first.clone()));
    until("some works", || async { (stage.writes_to("works").len() > MANY / 2).then_some(()) }).await;
    first.cancel();
    running.await.expect("ended well");
    start(&stage);
    for index in 0..MANY {
        work_in(&stage, "m1", &format!("web-{index}")).await;
        work_in(&stage, "m2", &format!("web-{index}")).await;
    }
    settle(&stage).await;
    let writes = stage.writes_to("works");
    assert_eq!(writes.len(), 2 * MANY + 1, "one for the marker");
    assert!(writes.iter().all(|write| write.starts_with("create")), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn works_not_yet_seen_in_the_watch_are_updated_and_deleted_with_their_binding() {
    let stage = Stage::new(&["m1", "m2"]);
    let plane = stage.plane(Features::default());
    tokio::spawn(run(Arc::clone(&plane), stage.cancel.clone()));
    settle(&stage).await;
    stage.api.hold_watches(Some("works"));
    let template = stage.put_deployment("web");
    stage.put_binding(&template, two_members());
    work_in(&stage, "m2", "web").await;
    let clusters = json!([{"name": "m1", "replicas": 4}]);
    stage.patch(RESOURCE_BINDINGS, "default", "web-deployment", json!({"spec": {"clusters": clusters}})).await;
    until("four replicas in m1, m2 is left", || async {
        let (kept, left) = (stage.find_work("m1", "web").await?, stage.find_work("m2", "web").await?);
        (manifest(&kept)["spec"]["replicas"] == 4 && left.is_deleting()).then_some(())
    })
    .await;
    let writes: Vec<String> = stage.writes_to("works").split_off(1);
    assert_eq!(writes.iter().filter(|write| write.starts_with("create")).count(), 2, "{writes:?}");
    stage.api.hold_watches(None);
    until("the watch has caught up", || async { (plane.works.own_writes() == 0).then_some(()) }).await;
}
