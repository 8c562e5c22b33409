//! Dispatch of slices with the API in memory, with forged ones among them.

use api::networking::SERVICE_NAMESPACE;
use api::work::WORKS;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Stage, collected, eventually};

fn labels() -> Value {
    json!({SERVICE_NAME: "web", SERVICE_NAMESPACE: "shop", "endpointslice.karmada.io/managed-by": "MultiClusterService"})
}

fn slice(cluster: &str, name: &str) -> Value {
    collected(cluster, name, labels(), &[FINALIZER_SLICE_DISPATCH])
}

async fn started() -> Stage {
    let stage = Stage::start(&["m1", "m2", "m3"]);
    stage.seed_service(json!({"types": ["CrossCluster"], "providerClusters": [{"name": "m1"}],
        "consumerClusters": [{"name": "m2"}, {"name": "gone"}]}));
    stage.seed_work(slice("m1", "web-1"));
    eventually("dispatched", async || stage.find_work("m2", "EndpointSlice", "web-1").await.is_some()).await;
    stage
}

#[tokio::test(start_paused = true)]
async fn slices_follow_their_source_and_are_deleted_with_it() {
    let stage = started().await;
    let expected = "True/EndpointSliceDispatchedSucceed";
    eventually("reported", async || stage.condition("EndpointSliceDispatched").await == expected).await;
    let source = slice("m1", "web-1");
    let (namespace, name) = ("karmada-es-m1", source["metadata"]["name"].as_str().expect("a name").to_owned());
    let mut manifests = source["spec"]["workload"]["manifests"].clone();
    manifests[0]["endpoints"] = json!([{"addresses": ["10.0.0.9"]}]);
    stage.change(&WORKS.gvr(), namespace, &name, json!({"spec": {"workload": {"manifests": manifests}}})).await;
    eventually("followed", async || {
        let work = stage.find_work("m2", "EndpointSlice", "web-1").await.expect("there");
        work.items(&["spec", "workload", "manifests"])[0]["endpoints"][0]["addresses"][0] == "10.0.0.9"
    })
    .await;
    // A consumer more, a consumer less.
    let consumers = json!({"spec": {"consumerClusters": [{"name": "m3"}]}});
    stage.change(&MULTI_CLUSTER_SERVICES.gvr(), "shop", "web", consumers).await;
    eventually("moved", async || stage.find_work("m3", "EndpointSlice", "web-1").await.is_some()).await;
    eventually("left", async || {
        stage.find_work("m2", "EndpointSlice", "web-1").await.is_none_or(|work| work.is_deleting())
    })
    .await;
    stage.delete(&WORKS.gvr(), namespace, &name).await;
    eventually("source released", async || stage.find(&WORKS.gvr(), namespace, &name).await.is_none()).await;
    let copy = stage.find_work("m3", "EndpointSlice", "web-1").await;
    assert!(copy.is_none_or(|work| work.is_deleting()), "member-sync removes it from the member first");
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_no_longer_provided_loses_its_copies_but_not_its_export() {
    let stage = started().await;
    let name = slice("m1", "web-1")["metadata"]["name"].as_str().expect("a name").to_owned();
    let relabelled = json!({"metadata": {"labels": {SERVICE_NAME: null, SERVICE_NAMESPACE: null,
        "endpointslice.karmada.io/managed-by": "ServiceExport"}}});
    stage.change(&WORKS.gvr(), "karmada-es-m1", &name, relabelled).await;
    eventually("removed", async || {
        stage.find_work("m2", "EndpointSlice", "web-1").await.is_none_or(|work| work.is_deleting())
    })
    .await;
    eventually("released", async || {
        let work = stage.find(&WORKS.gvr(), "karmada-es-m1", &name).await.expect("stays");
        !work.has_finalizer(FINALIZER_SLICE_DISPATCH)
    })
    .await;
}

/// The agent of m3 writes what it likes into its own execution namespace.
#[tokio::test(start_paused = true)]
async fn a_member_cannot_reach_others_with_slices_it_does_not_provide() {
    let stage = started().await;
    stage.seed_work(slice("m3", "web-9"));
    let mut disguised = slice("m3", "web-8");
    disguised["metadata"]["annotations"] = json!({"endpointslice.karmada.io/provision-cluster": "m1"});
    stage.seed_work(disguised);
    // Deleted in the name of m1: its copies must stay.
    let mut forged = slice("m3", "web-1");
    forged["metadata"]["annotations"] = json!({"endpointslice.karmada.io/provision-cluster": "m3"});
    stage.seed_work(forged);
    stage.seed_work(slice("m1", "web-2"));
    eventually("later slices arrive", async || stage.find_work("m2", "EndpointSlice", "web-2").await.is_some()).await;
    let reached = stage.names(&WORKS.gvr()).await;
    let reached: Vec<&String> = reached.iter().filter(|name| name.starts_with("karmada-es-m2/")).collect();
    assert_eq!(reached.len(), 2, "{reached:?}");
    let copy = stage.find_work("m2", "EndpointSlice", "web-1").await.expect("stays");
    assert!(!copy.is_deleting());
}
