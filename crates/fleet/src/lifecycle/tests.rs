//! Clusters that come, change and leave, on an API in memory.

use std::time::Duration;

use api::cluster::{CLUSTERS, FINALIZER};
use api::work::{FINALIZER_EXECUTION, RESOURCE_BINDINGS, WORKS};
use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, DeleteOptions};
use serde_json::json;

use super::*;
use crate::testing::{self, eventually};

fn start(api: &MemoryApi) -> CancellationToken {
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(api, &cancel, |_| {}), cancel.clone()));
    cancel
}

fn cluster_ref() -> ResourceRef {
    ResourceRef::cluster(&CLUSTERS.gvr(), "m1")
}

fn space_ref() -> ResourceRef {
    ResourceRef::cluster(&namespaces(), "karmada-es-m1")
}

async fn is_there(client: &ClusterClient, target: ResourceRef) -> bool {
    client.find(target).await.expect("answers").is_some()
}

fn seed_work(api: &MemoryApi) {
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "w", "namespace": "karmada-es-m1", "finalizers": [FINALIZER_EXECUTION]}});
    api.seed(&WORKS.gvr(), testing::object(work));
}

fn seed_binding(api: &MemoryApi, clusters: &[&str]) {
    let clusters: Vec<_> = clusters.iter().map(|name| json!({"name": name, "replicas": 1})).collect();
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "b", "namespace": "default"}, "spec": {"clusters": clusters, "replicas": 2}});
    api.seed(&RESOURCE_BINDINGS.gvr(), testing::object(binding));
}

/// As the namespace controller of Kubernetes: a namespace that leaves goes once it holds no work.
fn empty_namespaces(api: &MemoryApi, cancel: &CancellationToken) {
    let (client, cancel) = (api.client(), cancel.clone());
    tokio::spawn(async move {
        while !cancel.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let Ok(space) = client.get(space_ref()).await else { continue };
            if !space.is_deleting() {
                continue;
            }
            let works = client.list_all(ResourceRef::within(&WORKS.gvr(), "karmada-es-m1"), Default::default()).await;
            let works = works.expect("lists").items;
            for work in &works {
                let _ = client.delete(ResourceRef::of(&WORKS.gvr(), work), DeleteOptions::default()).await;
            }
            if works.is_empty() {
                let mut released = Object::clone(&space);
                released.remove_finalizer("kubernetes");
                let _ = client.update(space_ref(), released, WriteOptions::default()).await;
            }
        }
    });
}

fn seed_joined(api: &MemoryApi, ready: &str) {
    let mut cluster = testing::cluster("m1", ready);
    cluster.add_finalizer(FINALIZER);
    api.seed(&CLUSTERS.gvr(), cluster);
    let mut space = testing::namespace("karmada-es-m1");
    // Stands for `spec.finalizers`, which the API in memory does not know.
    space.add_finalizer("kubernetes");
    api.seed(&namespaces(), space);
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_gets_namespace_taint_and_finalizer_in_one_write() {
    let api = MemoryApi::default();
    let mut cluster = testing::cluster("m1", "False");
    cluster.remove(&["status"]);
    api.seed(&CLUSTERS.gvr(), cluster);
    let cancel = start(&api);
    let client = api.client();
    eventually("the finalizer", async || client.get(cluster_ref()).await.expect("there").has_finalizer(FINALIZER))
        .await;
    let space = client.get(space_ref()).await.expect("made");
    assert_eq!(space.label("karmada.io/system"), Some("true"));
    let cluster = client.get(cluster_ref()).await.expect("there");
    assert_eq!(cluster.items(&["spec", "taints"])[0]["key"], "cluster.karmada.io/not-ready");
    let writes = api.calls().iter().filter(|call| *call == "patch clusters /m1").count();
    assert_eq!(writes, 1);
    eventually("the events", async || {
        testing::event_reasons(&api).await == ["CreateExecutionSpaceSucceed", "TaintClusterSucceed"]
    })
    .await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_ready_cluster_is_removed_after_its_works_and_bindings() {
    let api = MemoryApi::default();
    let client = api.client();
    seed_joined(&api, "True");
    seed_work(&api);
    seed_binding(&api, &["m1", "m2"]);
    let cancel = start(&api);
    empty_namespaces(&api, &cancel);
    client.delete(cluster_ref(), DeleteOptions::default()).await.expect("accepted");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_there(&client, space_ref()).await, "the work waits for the member");

    let work = ResourceRef::namespaced(&WORKS.gvr(), "karmada-es-m1", "w");
    let mut released = Object::clone(&client.get(work.clone()).await.expect("held by its finalizer"));
    released.remove_finalizer(FINALIZER_EXECUTION);
    client.update(work, released, WriteOptions::default()).await.expect("member-sync lets it go");
    eventually("the space goes", async || !is_there(&client, space_ref()).await).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(is_there(&client, cluster_ref()).await, "the scheduler has not moved the binding");

    seed_binding(&api, &["m2"]);
    // Woken by the binding, not by the next look.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!is_there(&client, cluster_ref()).await);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_an_unreachable_member_is_removed() {
    let api = MemoryApi::default();
    let client = api.client();
    seed_joined(&api, "Unknown");
    seed_work(&api);
    let cancel = start(&api);
    empty_namespaces(&api, &cancel);
    client.delete(cluster_ref(), DeleteOptions::default()).await.expect("accepted");
    eventually("the cluster goes", async || !is_there(&client, cluster_ref()).await).await;
    assert!(!is_there(&client, space_ref()).await);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn remaining_works_and_bindings_do_not_block_removal_indefinitely() {
    let api = MemoryApi::default();
    let client = api.client();
    seed_joined(&api, "True");
    seed_work(&api);
    seed_binding(&api, &["m1", "m2"]);
    let cancel = start(&api);
    empty_namespaces(&api, &cancel);
    client.delete(cluster_ref(), DeleteOptions::default()).await.expect("accepted");
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert!(is_there(&client, space_ref()).await, "patience is not over");
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert!(!is_there(&client, cluster_ref()).await);
    let binding = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", "b");
    let binding = client.get(binding).await.expect("there");
    assert_eq!(binding.items(&["spec", "clusters"]), [json!({"name": "m2", "replicas": 1})]);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_rejoining_cluster_gets_a_new_namespace_after_the_old_one_is_deleted() {
    let api = MemoryApi::default();
    let client = api.client();
    seed_joined(&api, "True");
    let cancel = start(&api);
    client.delete(space_ref(), DeleteOptions::default()).await.expect("accepted");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(client.get(space_ref()).await.expect("still there").is_deleting());
    empty_namespaces(&api, &cancel);
    eventually("the new space", async || client.get(space_ref()).await.is_ok_and(|space| !space.is_deleting())).await;
    cancel.cancel();
}
