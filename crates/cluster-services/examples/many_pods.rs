//! Measures how fast pods are scheduled on 1,000 nodes over an in-memory API: `cargo run --release -p
//! cluster-services --example many_pods`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster_client::testing::MemoryApi;
use cluster_services::{ClusterServiceDeps, ClusterServiceSettings, run};
use object::{GroupVersionResource, Object};
use reconcile::{Mirrors, SystemClock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NODES: usize = 1_000;
const PODS: usize = 20_000;
const PODS_PER_SERVICE: usize = 1_000;

fn seed(api: &MemoryApi, resource: &str, mut value: Value, kind: &str) {
    value["apiVersion"] = "v1".into();
    value["kind"] = kind.into();
    api.seed(&GroupVersionResource::new("", "v1", resource), Object::from_value(value).expect("a map"));
}

fn pod(index: usize) -> Value {
    let app = format!("app-{}", index / PODS_PER_SERVICE);
    json!({"metadata": {"name": format!("pod-{index}"), "namespace": "default", "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "nginx",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}})
}

#[tokio::main]
async fn main() {
    let api = MemoryApi::default();
    for index in 0..NODES {
        let name = format!("node-{index}");
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{}", index % 5)});
        let status = json!({"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]});
        seed(&api, "nodes", json!({"metadata": {"name": name, "labels": labels}, "status": status}), "Node");
    }
    for index in 0..PODS / PODS_PER_SERVICE {
        let name = format!("app-{index}");
        let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
        seed(&api, "services", json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}), "Service");
    }
    let cancel = CancellationToken::new();
    let parts = ClusterServiceDeps {
        mirrors: Mirrors::new(api.client(), cancel.clone()),
        clock: Arc::new(SystemClock),
        settings: ClusterServiceSettings::default(),
    };
    let running = tokio::spawn(run(parts, cancel.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let start = Instant::now();
    (0..PODS).for_each(|index| seed(&api, "pods", pod(index), "Pod"));
    let seeded = start.elapsed();
    let bound = || api.calls().iter().filter(|call| call.starts_with("create pods/binding")).count();
    while bound() < PODS {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = start.elapsed();
    println!(
        "{PODS} pods on {NODES} nodes: {took:?} ({seeded:?} to make them), {:.0} pods/s",
        PODS as f64 / took.as_secs_f64()
    );
    cancel.cancel();
    running.await.expect("ends well");
}
