//! The endpoint of a pod: its addresses, readiness and node.

use std::net::IpAddr;

use object::Object;
use object::conditions;
use serde_json::Value;

/// A pod behind a Service. Pods without an address and finished pods are excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEndpoint {
    pub name: String,
    pub uid: String,
    pub addresses: Vec<IpAddr>,
    pub node: String,
    pub hostname: String,
    pub subdomain: String,
    pub is_ready: bool,
    pub is_terminating: bool,
    /// Named ports: name, protocol, number.
    pub ports: Vec<(String, String, i64)>,
}

pub fn read(pod: &Object) -> Option<PodEndpoint> {
    if matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") {
        return None;
    }
    let listed = pod.items(&["status", "podIPs"]).iter().filter_map(|entry| entry["ip"].as_str());
    let mut addresses: Vec<IpAddr> = listed.filter_map(|text| text.parse().ok()).collect();
    if addresses.is_empty() {
        addresses.extend(pod.str_at(&["status", "podIP"]).parse::<IpAddr>().ok());
    }
    if addresses.is_empty() {
        return None;
    }
    let sidecars = pod.items(&["spec", "initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always");
    let containers = pod.items(&["spec", "containers"]).iter().chain(sidecars);
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let named = ports.filter_map(|port| {
        let name = port["name"].as_str().filter(|name| !name.is_empty())?;
        Some((name.to_owned(), protocol_of(port).to_owned(), port["containerPort"].as_i64()?))
    });
    Some(PodEndpoint {
        name: pod.name().to_owned(),
        uid: pod.uid().to_owned(),
        addresses,
        node: pod.str_at(&["spec", "nodeName"]).to_owned(),
        hostname: pod.str_at(&["spec", "hostname"]).to_owned(),
        subdomain: pod.str_at(&["spec", "subdomain"]).to_owned(),
        is_ready: conditions::is_true(pod, "Ready"),
        is_terminating: pod.is_deleting(),
        ports: named.collect(),
    })
}

pub fn protocol_of(port: &Value) -> &str {
    port["protocol"].as_str().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}
