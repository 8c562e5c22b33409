//! Nodes that run every pod at once, and finish those of Jobs according to their image.

use std::time::Duration;

use cluster_client::{ClusterClient, DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use object::request::Subresource;
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NODES: [&str; 2] = ["n1", "n2"];

fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

pub async fn create_nodes(client: &ClusterClient) {
    for name in NODES {
        let node = Object::new(&GroupVersionKind::new("", "v1", "Node"), None, name);
        client.create(ResourceRef::all(&core("nodes")), node, WriteOptions::default()).await.expect("created");
        // The API taints new nodes as not ready.
        let untaint = Patch::merge(json!({"spec": {"taints": null}}));
        let target = ResourceRef::cluster(&core("nodes"), name);
        client.patch(target, untaint, WriteOptions::default()).await.expect("patched");
    }
}

/// Updates all pods until stopped. Failures are retried in the next round.
pub async fn run(client: ClusterClient, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let pods = client.list_all(ResourceRef::all(&core("pods")), ListOptions::default()).await;
        for pod in pods.map(|list| list.items).unwrap_or_default() {
            if pod.is_deleting() {
                let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
                let _ = client.delete(ResourceRef::of(&core("pods"), &pod), options).await;
            } else if pod.str_at(&["spec", "nodeName"]).is_empty() {
                let _ = bind(&client, &pod).await;
            } else if pod.str_at(&["status", "phase"]) == "Pending" {
                let patch = Patch::merge(json!({"status": status_of(&pod)}));
                let target = ResourceRef::of(&core("pods"), &pod).subresource(Subresource::Status);
                let _ = client.patch(target, patch, WriteOptions::default()).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn bind(client: &ClusterClient, pod: &Object) -> Result<(), object::Status> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = pod.items(&["spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"]);
    let named = terms.first().and_then(|term| term["matchFields"][0]["values"][0].as_str());
    let node = named.unwrap_or(NODES[usize::from(pod.uid().as_bytes()[0]) % NODES.len()]);
    let mut binding = Object::new(&GroupVersionKind::new("", "v1", "Binding"), Some(pod.namespace()), pod.name());
    binding.set(&["target"], json!({"apiVersion": "v1", "kind": "Node", "name": node}));
    let target = ResourceRef::of(&core("pods"), pod).subresource(Subresource::Binding);
    client.create(target, binding, WriteOptions::default()).await.map(drop)
}

fn status_of(pod: &Object) -> Value {
    let now = object::time::format_seconds(jiff::Timestamp::now());
    let image = pod.items(&["spec", "containers"])[0]["image"].as_str().unwrap_or_default().to_owned();
    let ended = |phase: &str, code: i64| {
        json!({"phase": phase, "startTime": now,
            "containerStatuses": [{"name": "main", "image": image, "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now}}}]})
    };
    let is_first = pod.label("batch.kubernetes.io/job-completion-index") == Some("0");
    match image.as_str() {
        "first" if is_first => ended("Succeeded", 0),
        "succeeds" => ended("Succeeded", 0),
        "fails" => ended("Failed", 3),
        _ => json!({"phase": "Running", "startTime": now, "podIP": "10.9.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]}),
    }
}
