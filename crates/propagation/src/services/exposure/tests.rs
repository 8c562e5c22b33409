//! Clusters, Works, claims and bindings of a MultiClusterService.

use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn mcs(spec: Value) -> Object {
    object(json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "shop", "uid": "mcs-uid", "resourceVersion": "7",
            "finalizers": [api::networking::FINALIZER_SERVICE], "labels": {LABEL_SERVICE_ID: "id-1"}},
        "spec": spec, "status": {"conditions": []}}))
}

fn service() -> Object {
    object(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop",
        "uid": "svc-uid", "resourceVersion": "3", "labels": {"app": "web", "propagationpolicy.karmada.io/permanent-id": "p"},
        "annotations": {"propagationpolicy.karmada.io/name": "p", "propagationpolicy.karmada.io/namespace": "shop"}}}))
}

#[track_caller]
fn check_clusters(spec: Value, providers: &[&str], consumers: &[&str]) {
    let all = ["m1", "m2", "m3"].map(str::to_owned).into();
    let clusters = Clusters::of(&mcs(spec), &all).expect("readable");
    assert_eq!(clusters.providers.iter().collect::<Vec<_>>(), providers);
    assert_eq!(clusters.consumers.iter().collect::<Vec<_>>(), consumers);
}

#[test]
fn an_empty_list_of_clusters_means_all() {
    check_clusters(json!({"types": ["CrossCluster"]}), &["m1", "m2", "m3"], &["m1", "m2", "m3"]);
    let named = json!({"types": ["CrossCluster"], "providerClusters": [{"name": "m2"}, {"name": "gone"}],
        "consumerClusters": [{"name": "m1"}]});
    check_clusters(named, &["gone", "m2"], &["m1"]);
}

#[test]
fn a_cluster_concerns_services_that_name_it_or_all() {
    for (spec, cluster, expected) in [
        (json!({"types": ["CrossCluster"]}), "m9", true),
        (json!({"types": ["LoadBalancer"]}), "m9", false),
        (
            json!({"types": ["CrossCluster"], "providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]}),
            "m2",
            true,
        ),
        (
            json!({"types": ["CrossCluster"], "providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]}),
            "m3",
            false,
        ),
    ] {
        assert_eq!(concerns(&mcs(spec.clone()), cluster), expected, "{spec} {cluster}");
    }
}

#[test]
fn ineligible_clusters_are_reported_with_the_text_of_karmada() {
    let cluster = |ready: &str, complete: &str, kind: &str| {
        object(json!({"metadata": {"name": "m1"}, "status": {
            "apiEnablements": [{"groupVersion": "discovery.k8s.io/v1", "resources": [{"kind": kind, "name": "x"}]}],
            "conditions": [{"type": "Ready", "status": ready}, {"type": "CompleteAPIEnablements", "status": complete}]}}))
    };
    for (cluster, expected) in [
        (None, Err(Absence::NotFound)),
        (Some(cluster("False", "True", "EndpointSlice")), Err(Absence::NotReady)),
        (Some(cluster("True", "True", "Other")), Err(Absence::Incompatible)),
        (Some(cluster("True", "False", "Other")), Ok(())),
        (Some(cluster("True", "True", "EndpointSlice")), Ok(())),
    ] {
        assert_eq!(check_cluster(cluster.as_ref()), expected);
    }
    assert_eq!(Absence::NotFound.message(Role::Provider, "m1"), "Provider cluster m1 is not found");
    assert_eq!(
        Absence::NotReady.message(Role::Consumer, "m1"),
        "Consumer cluster m1 is not ready, skip to propagate EndpointSlice"
    );
}

#[test]
fn the_work_of_a_provider_is_suspended_and_named_as_karmada_names_it() {
    let desired = provider_work(&mcs(json!({"types": ["CrossCluster"]})), "m1");
    let crate::works::WorkChange::Create(work) = desired.plan(None).expect("plans") else { panic!("it is new") };
    assert_eq!(work.namespace(), "karmada-es-m1");
    assert_eq!(work.name(), api::names::work_name("MultiClusterService", "web", "shop"));
    assert_eq!(work.finalizers().count(), 0);
    assert_eq!(work.bool_at(&["spec", "suspendDispatching"]), Some(true));
    let labels: Vec<_> = work.labels().collect();
    assert_eq!(labels, [(SERVICE_NAME, "web"), (SERVICE_NAMESPACE, "shop"), (LABEL_SERVICE_ID, "id-1")]);
    let manifest = &work.items(&["spec", "workload", "manifests"])[0];
    assert!(manifest["metadata"]["finalizers"].is_null() && manifest["status"].is_null(), "{manifest}");
    assert!(carries_service(&work));
}

#[test]
fn a_claimed_service_belongs_to_no_policy_until_it_is_released() {
    let owner = mcs(json!({}));
    let mut claimed = service();
    claim_service(&mut claimed, &owner);
    let mut labels: Vec<_> = claimed.labels().collect();
    labels.sort_unstable();
    assert_eq!(labels, [("app", "web"), (LABEL_SERVICE_ID, "id-1"), (LABEL_CLAIMED_BY, "MultiClusterService")]);
    let mut annotations: Vec<_> = claimed.annotations().collect();
    annotations.sort_unstable();
    assert_eq!(annotations, [(SERVICE_NAME, "web"), (SERVICE_NAMESPACE, "shop")]);
    assert!(is_claimed(&claimed, &owner));
    release_service(&mut claimed);
    assert_eq!(claimed.labels().collect::<Vec<_>>(), [("app", "web")]);
}

#[test]
fn a_binding_keeps_its_schedule_and_follows_the_clusters() {
    let owner = mcs(json!({}));
    let clusters =
        Clusters { providers: ["m1".to_owned()].into(), consumers: ["m2".to_owned(), "m1".to_owned()].into() };
    let desired = desired_binding(&service(), &owner, &clusters);
    assert_eq!((desired.namespace(), desired.name()), ("shop", "web-service"));
    assert_eq!(desired.get(&["spec", "placement"]), Some(&json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}})));
    assert_eq!(desired.str_at(&["spec", "conflictResolution"]), "Overwrite");
    assert!(!desired.owner_references()[0].controller);

    let mut existing = desired.clone();
    existing.set(&["spec", "clusters"], json!([{"name": "m1"}]));
    existing.set(&["spec", "placement"], json!({}));
    existing.set_label("propagationpolicy.karmada.io/permanent-id", "p");
    let BindingPlan::Update(merged, _) = plan_binding(desired.clone(), Some(&existing)) else { panic!("it differs") };
    assert_eq!(merged.get(&["spec", "clusters"]), Some(&json!([{"name": "m1"}])));
    assert_eq!(merged.label("propagationpolicy.karmada.io/permanent-id"), None);
    assert_eq!(plan_binding(desired.clone(), Some(&merged)), BindingPlan::Unchanged);

    existing.set(&["metadata", "ownerReferences"], json!([{"uid": "earlier", "controller": true}]));
    assert_eq!(plan_binding(desired, Some(&existing)), BindingPlan::WaitForCollection);
    let mut released = merged;
    release_binding(&mut released);
    assert_eq!((released.labels().count(), released.annotations().count()), (0, 0));
}
