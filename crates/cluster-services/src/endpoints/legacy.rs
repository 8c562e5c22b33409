//! The Endpoints object of a Service, for older clients.

use object::{GroupVersionKind, Object};
use serde_json::{Value, json};

use crate::endpoints::service::{DesiredEndpoints, Family, is_headless};

/// Maximum number of addresses in an Endpoints object; truncation is marked by an annotation.
const ADDRESSES_MAX: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Returns the desired object; `existing` provides its version.
pub fn plan_legacy(service: &Object, desired: &DesiredEndpoints, existing: Option<&Object>) -> Object {
    let gvk = GroupVersionKind::new("", "v1", "Endpoints");
    let empty = || Object::new(&gvk, Some(service.namespace()), service.name());
    let mut endpoints = existing.cloned().unwrap_or_else(empty);
    let mut labels = service.get(&["metadata", "labels"]).cloned().unwrap_or_else(|| json!({}));
    labels[MANAGED_BY] = MANAGER.into();
    if is_headless(service) {
        labels[HEADLESS] = "".into();
    }
    endpoints.set(&["metadata", "labels"], labels);
    // Only the first address family of the Service.
    let family = desired.keys().map(|(family, _)| *family).min().unwrap_or(Family::V4);
    let mut mirrors = ADDRESSES_MAX;
    let mut subsets = Vec::new();
    for ((_, _), group) in desired.iter().filter(|((of, _), _)| *of == family) {
        // Terminating pods are omitted, even while they serve.
        let stay = group
            .endpoints
            .iter()
            .filter(|e| e["conditions"]["terminating"] != true || e["conditions"]["ready"] == true);
        let (mut ready, mut not_ready) = (Vec::new(), Vec::new());
        for endpoint in stay.take(mirrors) {
            let list = if endpoint["conditions"]["ready"] == true { &mut ready } else { &mut not_ready };
            list.push(address_of(endpoint));
        }
        mirrors -= ready.len() + not_ready.len();
        if ready.is_empty() && not_ready.is_empty() {
            continue;
        }
        let mut subset = json!({});
        for (field, list) in [("addresses", ready), ("notReadyAddresses", not_ready), ("ports", ports_of(&group.ports))]
        {
            if !list.is_empty() {
                subset[field] = list.into();
            }
        }
        subsets.push(subset);
    }
    let total: usize = desired.values().map(|group| group.endpoints.len()).sum();
    match total > ADDRESSES_MAX {
        true => endpoints.set_annotation(OVER_CAPACITY, "truncated"),
        false => drop(endpoints.remove(&["metadata", "annotations", OVER_CAPACITY])),
    }
    match subsets.is_empty() {
        true => drop(endpoints.remove(&["subsets"])),
        false => endpoints.set(&["subsets"], subsets),
    }
    endpoints
}

fn address_of(endpoint: &Value) -> Value {
    let mut address = json!({"ip": endpoint["addresses"][0], "targetRef": endpoint["targetRef"]});
    for field in ["nodeName", "hostname"] {
        if let Some(value) = endpoint.get(field) {
            address[field] = value.clone();
        }
    }
    address
}

/// An unnamed port has no name field here, while slices have an empty name.
fn ports_of(ports: &[Value]) -> Vec<Value> {
    let unnamed = |port: &Value| {
        let mut port = port.clone();
        if port["name"] == ""
            && let Some(map) = port.as_object_mut()
        {
            map.remove("name");
        }
        port
    };
    ports.iter().map(unnamed).collect()
}
