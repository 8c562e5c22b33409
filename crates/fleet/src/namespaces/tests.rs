//! Namespaces that come to members, as Works on an API in memory.

use std::time::Duration;

use api::work::WORKS;
use cluster_client::testing::MemoryApi;
use cluster_client::{DeleteOptions, ResourceRef};
use object::request::Subresource;
use serde_json::{Value, json};

use super::*;
use crate::plane::namespaces;
use crate::testing::{self, eventually};

fn start(api: &MemoryApi) -> CancellationToken {
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(api, &cancel, |_| {}), cancel.clone()));
    cancel
}

/// The works there are, as `cluster/namespace`.
async fn works(api: &MemoryApi) -> Vec<String> {
    let works = api.client().list_all(ResourceRef::all(&WORKS.gvr()), Default::default()).await.expect("lists").items;
    let described = |work: &Arc<Object>| {
        let cluster = cluster_of_execution_namespace(work.namespace()).unwrap_or_default();
        format!("{cluster}/{}", manifest(work)["metadata"]["name"].as_str().unwrap_or_default())
    };
    works.iter().map(described).collect()
}

fn manifest(work: &Object) -> &Value {
    &work.items(&["spec", "workload", "manifests"])[0]
}

async fn work(api: &MemoryApi, cluster: &str, namespace: &str) -> Arc<Object> {
    let name = api::names::work_name("Namespace", namespace, "");
    let target = ResourceRef::namespaced(&WORKS.gvr(), &api::names::execution_namespace(cluster), &name);
    api.client().get(target).await.expect("there")
}

#[tokio::test(start_paused = true)]
async fn every_namespace_is_synced_to_every_cluster() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    api.seed(&namespaces(), testing::namespace("a"));
    api.seed(&namespaces(), testing::namespace("kube-system"));
    let cancel = start(&api);
    eventually("a in m1", async || works(&api).await == ["m1/a"]).await;
    api.seed(&namespaces(), testing::namespace("b"));
    eventually("b too", async || works(&api).await == ["m1/a", "m1/b"]).await;
    testing::seed_member(&api, "m2");
    eventually("both in m2", async || works(&api).await == ["m1/a", "m1/b", "m2/a", "m2/b"]).await;

    let carried = work(&api, "m1", "a").await;
    let owner = &carried.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.controller), ("Namespace", "a", true));
    assert!(carried.has_finalizer("karmada.io/execution-controller"));
    assert_eq!(manifest(&carried)["metadata"]["labels"]["karmada.io/managed"], "true");

    let mut labelled = testing::namespace("a");
    labelled.set_label("team", "x");
    let target = ResourceRef::cluster(&namespaces(), "a");
    api.client().update(target, labelled, Default::default()).await.expect("written");
    eventually("the label arrives", async || {
        manifest(&*work(&api, "m2", "a").await)["metadata"]["labels"]["team"] == "x"
    })
    .await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_an_existing_namespace_is_synced() {
    let api = MemoryApi::default();
    api.seed(&namespaces(), testing::namespace("a"));
    api.seed(&namespaces(), testing::namespace("karmada-es-m1"));
    let cancel = start(&api);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(works(&api).await.is_empty());
    api.seed(&api::cluster::CLUSTERS.gvr(), testing::cluster("m1", "True"));
    eventually("a in m1", async || works(&api).await == ["m1/a"]).await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_status_change_alone_causes_no_request() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    api.seed(&namespaces(), testing::namespace("a"));
    let cancel = start(&api);
    eventually("a in m1", async || works(&api).await == ["m1/a"]).await;
    let asked = || api.calls().iter().filter(|call| call.contains(" works ")).count();
    let before = asked();
    let active = cluster_client::Patch::merge(json!({"status": {"phase": "Active"}}));
    let target = ResourceRef::cluster(&namespaces(), "a").subresource(Subresource::Status);
    api.client().patch(target, active, Default::default()).await.expect("written");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(asked(), before);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn override_policies_apply_to_namespaces_in_selected_clusters() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    testing::seed_member(&api, "m2");
    api.seed(&namespaces(), testing::namespace("a"));
    let cancel = start(&api);
    eventually("a in both", async || works(&api).await == ["m1/a", "m2/a"]).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterOverridePolicy",
        "metadata": {"name": "p"}, "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "a"}],
        "overrideRules": [{"targetCluster": {"clusterNames": ["m2"]},
            "overriders": {"labelsOverrider": [{"operator": "add", "value": {"tier": "far"}}]}}]}});
    api.seed(&CLUSTER_OVERRIDE_POLICIES.gvr(), testing::object(policy));
    let tier = async |cluster: &str| {
        manifest(&*work(&api, cluster, "a").await)["metadata"]["labels"]["tier"].as_str().map(str::to_owned)
    };
    eventually("the label in m2", async || tier("m2").await.as_deref() == Some("far")).await;
    assert_eq!(tier("m1").await, None);
    assert!(work(&api, "m2", "a").await.annotation(ANNOTATION_APPLIED_CLUSTER_OVERRIDES).is_some());
    assert!(work(&api, "m1", "a").await.annotation(ANNOTATION_APPLIED_CLUSTER_OVERRIDES).is_none());
    eventually("the event", async || testing::event_reasons(&api).await == ["ApplyOverridePolicySucceed"]).await;
    let target = ResourceRef::cluster(&CLUSTER_OVERRIDE_POLICIES.gvr(), "p");
    api.client().delete(target, DeleteOptions::default()).await.expect("deleted");
    eventually("no label", async || tier("m2").await.is_none()).await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_rejects_a_namespace_blocks_no_other() {
    let api = MemoryApi::default();
    for cluster in ["m1", "m2", "m3"] {
        testing::seed_member(&api, cluster);
    }
    api.set_fault(|call| {
        let is_refused = call.target.namespace.as_deref() == Some("karmada-es-m2");
        is_refused.then(|| object::Status::unavailable("not now"))
    });
    let cancel = start(&api);
    api.seed(&namespaces(), testing::namespace("a"));
    eventually("the others", async || works(&api).await == ["m1/a", "m3/a"]).await;
    api.clear_fault();
    eventually("all", async || works(&api).await == ["m1/a", "m2/a", "m3/a"]).await;
    cancel.cancel();
}
