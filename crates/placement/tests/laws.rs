//! Properties of placement: hard constraints hold for every placed pod, order of arrival does not matter, undo is
//! exact.

use std::collections::HashMap;

use object::Object;
use placement::{Cluster, Pod, VolumeNeeds, place, preempt};
use proptest::prelude::*;
use serde_json::json;

#[derive(Clone, Debug)]
struct NodeCase {
    cpu: u8,
    pods: u8,
    zone: Option<u8>,
    is_tainted: bool,
    is_cordoned: bool,
}

#[derive(Clone, Debug)]
struct PodCase {
    cpu: u8,
    app: u8,
    zone: Option<u8>,
    tolerates: bool,
    port: Option<u8>,
    anti: Option<u8>,
    near: Option<u8>,
    skew: Option<u8>,
    priority: u8,
}

fn node_case() -> impl Strategy<Value = NodeCase> {
    (1u8..8, 1u8..5, proptest::option::of(0u8..3), prop::bool::weighted(0.2), prop::bool::weighted(0.1))
        .prop_map(|(cpu, pods, zone, is_tainted, is_cordoned)| NodeCase { cpu, pods, zone, is_tainted, is_cordoned })
}

fn pod_case() -> impl Strategy<Value = PodCase> {
    let rare = |n: u8| proptest::option::weighted(0.2, 0u8..n);
    (0u8..4, 0u8..3, rare(3), any::<bool>(), rare(2), rare(3), rare(3), rare(2), 0u8..3).prop_map(
        |(cpu, app, zone, tolerates, port, anti, near, skew, priority)| PodCase {
            cpu,
            app,
            zone,
            tolerates,
            port,
            anti,
            near,
            skew,
            priority,
        },
    )
}

fn node(index: usize, case: &NodeCase) -> Object {
    let mut labels = json!({"kubernetes.io/hostname": format!("n{index}")});
    if let Some(zone) = case.zone {
        labels["zone"] = format!("z{zone}").into();
    }
    let taints = if case.is_tainted { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
    Object::from_value(json!({"metadata": {"name": format!("n{index}"), "labels": labels},
        "spec": {"unschedulable": case.is_cordoned, "taints": taints},
        "status": {"allocatable": {"cpu": case.cpu.to_string(), "memory": "8Gi", "pods": case.pods.to_string()}}}))
    .expect("a map")
}

fn pod(index: usize, case: &PodCase) -> Object {
    let term = |app: u8| json!([{"labelSelector": {"matchLabels": {"app": app.to_string()}}, "topologyKey": "zone"}]);
    let mut container = json!({"resources": {"requests": {"cpu": case.cpu.to_string()}}});
    if let Some(port) = case.port {
        container["ports"] = json!([{"hostPort": 8000 + u16::from(port)}]);
    }
    let mut spec = json!({"containers": [container], "priority": case.priority});
    if let Some(zone) = case.zone {
        spec["nodeSelector"] = json!({"zone": format!("z{zone}")});
    }
    if case.tolerates {
        spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    }
    if let Some(app) = case.anti {
        spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = term(app);
    }
    if let Some(app) = case.near {
        spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = term(app);
    }
    if let Some(skew) = case.skew {
        spec["topologySpreadConstraints"] = json!([{"maxSkew": skew + 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": case.app.to_string()}}}]);
    }
    let name = format!("p{index}");
    Object::from_value(json!({"metadata": {"name": name, "namespace": "d", "uid": name,
        "labels": {"app": case.app.to_string()}}, "spec": spec}))
    .expect("a map")
}

/// An independent, simple implementation of the constraints.
fn violation(
    nodes: &[NodeCase],
    placed: &HashMap<usize, (usize, PodCase)>,
    new: &PodCase,
    at: usize,
) -> Option<String> {
    let node = &nodes[at];
    let here: Vec<&PodCase> = placed.values().filter(|(on, _)| *on == at).map(|(_, pod)| pod).collect();
    let in_zone = |zone: Option<u8>| placed.values().filter(move |(on, _)| zone.is_some() && nodes[*on].zone == zone);
    let used: u32 = here.iter().map(|pod| u32::from(pod.cpu)).sum();
    if used + u32::from(new.cpu) > u32::from(node.cpu) && new.cpu > 0 {
        return Some("cpu".into());
    }
    if here.len() + 1 > usize::from(node.pods) {
        return Some("pods".into());
    }
    if node.is_cordoned || (node.is_tainted && !new.tolerates) {
        return Some("cordon or taint".into());
    }
    if new.zone.is_some() && new.zone != node.zone {
        return Some("selector".into());
    }
    if new.port.is_some() && here.iter().any(|pod| pod.port == new.port) {
        return Some("port".into());
    }
    if new.anti.is_some_and(|app| in_zone(node.zone).any(|(_, pod)| pod.app == app)) {
        return Some("anti-affinity".into());
    }
    if in_zone(node.zone).any(|(_, pod)| pod.anti == Some(new.app)) {
        return Some("anti-affinity of another".into());
    }
    if let Some(app) = new.near {
        let wanted = placed.values().any(|(on, pod)| pod.app == app && nodes[*on].zone.is_some());
        let is_near = in_zone(node.zone).any(|(_, pod)| pod.app == app);
        if node.zone.is_none() || !(is_near || (!wanted && app == new.app)) {
            return Some("affinity".into());
        }
    }
    let skew = i64::from(new.skew?) + 1;
    let fits = |candidate: &&NodeCase| candidate.zone.is_some() && (new.zone.is_none() || new.zone == candidate.zone);
    let zones: std::collections::BTreeSet<Option<u8>> = nodes.iter().filter(fits).map(|n| n.zone).collect();
    let count = |zone: Option<u8>| in_zone(zone).filter(|(_, pod)| pod.app == new.app).count() as i64;
    let least = zones.iter().map(|zone| count(*zone)).min().unwrap_or(0);
    (node.zone.is_none() || count(node.zone) + 1 - least > skew).then(|| "spread".into())
}

fn cluster_of(nodes: &[NodeCase]) -> Cluster {
    let mut cluster = Cluster::default();
    nodes.iter().enumerate().for_each(|(index, case)| _ = cluster.set_node(&node(index, case)));
    cluster
}

proptest! {
    #[test]
    fn hard_constraints_hold_and_a_refused_pod_fits_nowhere(
        nodes in prop::collection::vec(node_case(), 1..8),
        pods in prop::collection::vec(pod_case(), 1..24),
    ) {
        let mut cluster = cluster_of(&nodes);
        let mut placed: HashMap<usize, (usize, PodCase)> = HashMap::new();
        for (index, case) in pods.iter().enumerate() {
            let view = Pod::read(&pod(index, case));
            let outcome = place(&cluster, &view, &VolumeNeeds::default());
            match &outcome.node {
                Some(name) => {
                    let at: usize = name[1..].parse().expect("named by number");
                    prop_assert_eq!(violation(&nodes, &placed, case, at), None, "{} on {}", index, name);
                    cluster.set_pod_on(&view, name);
                    placed.insert(index, (at, case.clone()));
                }
                None => {
                    for at in 0..nodes.len() {
                        prop_assert!(violation(&nodes, &placed, case, at).is_some(), "{} would fit n{}", index, at);
                    }
                    let start = format!("0/{} nodes", nodes.len());
                    prop_assert!(outcome.refusals.message().starts_with(&start), "{}", start);
                    check_preemption(&mut cluster, &view, &outcome)?;
                }
            }
        }
    }

    #[test]
    fn placement_does_not_depend_on_event_order(
        nodes in prop::collection::vec(node_case(), 1..8),
        pods in prop::collection::vec((pod_case(), 0usize..8), 0..16),
        new in pod_case(),
    ) {
        let objects: Vec<Object> = nodes.iter().enumerate().map(|(index, case)| node(index, case)).collect();
        let views: Vec<(Pod, String)> = pods.iter().enumerate()
            .map(|(index, (case, at))| (Pod::read(&pod(index, case)), format!("n{}", at % nodes.len()))).collect();
        let mut straight = Cluster::default();
        objects.iter().for_each(|node| _ = straight.set_node(node));
        views.iter().for_each(|(pod, at)| straight.set_pod_on(pod, at));
        // Pods first, in reverse order, each on another node first; a node is added and removed.
        let mut winding = Cluster::default();
        winding.set_node(&node(99, &nodes[0]));
        for (pod, at) in views.iter().rev() {
            winding.set_pod_on(pod, "n99");
            winding.set_pod_on(pod, at);
        }
        winding.remove_node("n99");
        objects.iter().rev().for_each(|node| _ = winding.set_node(node));
        let new = Pod::read(&pod(1000, &new));
        let (one, other) = (place(&straight, &new, &VolumeNeeds::default()), place(&winding, &new, &VolumeNeeds::default()));
        prop_assert_eq!(one.node, other.node);
        prop_assert_eq!(one.refusals.message(), other.refusals.message());
        prop_assert_eq!(straight.node_count(), winding.node_count());
    }
}

/// Preemption frees enough capacity, only lower-priority pods are victims, and the cluster is unchanged afterwards.
fn check_preemption(
    cluster: &mut Cluster,
    pod: &Pod,
    outcome: &placement::PlacementResult,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let found = preempt(cluster, pod, &VolumeNeeds::default(), outcome, &[]);
    prop_assert_eq!(&place(cluster, pod, &VolumeNeeds::default()), outcome);
    if let Some(node) = &found.node {
        prop_assert!(!found.victims.is_empty());
        let mut without = cluster.clone();
        found.victims.iter().for_each(|victim| _ = without.remove_pod(&victim.namespace, &victim.name));
        let mut nominated = pod.clone();
        nominated.nominated = node.clone();
        let after = place(&without, &nominated, &VolumeNeeds::default());
        prop_assert_eq!(after.node.as_ref(), Some(node));
    }
    Ok(())
}

#[test]
fn a_json_value_is_no_pod_but_still_read() {
    let strange = Object::from_value(json!({"spec": {"containers": 5, "affinity": "x", "tolerations": {"a": 1}}}));
    let pod = Pod::read(&strange.expect("a map"));
    assert_eq!(pod.requests, placement::Requests::default());
}
