//! Derived Services with the API in memory.

use serde_json::json;

use super::*;
use crate::testing::{Stage, eventually, object};

fn import(stage: &Stage, name: &str, kind: &str) {
    let import = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": kind, "ips": ["1.2.3.4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
    stage.api.seed(&SERVICE_IMPORTS.gvr(), object(import));
}

#[tokio::test(start_paused = true)]
async fn a_service_is_derived_and_deleted_with_its_import() {
    let stage = Stage::start(&[]);
    import(&stage, "headless", "Headless");
    import(&stage, "web", "ClusterSetIP");
    let ingress = || async {
        let service = stage.find(&builtin::services(), "shop", "derived-web").await?;
        service.get(&["status", "loadBalancer", "ingress"]).cloned()
    };
    eventually("derived", async || ingress().await == Some(json!([{"ip": "1.2.3.4"}]))).await;
    stage.change(&SERVICE_IMPORTS.gvr(), "shop", "web", json!({"spec": {"ports": [{"port": 81}]}})).await;
    eventually("follows", async || {
        let service = stage.find(&builtin::services(), "shop", "derived-web").await.expect("derived");
        service.get(&["spec", "ports"]) == Some(&json!([{"port": 81}]))
    })
    .await;
    assert!(stage.find(&builtin::services(), "shop", "derived-headless").await.is_none());
    // The API in memory does not record managers.
    let managed = json!([{"manager": FIELD_MANAGER, "fieldsV1": {"f:spec": {}}}]);
    stage.change(&builtin::services(), "shop", "derived-web", json!({"metadata": {"managedFields": managed}})).await;
    stage.delete(&SERVICE_IMPORTS.gvr(), "shop", "web").await;
    eventually("gone", async || stage.find(&builtin::services(), "shop", "derived-web").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn services_of_users_are_left_alone() {
    let stage = Stage::start(&[]);
    let of_a_user = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "derived-db", "namespace": "shop"},
        "spec": {"selector": {"app": "db"}, "ports": [{"port": 5432}]}});
    stage.api.seed(&builtin::services(), object(of_a_user));
    import(&stage, "db", "ClusterSetIP");
    import(&stage, "web", "ClusterSetIP");
    eventually("derived", async || stage.find(&builtin::services(), "shop", "derived-web").await.is_some()).await;
    stage.delete(&SERVICE_IMPORTS.gvr(), "shop", "db").await;
    stage.delete(&SERVICE_IMPORTS.gvr(), "shop", "web").await;
    import(&stage, "last", "ClusterSetIP");
    eventually("later ones", async || stage.find(&builtin::services(), "shop", "derived-last").await.is_some()).await;
    let service = stage.find(&builtin::services(), "shop", "derived-db").await.expect("stays");
    assert_eq!(service.get(&["spec", "ports"]), Some(&json!([{"port": 5432}])));
}
