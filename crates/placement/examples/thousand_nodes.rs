//! Prints the cost of placing pods among 1,000 nodes with 20,000 pods: `cargo run --release -p placement --example
//! thousand_nodes`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::time::Instant;

use object::Object;
use placement::{Cluster, Pod, VolumeNeeds, place};
use serde_json::{Value, json};

const NODES: usize = 1_000;
const PODS: usize = 20_000;
const PODS_PER_OWNER: usize = 40;

fn node(index: usize) -> Object {
    let name = format!("node-{index:04}");
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", index % 5),
        "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m"});
    Object::from_value(json!({"metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}}}))
    .expect("a map")
}

fn pod(index: usize, more: &Value) -> Pod {
    let owner = index / PODS_PER_OWNER;
    let mut spec = json!({"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let object = json!({"metadata": {"name": format!("pod-{index}"), "namespace": format!("ns-{}", owner % 20),
        "labels": {"app": format!("app-{owner}"), "pod-template-hash": "x"},
        "ownerReferences": [{"uid": format!("rs-{owner}"), "controller": true}]}, "spec": spec});
    Pod::read(&Object::from_value(object).expect("a map"))
}

fn measure(name: &str, cluster: &Cluster, pods: &[Pod]) {
    let start = Instant::now();
    let placed = pods.iter().filter(|pod| place(cluster, pod, &VolumeNeeds::default()).node.is_some()).count();
    let each = start.elapsed() / pods.len() as u32;
    println!("{name:>24}: {each:?} each, {placed} of {} placed", pods.len());
}

fn main() {
    let mut cluster = Cluster::default();
    (0..NODES).for_each(|index| _ = cluster.set_node(&node(index)));
    let pods: Vec<Pod> = (0..PODS).map(|index| pod(index, &json!({}))).collect();
    let start = Instant::now();
    for pod in &pods {
        let node = place(&cluster, pod, &VolumeNeeds::default()).node.expect("there is capacity");
        cluster.set_pod_on(pod, &node);
    }
    println!(
        "{:>24}: {:?} each, {} nodes, {} pods",
        "filling",
        start.elapsed() / PODS as u32,
        NODES,
        cluster.pod_count()
    );
    let new = |more: Value| -> Vec<Pod> { (0..500).map(|index| pod(index * 7, &more)).collect() };
    measure("plain", &cluster, &new(json!({})));
    let selector = json!({"matchLabels": {"pod-template-hash": "x"}});
    let constraint = |key: &str| json!({"maxSkew": 9, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    let spread = json!({"topologySpreadConstraints": [constraint("topology.kubernetes.io/zone"), constraint("kubernetes.io/hostname")]});
    measure("spread", &cluster, &new(spread));
    let term = json!({"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"});
    let anti = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    measure("anti-affinity", &cluster, &new(anti));
    let huge = json!({"containers": [{"resources": {"requests": {"cpu": "64"}}}]});
    measure("fits nowhere", &cluster, &new(huge));
}
