//! The Node object of a simulated node: its registration and its status.

use jiff::Timestamp;
use object::conditions::{self, NewCondition};
use object::{GroupVersionKind, Object, time};
use serde_json::{Map, Value, json};

use crate::addresses::Addresses;
use crate::behaviour::SIMULATE;
use crate::settings::SimulatedNodeSettings;

/// On every simulated node.
pub const SIMULATED: &str = "flotilla.dev/simulated";

/// A fault of a node, set by an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFault {
    /// Reports itself as not ready.
    NotReady,
    /// Stops reporting: no heartbeats, no pod status.
    Silent,
    MemoryPressure,
    DiskPressure,
}

pub fn fault_of(node: &Object) -> Option<NodeFault> {
    Some(match node.annotation(SIMULATE)?.trim() {
        "not-ready" => NodeFault::NotReady,
        "silent" => NodeFault::Silent,
        "memory-pressure" => NodeFault::MemoryPressure,
        "disk-pressure" => NodeFault::DiskPressure,
        _ => return None,
    })
}

/// Returns the node as it registers itself.
pub fn build(settings: &SimulatedNodeSettings, addresses: &Addresses, index: u32, now: Timestamp) -> Object {
    let name = settings.node_name(index);
    let mut node = Object::new(&GroupVersionKind::new("", "v1", "Node"), None, &name);
    let mut labels = Map::new();
    for (key, value) in [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", name.as_str()),
        ("node.kubernetes.io/instance-type", "simulated"),
        (SIMULATED, "true"),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    for (places, key) in
        [(&settings.zones, "topology.kubernetes.io/zone"), (&settings.regions, "topology.kubernetes.io/region")]
    {
        if !places.is_empty() {
            labels.insert(key.to_owned(), places[index as usize % places.len()].as_str().into());
        }
    }
    for (key, value) in &settings.labels {
        labels.insert(key.clone(), value.as_str().into());
    }
    node.set(&["metadata", "labels"], Value::Object(labels));
    let range = addresses.range(index);
    node.set(&["spec", "podCIDRs"], json!([range]));
    node.set(&["spec", "podCIDR"], range);
    node.set(&["spec", "providerID"], format!("flotilla://{}/{name}", settings.cluster_name));
    let status = status(settings, addresses, index, &node, now);
    node.set(&["status"], status);
    node
}

/// Returns the desired status. Condition times are kept while the conditions are unchanged.
pub fn status(
    settings: &SimulatedNodeSettings,
    addresses: &Addresses,
    index: u32,
    node: &Object,
    now: Timestamp,
) -> Value {
    let mut status = node.get(&["status"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let amounts = amounts(settings);
    status.insert("capacity".into(), amounts.clone());
    status.insert("allocatable".into(), amounts);
    let host = addresses.of_node(index).to_string();
    let name = settings.node_name(index);
    let known = json!([{"type": "InternalIP", "address": host}, {"type": "Hostname", "address": name}]);
    status.insert("addresses".into(), known);
    status.insert("daemonEndpoints".into(), json!({"kubeletEndpoint": {"Port": 10250}}));
    status.insert("nodeInfo".into(), node_info(settings, index));
    let conditions = conditions(node, now);
    status.insert("conditions".into(), conditions);
    Value::Object(status)
}

fn amounts(settings: &SimulatedNodeSettings) -> Value {
    let capacity = &settings.capacity;
    let mut amounts = json!({"cpu": capacity.cpu, "memory": capacity.memory, "pods": capacity.pods.to_string(),
        "ephemeral-storage": capacity.ephemeral_storage, "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    for (name, amount) in &capacity.extended {
        amounts[name] = amount.as_str().into();
    }
    amounts
}

/// Identifiers are stable across restarts.
fn node_info(settings: &SimulatedNodeSettings, index: u32) -> Value {
    let id = format!("{:08x}-0000-4000-8000-{:012x}", hash(&settings.cluster_name), index + 1);
    json!({"architecture": "amd64", "operatingSystem": "linux", "osImage": "Flotilla simulated node (up --runtime containerd: real)",
        "kernelVersion": "simulated", "containerRuntimeVersion": format!("simulated://{}", env!("CARGO_PKG_VERSION")),
        "kubeletVersion": settings.kubernetes_version, "kubeProxyVersion": "",
        "machineID": id, "systemUUID": id, "bootID": id})
}

fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn conditions(node: &Object, now: Timestamp) -> Value {
    let fault = fault_of(node);
    let is = |wanted: NodeFault| fault == Some(wanted);
    let states = [
        ("MemoryPressure", is(NodeFault::MemoryPressure), "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory"),
        ("DiskPressure", is(NodeFault::DiskPressure), "KubeletHasDiskPressure", "KubeletHasNoDiskPressure"),
        ("PIDPressure", false, "KubeletHasInsufficientPID", "KubeletHasSufficientPID"),
        ("Ready", !is(NodeFault::NotReady), "KubeletReady", "KubeletNotReady"),
    ];
    let mut list = node.items(&["status", "conditions"]).to_vec();
    for (kind, is_true, reason_true, reason_false) in states {
        let (state, reason) = if is_true { ("True", reason_true) } else { ("False", reason_false) };
        let message = match (kind, is_true) {
            ("Ready", true) => "kubelet is posting ready status".to_owned(),
            ("Ready", false) => "the node is not ready as requested by its annotation".to_owned(),
            (kind, true) => format!("the node has {kind} as requested by its annotation"),
            (kind, false) => format!("kubelet has no {kind}"),
        };
        conditions::edit_in(&mut list, kind, |condition| {
            let is_same = (condition.view().status(), condition.view().reason()) == (state, reason);
            // Heartbeat times in conditions would cost a write per node every few minutes; leases are cheaper.
            for field in ["lastHeartbeatTime", "lastTransitionTime"] {
                if !is_same || condition.view().text(field).is_empty() {
                    condition.set(field, time::format_seconds(now));
                }
            }
            condition.write(&NewCondition { kind, status: state, reason, message: &message });
        });
    }
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_spread_over_zones_and_keep_their_conditions() {
        let zones = vec!["a".to_owned(), "b".to_owned()];
        let settings = SimulatedNodeSettings { nodes: 4, zones, ..SimulatedNodeSettings::default() };
        let addresses = Addresses::new(&settings);
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let later: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
        let nodes: Vec<Object> = (0..4).map(|index| build(&settings, &addresses, index, now)).collect();
        let zone = |node: &Object| node.label("topology.kubernetes.io/zone").expect("a zone").to_owned();
        assert_eq!(nodes.iter().map(zone).collect::<Vec<_>>(), ["a", "b", "a", "b"]);
        assert_eq!(nodes[1].str_at(&["spec", "podCIDR"]), "10.64.1.0/24");

        let mut node = nodes[0].clone();
        let unchanged = status(&settings, &addresses, 0, &node, later);
        assert_eq!(Some(&unchanged), node.get(&["status"]), "unchanged");
        node.set_annotation(SIMULATE, "not-ready");
        let changed = status(&settings, &addresses, 0, &node, later);
        let ready = changed["conditions"].as_array().expect("a list").iter().find(|c| c["type"] == "Ready");
        let ready = ready.expect("a Ready condition");
        assert_eq!(
            (ready["status"].as_str(), ready["lastTransitionTime"].as_str()),
            (Some("False"), Some("2026-01-01T01:00:00Z"))
        );
    }
}
