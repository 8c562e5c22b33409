//! Dependencies follow their templates, are shared, and are removed.

use api::features::Features;
use api::work::{LABEL_BINDING_ID, RESOURCE_BINDINGS};
use object::Object;
use propagation::dependency::dependent_label;
use serde_json::{Value, json};

use super::*;
use crate::testing::{DEPLOYMENTS, SECRETS, Stage, until};

fn seed_deployment(stage: &Stage, name: &str, secret: &str) {
    let volume = json!({"name": "v", "secret": {"secretName": secret}});
    let pods = json!({"spec": {"containers": [{"name": "c", "image": "x"}], "volumes": [volume]}});
    stage.seed(DEPLOYMENTS, json!({"metadata": {"namespace": "a", "name": name}, "spec": {"template": pods}}));
}

fn seed_secret(stage: &Stage, name: &str) {
    stage.seed(SECRETS, json!({"metadata": {"namespace": "a", "name": name}}));
}

/// A scheduled binding of a deployment, as the detector and the scheduler leave it.
fn seed_binding(stage: &Stage, name: &str, clusters: Value, spec: Value) {
    let mut value = json!({
        "metadata": {"namespace": "a", "name": format!("{name}-deployment"),
            "labels": {LABEL_BINDING_ID: format!("id-{name}")}},
        "spec": {"propagateDeps": true, "clusters": clusters, "placement": {},
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": name}},
    });
    for (key, field) in spec.as_object().expect("a map") {
        value["spec"][key] = field.clone();
    }
    stage.seed(RESOURCE_BINDINGS, value);
}

async fn wait_attached(stage: &Stage, name: &str, what: &str, is_as_wanted: impl Fn(&Object) -> bool) -> Arc<Object> {
    stage.wait(RESOURCE_BINDINGS, "a", &format!("{name}-secret"), what, is_as_wanted).await
}

fn required_by(binding: &Object) -> Vec<(String, Value)> {
    let snapshots = binding.items(&["spec", "requiredBy"]).iter();
    snapshots.map(|s| (s["name"].as_str().unwrap_or_default().to_owned(), s["clusters"].clone())).collect()
}

fn stage() -> Stage {
    Stage::of_templates(Features::default())
}

#[tokio::test(start_paused = true)]
async fn dependencies_are_propagated_to_the_clusters_of_the_template() {
    let mut stage = stage();
    seed_deployment(&stage, "web", "key");
    seed_secret(&stage, "key");
    seed_binding(&stage, "web", json!([{"name": "m1"}]), json!({}));
    stage.start(run);
    let attached = wait_attached(&stage, "key", "attached", |_| true).await;
    assert_eq!(required_by(&attached), [("web-deployment".to_owned(), json!([{"name": "m1"}]))]);
    assert_eq!(attached.label(&dependent_label("a", "web-deployment")), Some("id-web"));
    assert_eq!(attached.get(&["spec", "placement"]), None);
    let dependent = stage.find(RESOURCE_BINDINGS, "a", "web-deployment").await.expect("there");
    assert!(dependent.has_finalizer(FINALIZER_DEPENDENCIES));
    let recorded = r#"[{"apiVersion":"v1","kind":"Secret","namespace":"a","name":"key"}]"#;
    assert_eq!(dependent.annotation(ANNOTATION_DEPENDENCIES), Some(recorded));
    stage.settle().await;
    assert_eq!(stage.writes(), ["patch resourcebindings a/web-deployment", "create resourcebindings a/"]);
    assert_eq!(stage.reasons("Deployment", "web").await, ["GetDependenciesSucceed"]);

    let moved = json!([{"name": "m2"}, {"name": "m3"}]);
    stage.patch(RESOURCE_BINDINGS, "a", "web-deployment", json!({"spec": {"clusters": moved}})).await;
    wait_attached(&stage, "key", "moved", |attached| required_by(attached)[0].1 == moved).await;
}

#[tokio::test(start_paused = true)]
async fn a_dependency_created_later_is_propagated() {
    let mut stage = stage();
    seed_deployment(&stage, "web", "key");
    seed_binding(&stage, "web", json!([{"name": "m1"}]), json!({}));
    stage.start(run);
    stage.settle().await;
    assert!(stage.find(RESOURCE_BINDINGS, "a", "key-secret").await.is_none());
    seed_secret(&stage, "key");
    let first = wait_attached(&stage, "key", "attached", |_| true).await;
    // And come again.
    stage.delete(SECRETS, "a", "key").await;
    seed_secret(&stage, "key");
    stage.settle().await;
    stage.delete(RESOURCE_BINDINGS, "a", "key-secret").await;
    stage.patch(RESOURCE_BINDINGS, "a", "key-secret", json!({"metadata": {"finalizers": null}})).await;
    let secret = stage.find(SECRETS, "a", "key").await.expect("there");
    let second = wait_attached(&stage, "key", "created again", |attached| attached.uid() != first.uid()).await;
    assert_eq!(second.owner_references()[0].uid, secret.uid());
}

#[tokio::test(start_paused = true)]
async fn dependencies_wait_until_the_template_is_scheduled() {
    let mut stage = stage();
    seed_deployment(&stage, "web", "key");
    seed_secret(&stage, "key");
    seed_binding(&stage, "web", json!([]), json!({}));
    seed_binding(&stage, "alone", json!([{"name": "m1"}]), json!({"propagateDeps": false}));
    stage.start(run);
    stage.settle().await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
}

#[tokio::test(start_paused = true)]
async fn dependencies_no_longer_needed_are_detached() {
    let mut stage = stage();
    for name in ["old", "new"] {
        seed_secret(&stage, name);
    }
    seed_deployment(&stage, "web", "old");
    seed_binding(&stage, "web", json!([{"name": "m1"}]), json!({}));
    stage.start(run);
    wait_attached(&stage, "old", "attached", |_| true).await;
    let volume = json!({"name": "v", "secret": {"secretName": "new"}});
    let pods = json!({"spec": {"template": {"spec": {"volumes": [volume]}}}});
    stage.patch(DEPLOYMENTS, "a", "web", pods).await;
    // As the detector does when a template changes.
    let changed = json!({"spec": {"resource": {"resourceVersion": "99"}}});
    stage.patch(RESOURCE_BINDINGS, "a", "web-deployment", changed).await;
    wait_attached(&stage, "new", "attached", |_| true).await;
    let let_go = wait_attached(&stage, "old", "let go", |attached| required_by(attached).is_empty()).await;
    assert_eq!(let_go.label(&dependent_label("a", "web-deployment")), None);
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_deleted_or_stops_propagating_dependencies_detaches_them() {
    let mut stage = stage();
    seed_secret(&stage, "key");
    for name in ["web", "db"] {
        seed_deployment(&stage, name, "key");
        let spec = json!({"conflictResolution": if name == "db" { "Overwrite" } else { "Abort" }});
        seed_binding(&stage, name, json!([{"name": "m1"}]), spec);
    }
    stage.start(run);
    let both = wait_attached(&stage, "key", "shared", |attached| required_by(attached).len() == 2).await;
    assert_eq!(both.str_at(&["spec", "conflictResolution"]), "Overwrite");
    stage.settle().await;
    let reasons = stage.reasons("ResourceBinding", "key-secret").await;
    assert_eq!(reasons, ["DependencyPolicyConflict"]);

    stage.patch(RESOURCE_BINDINGS, "a", "db-deployment", json!({"spec": {"propagateDeps": false}})).await;
    let one = wait_attached(&stage, "key", "let go", |attached| required_by(attached).len() == 1).await;
    assert_eq!(one.str_at(&["spec", "conflictResolution"]), "Abort");
    let released = |binding: &Object| !binding.has_finalizer(FINALIZER_DEPENDENCIES);
    stage.wait(RESOURCE_BINDINGS, "a", "db-deployment", "released", released).await;

    stage.delete(RESOURCE_BINDINGS, "a", "web-deployment").await;
    stage.wait_gone(RESOURCE_BINDINGS, "a", "web-deployment").await;
    wait_attached(&stage, "key", "let go", |attached| required_by(attached).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn the_remaining_conflict_is_reported_when_policies_change_one_by_one() {
    let mut stage = stage();
    seed_secret(&stage, "key");
    for (name, resolution) in [("web", "Overwrite"), ("db", "Abort")] {
        seed_deployment(&stage, name, "key");
        let spec = json!({"conflictResolution": resolution, "preserveResourcesOnDeletion": false});
        seed_binding(&stage, name, json!([{"name": "m1"}]), spec);
    }
    stage.start(run);
    wait_attached(&stage, "key", "shared", |attached| required_by(attached).len() == 2).await;
    // The first change leaves both in conflict and gives the final result; the second one changes nothing about it.
    for (name, preserves) in [("web", true), ("db", false)] {
        let spec = json!({"conflictResolution": "Overwrite", "preserveResourcesOnDeletion": preserves});
        stage.patch(RESOURCE_BINDINGS, "a", &format!("{name}-deployment"), json!({"spec": spec})).await;
        wait_attached(&stage, "key", "preserved", |attached| {
            attached.bool_at(&["spec", "preserveResourcesOnDeletion"]) == Some(true)
        })
        .await;
    }
    let left = "Dependency policy conflict detected: PreserveResourcesOnDeletion conflicted (true vs false).";
    until("the event", || async {
        let events = stage.events_on("ResourceBinding").await;
        events.contains(&("DependencyPolicyConflict".to_owned(), left.to_owned())).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_completes_pending_work_and_writes_nothing_else() {
    let mut stage = stage();
    seed_secret(&stage, "key");
    seed_deployment(&stage, "web", "key");
    seed_binding(&stage, "web", json!([{"name": "m1"}]), json!({}));
    stage.start(run);
    wait_attached(&stage, "key", "attached", |_| true).await;
    stage.settle().await;
    stage.stop();
    let before = stage.writes();
    stage.start(run);
    stage.settle().await;
    assert_eq!(stage.writes(), before);
    stage.stop();
    stage.patch(RESOURCE_BINDINGS, "a", "web-deployment", json!({"spec": {"propagateDeps": false}})).await;
    stage.start(run);
    wait_attached(&stage, "key", "let go", |attached| required_by(attached).is_empty()).await;
}
