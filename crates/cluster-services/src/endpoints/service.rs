//! Computes the desired endpoints of a Service from its pods. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use object::Object;
use object::selector::{LabelRequirement, LabelSelector, Operator};
use serde_json::{Map, Value, json};

use crate::endpoints::pod::{PodEndpoint, protocol_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn address_type(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn has(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// Returns the selector of a Service; `None` if its endpoints are not managed here.
pub fn selector_of(service: &Object) -> Option<LabelSelector> {
    if service.str_at(&["spec", "type"]) == "ExternalName" {
        return None;
    }
    let map = service.get(&["spec", "selector"]).and_then(Value::as_object).filter(|map| !map.is_empty())?;
    let requirements = map.iter().map(|(key, value)| LabelRequirement {
        key: key.clone(),
        operator: Operator::In,
        values: vec![value.as_str().unwrap_or_default().to_owned()],
    });
    Some(LabelSelector::everything().and(requirements))
}

pub fn is_headless(service: &Object) -> bool {
    service.str_at(&["spec", "clusterIP"]) == "None"
}

pub fn families_of(service: &Object) -> Vec<Family> {
    let listed = service.items(&["spec", "ipFamilies"]).iter().filter_map(|family| match family.as_str() {
        Some("IPv4") => Some(Family::V4),
        Some("IPv6") => Some(Family::V6),
        _ => None,
    });
    let families: Vec<Family> = listed.collect();
    if families.is_empty() { vec![Family::V4] } else { families }
}

/// Desired endpoints by address family and port set; each group has slices of its own.
pub type DesiredEndpoints = BTreeMap<(Family, String), EndpointGroup>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointGroup {
    pub ports: Vec<Value>,
    /// Sorted by pod.
    pub endpoints: Vec<Value>,
}

/// Returns the desired content of all slices of a Service. `zone_of` returns the zone of a node.
pub fn plan_endpoints(
    service: &Object,
    pods: &[Arc<PodEndpoint>],
    zone_of: impl Fn(&str) -> Option<String>,
) -> DesiredEndpoints {
    let mut desired = DesiredEndpoints::new();
    for family in families_of(service) {
        for pod in pods {
            let Some(address) = pod.addresses.iter().find(|address| family.has(address)) else { continue };
            let ports = plan_ports(service, pod);
            let group = desired.entry((family, Value::from(ports.clone()).to_string())).or_default();
            group.ports = ports;
            group.endpoints.push(plan_endpoint(service, pod, address, &zone_of));
        }
    }
    desired
}

fn plan_endpoint(
    service: &Object,
    pod: &PodEndpoint,
    address: &IpAddr,
    zone_of: &impl Fn(&str) -> Option<String>,
) -> Value {
    let publishes_unready = service.bool_at(&["spec", "publishNotReadyAddresses"]).unwrap_or(false);
    let is_ready = publishes_unready || (pod.is_ready && !pod.is_terminating);
    let mut endpoint = json!({
        "addresses": [address.to_string()],
        "conditions": {"ready": is_ready, "serving": publishes_unready || pod.is_ready, "terminating": pod.is_terminating},
        "targetRef": {"kind": "Pod", "namespace": service.namespace(), "name": pod.name, "uid": pod.uid},
    });
    if !pod.node.is_empty() {
        endpoint["nodeName"] = pod.node.as_str().into();
        if let Some(zone) = zone_of(&pod.node) {
            endpoint["zone"] = zone.into();
        }
    }
    if !pod.hostname.is_empty() && pod.subdomain == service.name() {
        endpoint["hostname"] = pod.hostname.as_str().into();
    }
    endpoint
}

/// Resolves the Service's ports on this pod; a named port the pod lacks is omitted.
fn plan_ports(service: &Object, pod: &PodEndpoint) -> Vec<Value> {
    let ports = service.items(&["spec", "ports"]).iter().filter_map(|port| {
        let protocol = protocol_of(port);
        let number = match &port["targetPort"] {
            Value::String(name) if !name.is_empty() => {
                let named = pod.ports.iter().find(|(known, of, _)| known == name && of == protocol);
                named.map(|(_, _, number)| *number)?
            }
            Value::Number(number) if number.as_i64() != Some(0) => number.as_i64()?,
            _ => port["port"].as_i64()?,
        };
        let mut planned = Map::new();
        planned.insert("name".into(), port["name"].as_str().unwrap_or_default().into());
        planned.insert("port".into(), number.into());
        planned.insert("protocol".into(), protocol.into());
        if let Some(app) = port["appProtocol"].as_str() {
            planned.insert("appProtocol".into(), app.into());
        }
        Some(Value::Object(planned))
    });
    ports.collect()
}
