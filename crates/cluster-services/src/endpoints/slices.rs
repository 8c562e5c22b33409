//! Computes a minimal set of slice changes for the desired endpoints. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use object::{GroupVersionKind, Object};
use serde_json::{Value, json};

use crate::endpoints::service::{DesiredEndpoints, EndpointGroup, Family, is_headless};

/// Maximum number of endpoints in a slice.
pub const ENDPOINTS_MAX: usize = 100;
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// The slice changes to write.
#[derive(Debug, Default)]
pub struct SlicePlan {
    pub create: Vec<Object>,
    /// The current and the desired object.
    pub update: Vec<(Arc<Object>, Object)>,
    pub delete: Vec<Arc<Object>>,
}

pub fn plan_slices(service: &Object, desired: &DesiredEndpoints, existing: &[Arc<Object>]) -> SlicePlan {
    let mut plan = SlicePlan::default();
    let mut by_group: HashMap<(Family, String), Vec<Arc<Object>>> = HashMap::new();
    for slice in existing {
        match group_of(slice).filter(|group| desired.contains_key(group)) {
            Some(group) => by_group.entry(group).or_default().push(Arc::clone(slice)),
            None => plan.delete.push(Arc::clone(slice)),
        }
    }
    for (key, group) in desired {
        let slices = by_group.remove(key).unwrap_or_default();
        plan_group(service, key.0, group, slices, &mut plan);
    }
    // A Service without endpoints has one empty slice; an existing slice is emptied rather than replaced.
    if desired.is_empty() {
        let kept = if plan.delete.is_empty() { None } else { Some(plan.delete.remove(0)) };
        match kept {
            Some(slice) => update_slice(service, slice, Vec::new(), &mut plan),
            None => plan.create.push(new_slice(service, Family::V4, &[], Vec::new())),
        }
    }
    plan
}

/// Returns the address family and ports of a slice, as keys of the desired groups.
fn group_of(slice: &Object) -> Option<(Family, String)> {
    let family = match slice.str_at(&["addressType"]) {
        "IPv4" => Family::V4,
        "IPv6" => Family::V6,
        _ => return None,
    };
    let ports: Vec<Value> = slice.items(&["ports"]).iter().map(canonical_port).collect();
    Some((family, Value::from(ports).to_string()))
}

/// Normalizes fields that the API omits or defaults.
fn canonical_port(port: &Value) -> Value {
    let mut port = port.clone();
    if port["name"].is_null() {
        port["name"] = "".into();
    }
    if port["protocol"].is_null() {
        port["protocol"] = "TCP".into();
    }
    port
}

fn identity(endpoint: &Value) -> (&str, &str) {
    let uid = endpoint["targetRef"]["uid"].as_str().unwrap_or_default();
    (uid, endpoint["addresses"][0].as_str().unwrap_or_default())
}

/// Endpoints stay in their slice; new ones fill slices with free capacity, first those that change anyway.
fn plan_group(service: &Object, family: Family, group: &EndpointGroup, slices: Vec<Arc<Object>>, plan: &mut SlicePlan) {
    let mut missing: HashMap<(&str, &str), &Value> = group.endpoints.iter().map(|e| (identity(e), e)).collect();
    let mut kept: Vec<(Arc<Object>, Vec<Value>, bool)> = Vec::new();
    for slice in &slices {
        let old = slice.items(&["endpoints"]);
        let stay: Vec<Value> = old.iter().filter_map(|e| missing.remove(&identity(e))).cloned().collect();
        let changes = stay != old;
        kept.push((Arc::clone(slice), stay, changes));
    }
    let mut new: Vec<Value> = group.endpoints.iter().filter(|e| missing.contains_key(&identity(e))).cloned().collect();
    new.reverse();
    for only_changing in [true, false] {
        for (_, endpoints, changes) in kept.iter_mut().filter(|(_, _, changes)| *changes == only_changing) {
            while endpoints.len() < ENDPOINTS_MAX
                && let Some(endpoint) = new.pop()
            {
                endpoints.push(endpoint);
                *changes = true;
            }
        }
    }
    new.reverse();
    let has_more = !new.is_empty();
    for chunk in new.chunks(ENDPOINTS_MAX) {
        plan.create.push(new_slice(service, family, &group.ports, chunk.to_vec()));
    }
    for (slice, endpoints, _) in kept {
        match endpoints.is_empty() && (has_more || !group.endpoints.is_empty()) {
            true => plan.delete.push(slice),
            false => update_slice(service, slice, endpoints, plan),
        }
    }
}

fn update_slice(service: &Object, slice: Arc<Object>, endpoints: Vec<Value>, plan: &mut SlicePlan) {
    let mut desired = Object::clone(&slice);
    if endpoints.is_empty() {
        desired.set(&["ports"], json!([]));
    }
    if slice.items(&["endpoints"]) != endpoints || slice.get(&["endpoints"]).is_none() {
        desired.set(&["endpoints"], endpoints);
    }
    desired.set(&["metadata", "labels"], labels_of(service));
    desired.set(&["metadata", "ownerReferences"], owner_of(service));
    if desired.get(&["ports"]) == Some(&json!([])) && slice.items(&["ports"]).is_empty() {
        match slice.get(&["ports"]) {
            Some(value) => desired.set(&["ports"], value.clone()),
            None => drop(desired.remove(&["ports"])),
        }
    }
    if desired != *slice {
        plan.update.push((slice, desired));
    }
}

fn new_slice(service: &Object, family: Family, ports: &[Value], endpoints: Vec<Value>) -> Object {
    let gvk = GroupVersionKind::new("discovery.k8s.io", "v1", "EndpointSlice");
    let mut slice = Object::new(&gvk, Some(service.namespace()), "");
    slice.remove(&["metadata", "name"]);
    // Leaves space for the random suffix.
    let prefix: String = service.name().chars().take(57).collect();
    slice.set(&["metadata", "generateName"], format!("{prefix}-"));
    slice.set(&["metadata", "labels"], labels_of(service));
    slice.set(&["metadata", "ownerReferences"], owner_of(service));
    slice.set(&["addressType"], family.address_type());
    slice.set(&["endpoints"], endpoints);
    slice.set(&["ports"], ports.to_vec());
    slice
}

/// Returns the Service's labels plus the managed slice labels.
fn labels_of(service: &Object) -> Value {
    let mut labels = service.get(&["metadata", "labels"]).cloned().unwrap_or_else(|| json!({}));
    labels[SERVICE_NAME] = service.name().into();
    labels[MANAGED_BY] = MANAGER.into();
    if let Some(labels) = labels.as_object_mut() {
        labels.remove(HEADLESS);
    }
    if is_headless(service) {
        labels[HEADLESS] = "".into();
    }
    labels
}

fn owner_of(service: &Object) -> Value {
    json!([{"apiVersion": "v1", "kind": "Service", "name": service.name(), "uid": service.uid(), "controller": true,
        "blockOwnerDeletion": true}])
}
