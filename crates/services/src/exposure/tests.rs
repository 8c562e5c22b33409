//! MultiClusterServices from creation to deletion with the API in memory.

use serde_json::json;

use super::*;
use crate::testing::{Stage, collected, eventually};
use api::networking::{FINALIZER_SLICE_DISPATCH, SERVICE_NAME, SERVICE_NAMESPACE};

const KIND: &str = "MultiClusterService";

fn spec(providers: &[&str], consumers: &[&str]) -> serde_json::Value {
    let list = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    json!({"types": ["CrossCluster"], "providerClusters": list(providers), "consumerClusters": list(consumers)})
}

#[tokio::test(start_paused = true)]
async fn a_service_is_claimed_bound_and_collected_in_its_providers() {
    let stage = Stage::start(&["m1", "m2", "m3"]);
    stage.seed_service(spec(&["m1"], &["m2"]));
    eventually("applied", async || stage.condition("ServiceApplied").await == "True/ServiceAppliedSucceed").await;
    assert!(stage.find_work("m1", KIND, "web").await.is_some());
    assert!(stage.find_work("m2", KIND, "web").await.is_none(), "m2 does not provide it");
    let binding = stage.find(&RESOURCE_BINDINGS.gvr(), "shop", "web-service").await.expect("bound");
    assert_eq!(binding.get(&["spec", "placement", "clusterAffinity", "clusterNames"]), Some(&json!(["m1", "m2"])));
    let service = stage.find(&builtin::services(), "shop", "web").await.expect("there");
    assert_eq!(service.label("resourcetemplate.karmada.io/claimed-by"), Some(KIND));

    // Its providers change: the Work and what was collected in the former one go.
    let labels = json!({SERVICE_NAME: "web", SERVICE_NAMESPACE: "shop", "endpointslice.karmada.io/managed-by": KIND});
    stage.seed_work(collected("m1", "web-1", labels, &[FINALIZER_SLICE_DISPATCH]));
    stage.change(&MULTI_CLUSTER_SERVICES.gvr(), "shop", "web", json!({"spec": spec(&["m3"], &["m2"])})).await;
    eventually("moved", async || stage.find_work("m3", KIND, "web").await.is_some()).await;
    eventually("removed", async || stage.find_work("m1", KIND, "web").await.is_none()).await;
    eventually("slices removed", async || stage.find_work("m1", "EndpointSlice", "web-1").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_deletes_its_works_and_claim_but_not_its_binding() {
    let stage = Stage::start(&["m1", "m2"]);
    stage.seed_service(spec(&[], &[]));
    eventually("collected", async || stage.find_work("m2", KIND, "web").await.is_some()).await;
    eventually("applied", async || stage.condition("ServiceApplied").await == "True/ServiceAppliedSucceed").await;
    // A new cluster provides it too.
    stage.join("m3");
    eventually("collected in the new one", async || stage.find_work("m3", KIND, "web").await.is_some()).await;
    stage.delete(&MULTI_CLUSTER_SERVICES.gvr(), "shop", "web").await;
    eventually("gone", async || stage.find(&MULTI_CLUSTER_SERVICES.gvr(), "shop", "web").await.is_none()).await;
    for cluster in ["m1", "m2", "m3"] {
        assert!(stage.find_work(cluster, KIND, "web").await.is_none(), "{cluster}");
    }
    let service = stage.find(&builtin::services(), "shop", "web").await.expect("stays");
    assert_eq!(service.labels().count(), 0);
    let binding = stage.find(&RESOURCE_BINDINGS.gvr(), "shop", "web-service").await.expect("stays");
    assert_eq!(binding.label("binding.karmada.io/managed-by"), None);
}

#[tokio::test(start_paused = true)]
async fn a_missing_service_and_a_reserved_namespace_are_conditions() {
    let stage = Stage::start(&["m1"]);
    stage.seed_service(spec(&[], &[]));
    eventually("applied", async || stage.condition("ServiceApplied").await == "True/ServiceAppliedSucceed").await;
    stage.delete(&builtin::services(), "shop", "web").await;
    eventually("failed", async || stage.condition("ServiceApplied").await == "False/ServiceAppliedFailed").await;
    let reserved = crate::testing::object(json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": KIND,
        "metadata": {"name": "dns", "namespace": "kube-system"}, "spec": spec(&[], &[])}));
    stage.api.seed(&MULTI_CLUSTER_SERVICES.gvr(), reserved);
    eventually("refused", async || {
        let service = stage.find(&MULTI_CLUSTER_SERVICES.gvr(), "kube-system", "dns").await.expect("there");
        object::conditions::find(&service, "ServiceApplied").is_some_and(|c| c.message().contains("are not propagated"))
    })
    .await;
    assert!(stage.names(&api::work::WORKS.gvr()).await.iter().all(|name| !name.contains("dns")));
}
