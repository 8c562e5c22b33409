//! Import of exported slices with the API in memory, with forged ones among them.

use api::networking::{LABEL_SLICE_NAME, LABEL_SLICE_NAMESPACE};
use api::work::WORKS;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Stage, collected, eventually, object};

fn labels() -> Value {
    json!({LABEL_SLICE_NAME: "web", LABEL_SLICE_NAMESPACE: "shop", "endpointslice.karmada.io/managed-by": "ServiceExport",
        "work.karmada.io/permanent-id": "same-id"})
}

fn slice(cluster: &str, name: &str) -> Value {
    collected(cluster, name, labels(), &[FINALIZER_SLICES])
}

fn binding(clusters: &[&str]) -> Object {
    let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    object(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-serviceexport", "namespace": "shop"},
        "spec": {"clusters": clusters, "resource": {"apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ServiceExport", "namespace": "shop", "name": "web"}}}))
}

async fn imported(stage: &Stage) -> Vec<String> {
    stage.names(&builtin::endpoint_slices()).await
}

#[tokio::test(start_paused = true)]
async fn exported_slices_are_imported_and_deleted_with_their_export() {
    let stage = Stage::start(&["m1"]);
    stage.api.seed(&RESOURCE_BINDINGS.gvr(), binding(&["m1"]));
    stage.seed_work(slice("m1", "web-1"));
    eventually("imported", async || imported(&stage).await == ["shop/imported-m1-web-1"]).await;
    let name = slice("m1", "web-1")["metadata"]["name"].as_str().expect("a name").to_owned();
    // Its member exports it no more, but a MultiClusterService still collects it.
    let patch = json!({"metadata": {"labels": {LABEL_SLICE_NAME: null, LABEL_SLICE_NAMESPACE: null}}});
    stage.change(&WORKS.gvr(), "karmada-es-m1", &name, patch).await;
    eventually("removed", async || imported(&stage).await.is_empty()).await;
    eventually("released", async || {
        let work = stage.find(&WORKS.gvr(), "karmada-es-m1", &name).await.expect("stays");
        !work.has_finalizer(FINALIZER_SLICES)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn slices_of_clusters_outside_the_export_are_not_imported() {
    let stage = Stage::start(&["m1", "m2"]);
    stage.seed_work(slice("m2", "web-1"));
    stage.seed_work(slice("m1", "web-1"));
    stage.api.seed(&RESOURCE_BINDINGS.gvr(), binding(&["m1"]));
    eventually("imported from m1", async || imported(&stage).await == ["shop/imported-m1-web-1"]).await;
    // m2 writes a slice into the name of m1's: imported-m1-web-1.
    let user = object(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "imported-m1-web-2", "namespace": "shop"}}));
    stage.api.seed(&builtin::endpoint_slices(), user);
    stage.seed_work(slice("m1", "web-2"));
    stage.seed_work(slice("m1", "web-3"));
    eventually("later slices arrive", async || imported(&stage).await.contains(&"shop/imported-m1-web-3".to_owned()))
        .await;
    let kept = stage.find(&builtin::endpoint_slices(), "shop", "imported-m1-web-2").await.expect("a user's");
    assert!(kept.get(&["endpoints"]).is_none(), "it is left alone");

    // A Work of m2 with the id of m1's Work: its deletion removes nothing of m1.
    let forged = slice("m2", "web-1")["metadata"]["name"].as_str().expect("a name").to_owned();
    stage.delete(&WORKS.gvr(), "karmada-es-m2", &forged).await;
    eventually("released", async || stage.find(&WORKS.gvr(), "karmada-es-m2", &forged).await.is_none()).await;
    assert!(imported(&stage).await.contains(&"shop/imported-m1-web-1".to_owned()));

    // The export goes elsewhere; the Works stay, as a hostile agent would leave them.
    stage.change(&RESOURCE_BINDINGS.gvr(), "shop", "web-serviceexport", json!({"spec": {"clusters": []}})).await;
    eventually("removed", async || imported(&stage).await == ["shop/imported-m1-web-2"]).await;
}
