//! Templates and policies come, change and go, in any order; bindings follow.

use api::features::Features;
use api::policy::{CLUSTER_PROPAGATION_POLICIES, OVERRIDE_POLICIES, PROPAGATION_POLICIES};
use api::work::{CLUSTER_RESOURCE_BINDINGS, LABEL_CLAIMED_BY, RESOURCE_BINDINGS};
use cluster_client::ApiRequest;
use object::{Object, Status};
use serde_json::{Value, json};

use super::*;
use crate::testing::{DEPLOYMENTS, NAMESPACES, Stage};

const PP_ID: &str = "propagationpolicy.karmada.io/permanent-id";
const CPP_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";

fn seed_deployment(stage: &Stage, namespace: &str, name: &str) {
    let pods = json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    stage.seed(
        DEPLOYMENTS,
        json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
            "spec": {"replicas": 2, "template": pods}}),
    );
}

/// A policy as it is admitted: with its id and finalizer.
fn seed_policy(stage: &Stage, namespace: &str, name: &str, spec: Value) {
    let selectors = json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}});
    let (resource, label, finalizer) = match namespace {
        "" => (CLUSTER_PROPAGATION_POLICIES, CPP_ID, "karmada.io/cluster-propagation-policy-controller"),
        _ => (PROPAGATION_POLICIES, PP_ID, "karmada.io/propagation-policy-controller"),
    };
    let mut value = json!({"metadata": {"name": name, "labels": {label: format!("id-{name}")},
        "finalizers": [finalizer]}, "spec": selectors});
    for (key, field) in spec.as_object().expect("a map") {
        value["spec"][key] = field.clone();
    }
    if !namespace.is_empty() {
        value["metadata"]["namespace"] = namespace.into();
    }
    stage.seed(resource, value);
}

async fn wait_binding(stage: &Stage, what: &str, is_as_wanted: impl Fn(&Object) -> bool) -> Arc<Object> {
    stage.wait(RESOURCE_BINDINGS, "a", "web-deployment", what, is_as_wanted).await
}

async fn wait_template(stage: &Stage, what: &str, is_as_wanted: impl Fn(&Object) -> bool) -> Arc<Object> {
    stage.wait(DEPLOYMENTS, "a", "web", what, is_as_wanted).await
}

fn stage() -> Stage {
    Stage::of_templates(Features::default())
}

#[tokio::test(start_paused = true)]
async fn a_template_is_claimed_and_bound_with_two_writes() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    let binding = wait_binding(&stage, "bound", |_| true).await;
    stage.settle().await;
    let template = wait_template(&stage, "claimed", |template| template.label(PP_ID) == Some("id-p")).await;
    assert_eq!(binding.str_at(&["spec", "resource", "resourceVersion"]), template.resource_version());
    assert_eq!(binding.i64_at(&["spec", "replicas"]), Some(2));
    assert_eq!(binding.get(&["spec", "placement"]), Some(&json!({"clusterAffinity": {"clusterNames": ["m1"]}})));
    assert_eq!(binding.owner_references()[0].uid, template.uid());
    assert_eq!(stage.writes(), ["patch deployments a/web", "create resourcebindings a/"]);
    assert_eq!(stage.reasons("Deployment", "web").await, ["ApplyPolicySucceed", "GetReplicasSucceed"]);
}

#[tokio::test(start_paused = true)]
async fn templates_wait_for_a_policy_that_selects_them() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_deployment(&stage, "b", "web");
    stage.start(run);
    stage.settle().await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    seed_policy(
        &stage,
        "a",
        "p",
        json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": {"matchLabels": {"app": "web"}}}]}),
    );
    wait_binding(&stage, "bound", |_| true).await;
    seed_deployment(&stage, "a", "later");
    seed_policy(&stage, "", "c", json!({}));
    let binding = stage.wait(RESOURCE_BINDINGS, "a", "later-deployment", "bound", |_| true).await;
    assert_eq!(binding.label(CPP_ID), Some("id-c"));
    stage.wait(RESOURCE_BINDINGS, "b", "web-deployment", "bound", |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn cluster_wide_templates_get_cluster_wide_bindings() {
    let mut stage = stage();
    stage.seed(NAMESPACES, json!({"metadata": {"name": "shop"}}));
    let selectors = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "shop"}]);
    seed_policy(&stage, "", "c", json!({"resourceSelectors": selectors}));
    stage.start(run);
    let binding = stage.wait(CLUSTER_RESOURCE_BINDINGS, "", "shop-namespace", "bound", |_| true).await;
    assert_eq!(binding.annotation("clusterpropagationpolicy.karmada.io/name"), Some("c"));
}

#[tokio::test(start_paused = true)]
async fn objects_that_must_not_propagate_are_not_bound() {
    let mut stage = stage();
    for namespace in ["kube-system", "karmada-system", "karmada-cluster", "karmada-es-m1"] {
        seed_deployment(&stage, namespace, "web");
    }
    seed_deployment(&stage, "a", "taken");
    stage.patch(DEPLOYMENTS, "a", "taken", json!({"metadata": {"labels": {LABEL_CLAIMED_BY: "Other"}}})).await;
    let before = stage.writes().len();
    seed_policy(&stage, "", "c", json!({}));
    seed_deployment(&stage, "a", "web");
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    stage.settle().await;
    let writes = &stage.writes()[before..];
    // The one that makes the kind known has a policy too.
    assert!(writes.iter().all(|write| write.contains(" a/web") || write.contains("create") || write.contains("known")));
    assert!(!writes.iter().any(|write| write.contains("kar") || write.contains("kube") || write.contains("taken")));
}

#[tokio::test(start_paused = true)]
async fn only_user_changes_of_a_template_reach_its_binding() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    stage.settle().await;
    let before = stage.writes().len();
    stage.patch_status(DEPLOYMENTS, "a", "web", json!({"readyReplicas": 2})).await;
    stage.settle().await;
    assert_eq!(stage.writes().len(), before + 1, "the status alone");
    stage.patch(DEPLOYMENTS, "a", "web", json!({"spec": {"replicas": 5}})).await;
    wait_binding(&stage, "scaled", |binding| binding.i64_at(&["spec", "replicas"]) == Some(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_policy_updates_its_bindings() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    let elsewhere = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}});
    stage.patch(PROPAGATION_POLICIES, "a", "p", elsewhere.clone()).await;
    let moved = |binding: &Object| binding.get(&["spec", "placement"]) == elsewhere["spec"].get("placement");
    let binding = wait_binding(&stage, "moved", moved).await;

    // A template that is no longer selected is released, and stays where it is.
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}]);
    stage.patch(PROPAGATION_POLICIES, "a", "p", json!({"spec": {"resourceSelectors": selectors}})).await;
    wait_template(&stage, "free", |template| template.label(PP_ID).is_none()).await;
    let freed = wait_binding(&stage, "free", |binding| binding.label(PP_ID).is_none()).await;
    assert_eq!(freed.get(&["spec"]), binding.get(&["spec"]));
    assert_eq!(freed.annotation("propagationpolicy.karmada.io/name"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_policy_releases_its_templates_to_the_next() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    seed_policy(&stage, "a", "q", json!({"placement": {"clusterAffinity": {"clusterNames": ["m9"]}}}));
    stage.start(run);
    wait_binding(&stage, "bound", |binding| binding.label(PP_ID) == Some("id-p")).await;
    stage.delete(PROPAGATION_POLICIES, "a", "p").await;
    stage.wait_gone(PROPAGATION_POLICIES, "a", "p").await;
    wait_binding(&stage, "claimed by the next", |binding| {
        binding.label(PP_ID) == Some("id-q") && binding.get(&["spec", "placement", "clusterAffinity"]).is_some()
    })
    .await;
    wait_template(&stage, "claimed by the next", |template| template.label(PP_ID) == Some("id-q")).await;
    stage.delete(PROPAGATION_POLICIES, "a", "q").await;
    stage.wait_gone(PROPAGATION_POLICIES, "a", "q").await;
    stage.settle().await;
    let binding = wait_binding(&stage, "still there", |binding| binding.label(PP_ID).is_none()).await;
    assert!(!binding.is_deleting());
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_selects_policies_claims_none_and_can_be_deleted() {
    let mut stage = stage();
    let selectors = json!([{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}]);
    seed_policy(&stage, "a", "p", json!({"resourceSelectors": selectors, "preemption": "Always"}));
    seed_policy(&stage, "a", "q", json!({}));
    stage.start(run);
    stage.settle().await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    stage.delete(PROPAGATION_POLICIES, "a", "p").await;
    stage.wait_gone(PROPAGATION_POLICIES, "a", "p").await;
    let writes = stage.writes();
    let released = writes.iter().filter(|write| write.starts_with("patch") || write.starts_with("update"));
    assert_eq!(released.count(), 1, "only the finalizer is removed: {writes:?}");
    assert!(stage.find(PROPAGATION_POLICIES, "a", "q").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_missing_policy_is_released() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    let claim = json!({"metadata": {"labels": {PP_ID: "id-gone"}, "annotations":
        {"propagationpolicy.karmada.io/namespace": "a", "propagationpolicy.karmada.io/name": "gone"}}});
    stage.patch(DEPLOYMENTS, "a", "web", claim).await;
    seed_policy(&stage, "", "c", json!({}));
    stage.start(run);
    let binding = wait_binding(&stage, "bound", |_| true).await;
    assert_eq!((binding.label(PP_ID), binding.label(CPP_ID)), (None, Some("id-c")));
}

#[tokio::test(start_paused = true)]
async fn a_lazy_policy_waits_for_the_template_to_change() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    stage.start(run);
    stage.settle().await;
    seed_policy(&stage, "a", "p", json!({"activationPreference": "Lazy"}));
    wait_template(&stage, "claimed", |template| template.label(PP_ID) == Some("id-p")).await;
    stage.settle().await;
    assert!(stage.find(RESOURCE_BINDINGS, "a", "web-deployment").await.is_none());
    stage.patch(DEPLOYMENTS, "a", "web", json!({"spec": {"replicas": 3}})).await;
    wait_binding(&stage, "activated", |_| true).await;

    let elsewhere = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}});
    stage.patch(PROPAGATION_POLICIES, "a", "p", elsewhere.clone()).await;
    stage.settle().await;
    let unmoved = |binding: &Object| binding.get(&["spec", "placement"]) != elsewhere["spec"].get("placement");
    wait_binding(&stage, "not yet", unmoved).await;
    stage.patch(DEPLOYMENTS, "a", "web", json!({"spec": {"replicas": 4}})).await;
    wait_binding(&stage, "activated again", |binding| !unmoved(binding)).await;

    // A template that comes after its policy is new to it.
    seed_deployment(&stage, "a", "later");
    stage.wait(RESOURCE_BINDINGS, "a", "later-deployment", "bound", |_| true).await;
}

fn preempting() -> Stage {
    Stage::of_templates(Features { policy_preemption: true, ..Features::default() })
}

fn named(priority: i32, preemption: &str) -> Value {
    json!({"priority": priority, "preemption": preemption,
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "web"}]})
}

#[tokio::test(start_paused = true)]
async fn a_claim_holds_against_a_better_policy_unless_that_preempts() {
    let mut stage = preempting();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "", "c", named(5, "Never"));
    stage.start(run);
    wait_binding(&stage, "bound", |binding| binding.label(CPP_ID) == Some("id-c")).await;
    seed_policy(&stage, "a", "polite", named(9, "Never"));
    stage.settle().await;
    wait_template(&stage, "still held", |template| template.label(CPP_ID) == Some("id-c")).await;
    seed_policy(&stage, "a", "p", named(3, "Always"));
    let binding = wait_binding(&stage, "taken", |binding| binding.label(PP_ID) == Some("id-p")).await;
    assert_eq!(binding.label(CPP_ID), None);
    // The same priority is not enough, and a lowered one lets a rival in.
    seed_policy(&stage, "a", "rival", named(2, "Always"));
    seed_policy(&stage, "a", "equal", named(3, "Always"));
    stage.settle().await;
    wait_template(&stage, "still held", |template| template.label(PP_ID) == Some("id-p")).await;
    stage.patch(PROPAGATION_POLICIES, "a", "p", json!({"spec": {"priority": 1}})).await;
    wait_binding(&stage, "taken by the rival", |binding| binding.label(PP_ID) == Some("id-rival")).await;
    let reasons = stage.reasons("Deployment", "web").await;
    assert!(reasons.contains(&"PreemptPolicySucceed".to_owned()), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn no_policy_preempts_while_the_feature_gate_is_disabled() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "", "c", named(5, "Never"));
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    seed_policy(&stage, "a", "p", named(9, "Always"));
    stage.settle().await;
    wait_template(&stage, "still held", |template| template.label(CPP_ID) == Some("id-c")).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_bound_before_its_override_policies_exist() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({"dependentOverrides": ["o"]}));
    stage.start(run);
    stage.settle().await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    stage.seed(OVERRIDE_POLICIES, json!({"metadata": {"namespace": "b", "name": "o"}}));
    stage.settle().await;
    assert!(stage.writes().is_empty(), "one of another namespace does not count");
    stage.seed(OVERRIDE_POLICIES, json!({"metadata": {"namespace": "a", "name": "o"}}));
    wait_binding(&stage, "bound", |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_only_what_changed_meanwhile() {
    let mut stage = stage();
    for name in ["web", "db"] {
        seed_deployment(&stage, "a", name);
    }
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    stage.settle().await;
    stage.patch_status(DEPLOYMENTS, "a", "web", json!({"readyReplicas": 2})).await;
    stage.stop();
    let before = stage.writes();
    stage.start(run);
    stage.settle().await;
    assert_eq!(stage.writes(), before);

    stage.stop();
    let elsewhere = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    stage.patch(PROPAGATION_POLICIES, "a", "p", json!({"spec": {"placement": elsewhere}})).await;
    stage.patch(DEPLOYMENTS, "a", "db", json!({"spec": {"replicas": 7}})).await;
    stage.start(run);
    wait_binding(&stage, "moved", |binding| binding.get(&["spec", "placement"]) == Some(&elsewhere)).await;
    let scaled = |binding: &Object| binding.i64_at(&["spec", "replicas"]) == Some(7);
    stage.wait(RESOURCE_BINDINGS, "a", "db-deployment", "scaled", scaled).await;

    // A selector that changed meanwhile frees what it does not name any more.
    stage.stop();
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"}]);
    stage.patch(PROPAGATION_POLICIES, "a", "p", json!({"spec": {"resourceSelectors": selectors}})).await;
    stage.start(run);
    wait_template(&stage, "free", |template| template.label(PP_ID).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_binding_is_recreated_while_its_template_exists() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    let first = wait_binding(&stage, "bound", |_| true).await;
    stage.delete(RESOURCE_BINDINGS, "a", "web-deployment").await;
    stage.settle().await;
    stage.patch(RESOURCE_BINDINGS, "a", "web-deployment", json!({"metadata": {"finalizers": null}})).await;
    wait_binding(&stage, "created again", |binding| binding.uid() != first.uid()).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_being_deleted_gets_no_new_binding() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    stage.patch(DEPLOYMENTS, "a", "web", json!({"metadata": {"finalizers": ["foregroundDeletion"]}})).await;
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    stage.delete(DEPLOYMENTS, "a", "web").await;
    stage.settle().await;
    stage.delete(RESOURCE_BINDINGS, "a", "web-deployment").await;
    stage.patch(RESOURCE_BINDINGS, "a", "web-deployment", json!({"metadata": {"finalizers": null}})).await;
    stage.settle().await;
    assert!(stage.find(RESOURCE_BINDINGS, "a", "web-deployment").await.is_none());
    assert!(!stage.reasons("Deployment", "web").await.contains(&"ApplyPolicyFailed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_recreated_template_waits_until_its_old_binding_is_deleted() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
    stage.delete(DEPLOYMENTS, "a", "web").await;
    seed_deployment(&stage, "a", "web");
    let template = wait_template(&stage, "claimed", |template| template.label(PP_ID).is_some()).await;
    stage.settle().await;
    wait_binding(&stage, "the old one", |binding| binding.owner_references()[0].uid != template.uid()).await;
    assert!(stage.reasons("Deployment", "web").await.contains(&"ApplyPolicyFailed".to_owned()));
    // As the garbage collector and the binding controller do.
    stage.delete(RESOURCE_BINDINGS, "a", "web-deployment").await;
    stage.patch(RESOURCE_BINDINGS, "a", "web-deployment", json!({"metadata": {"finalizers": null}})).await;
    wait_binding(&stage, "the new one", |binding| binding.owner_references()[0].uid == template.uid()).await;
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried() {
    let mut stage = stage();
    seed_deployment(&stage, "a", "web");
    seed_policy(&stage, "a", "p", json!({}));
    let failures = std::sync::atomic::AtomicUsize::new(0);
    stage.api.set_fault(move |call| {
        let is_write = !matches!(call.request, ApiRequest::Get { .. } | ApiRequest::List(_));
        let count = failures.fetch_add(usize::from(is_write), std::sync::atomic::Ordering::Relaxed);
        match (is_write, count) {
            (true, 0) => Some(Status::new(409, "Conflict", "another writer was first")),
            (true, 1..4) => Some(Status::unavailable("the store is away")),
            _ => None,
        }
    });
    stage.start(run);
    wait_binding(&stage, "bound", |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_kinds_served_later_are_propagated() {
    const WIDGETS: api::Resource = api::Resource::namespaced("example.com", "v1", "Widget", "widgets");
    let mut stage = stage();
    seed_policy(&stage, "", "c", json!({"resourceSelectors": [{"apiVersion": "example.com/v1", "kind": "Widget"}]}));
    stage.start(run);
    stage.settle().await;
    stage.seed(WIDGETS, json!({"metadata": {"namespace": "a", "name": "w"}}));
    stage.wait(RESOURCE_BINDINGS, "a", "w-widget", "bound", |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn the_priority_class_of_a_policy_is_looked_up() {
    const CLASSES: api::Resource =
        api::Resource::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
    let mut stage = Stage::of_templates(Features { priority_based_scheduling: true, ..Features::default() });
    seed_deployment(&stage, "a", "web");
    let wanted = json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"});
    seed_policy(&stage, "a", "p", json!({"schedulePriority": wanted}));
    stage.start(run);
    stage.settle().await;
    assert!(stage.find(RESOURCE_BINDINGS, "a", "web-deployment").await.is_none(), "the class is not there yet");
    stage.seed(CLASSES, json!({"metadata": {"name": "high"}, "value": 1000}));
    let binding = wait_binding(&stage, "bound", |_| true).await;
    assert_eq!(binding.i64_at(&["spec", "schedulePriority", "priority"]), Some(1000));
}
