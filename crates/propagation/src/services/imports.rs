//! Slices of exported services in the control plane, and the Services derived from ServiceImports.

use api::multicluster::{ImportSpec, SERVICE_EXPORTS};
use api::names::cluster_of_execution_namespace;
use api::networking::{CONTROLLER_IMPORT, LABEL_SLICE_CONTROLLER, LABEL_SLICE_SERVICE};
use api::work::{ANNOTATION_WORK_NAME, ANNOTATION_WORK_NAMESPACE, BindingSpec, LABEL_WORK_ID};
use object::{GroupVersionKind, Object, Status};
use serde_json::{Map, Value, json};

use crate::binding_scope::check_stored;
use crate::services::collection::{Collector, ServiceKey};
use crate::services::slices::{SliceRefusal, check_carried, check_name, is_collected, rebuilt};
use crate::works::existing_clusters;

/// The type of ServiceImports that a Service is derived from.
const CLUSTER_SET_IP: &str = "ClusterSetIP";
const DERIVED_PREFIX: &str = "derived-";

/// The name of the Service derived from a ServiceImport.
pub fn derived_name(import: &str) -> String {
    format!("{DERIVED_PREFIX}{import}")
}

/// The ServiceImport whose derived Service would have this name.
pub fn import_of(service: &str) -> Option<&str> {
    service.strip_prefix(DERIVED_PREFIX).filter(|name| !name.is_empty())
}

/// The exported service whose slice a Work holds; `None` when it holds none, or its member exports it no more.
pub fn exported_service(work: &Object) -> Option<ServiceKey> {
    Collector::Export.service_of(work).filter(|_| is_collected(work) && !work.is_deleting())
}

/// Reports whether the binding of a ServiceExport takes it to a cluster: only then may the cluster's slices be imported.
pub fn is_exported_to(binding: &Object, service: &ServiceKey, cluster: &str) -> bool {
    let Ok(spec) = api::read::<BindingSpec>(binding) else { return false };
    let export = SERVICE_EXPORTS.object(&service.namespace, &service.name);
    check_stored(binding).is_ok()
        && (spec.resource.api_version.as_str(), spec.resource.kind.as_str()) == (export.api_version(), export.kind())
        && (spec.resource.namespace.as_str(), spec.resource.name.as_str()) == (export.namespace(), export.name())
        && existing_clusters(&spec).contains(cluster)
}

/// The slice in the control plane for one that was collected from a member.
pub fn imported_slice(work: &Object, service: &ServiceKey) -> Result<Object, SliceRefusal> {
    let cluster = cluster_of_execution_namespace(work.namespace()).unwrap_or_default();
    let slice = check_carried(work, cluster, &service.namespace, &service.name)?;
    let name = format!("imported-{cluster}-{}", slice["metadata"]["name"].as_str().unwrap_or_default());
    check_name(&name)?;
    let mut imported = rebuilt(slice, &name);
    imported.set_label(LABEL_WORK_ID, work.label(LABEL_WORK_ID).unwrap_or_default());
    imported.set_label(LABEL_SLICE_SERVICE, &derived_name(&service.name));
    imported.set_label(LABEL_SLICE_CONTROLLER, CONTROLLER_IMPORT);
    imported.set_annotation(ANNOTATION_WORK_NAMESPACE, work.namespace());
    imported.set_annotation(ANNOTATION_WORK_NAME, work.name());
    Ok(imported)
}

/// The Work that a slice of the control plane was imported from: its namespace and name.
pub fn imported_from(slice: &Object) -> Option<(&str, &str)> {
    let is_imported = slice.label(LABEL_SLICE_CONTROLLER) == Some(CONTROLLER_IMPORT);
    let (namespace, name) = (slice.annotation(ANNOTATION_WORK_NAMESPACE)?, slice.annotation(ANNOTATION_WORK_NAME)?);
    is_imported.then_some((namespace, name))
}

/// Updates an imported slice: its endpoints, ports and labels follow, marks of policies and bindings stay.
pub fn merge_imported(desired: &Object, existing: &Object) -> Result<Object, SliceRefusal> {
    if imported_from(existing) != imported_from(desired) {
        let namespace = imported_from(desired).unwrap_or_default().0;
        let cluster = cluster_of_execution_namespace(namespace).unwrap_or_default().to_owned();
        return Err(SliceRefusal::Taken { cluster, slice: existing.name().to_owned() });
    }
    let mut merged = existing.clone();
    for (key, value) in desired.labels() {
        merged.set_label(key, value);
    }
    for field in ["addressType", "endpoints", "ports"] {
        crate::binding::replace(&mut merged, desired, &[field]);
    }
    Ok(merged)
}

/// The Service derived from a ServiceImport; `None` for types without one.
pub fn derived_service(import: &Object) -> Result<Option<Object>, Status> {
    let spec: ImportSpec = api::read(import)?;
    if spec.kind != CLUSTER_SET_IP || import.is_deleting() {
        return Ok(None);
    }
    let mut service = Object::new(
        &GroupVersionKind::new("", "v1", "Service"),
        Some(import.namespace()),
        &derived_name(import.name()),
    );
    let ports = spec.ports.iter().map(|port| {
        let mut entry = Map::new();
        let text = |text: &str| Some(Value::from(text)).filter(|_| !text.is_empty());
        entry.extend(text(&port.name).map(|name| ("name".to_owned(), name)));
        entry.extend(text(&port.protocol).map(|protocol| ("protocol".to_owned(), protocol)));
        entry.extend(port.app_protocol.as_deref().map(|protocol| ("appProtocol".to_owned(), protocol.into())));
        entry.insert("port".to_owned(), port.port.into());
        Value::Object(entry)
    });
    service.set(&["spec"], json!({"type": "ClusterIP", "ports": ports.collect::<Vec<_>>()}));
    if !spec.session_affinity.is_empty() {
        service.set(&["spec", "sessionAffinity"], spec.session_affinity.as_str());
    }
    if let Some(config) = spec.session_affinity_config {
        service.set(&["spec", "sessionAffinityConfig"], config);
    }
    let ingress: Vec<Value> = spec.ips.iter().map(|ip| json!({"ip": ip})).collect();
    service.set(&["status", "loadBalancer"], if ingress.is_empty() { json!({}) } else { json!({"ingress": ingress}) });
    Ok(Some(service))
}

/// Reports whether a Service can be a derived one. Those with a selector are a user's and are left alone.
pub fn may_be_derived(service: &Object) -> bool {
    service.get(&["spec", "selector"]).is_none_or(|selector| selector.as_object().is_none_or(Map::is_empty))
}

/// Reports whether the given manager wrote the spec of a Service.
pub fn has_spec_of(service: &Object, manager: &str) -> bool {
    let entries = service.items(&["metadata", "managedFields"]).iter();
    entries.filter(|entry| entry["manager"] == manager).any(|entry| entry["fieldsV1"]["f:spec"].is_object())
}

/// The derived Service as it should be, over the one that exists. Values that the API server filled in stay where the
/// ServiceImport says the same.
pub fn merge_derived(desired: &Object, existing: &Object) -> Object {
    let mut merged = existing.clone();
    let same = |old: &Value, new: &Value| {
        let new = new.as_object();
        new.is_some_and(|new| new.iter().all(|(key, value)| old[key] == *value))
    };
    let (old, new) = (existing.items(&["spec", "ports"]), desired.items(&["spec", "ports"]));
    let is_same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
    if !is_same {
        merged.set(&["spec", "ports"], new.to_vec());
    }
    merged.set(&["spec", "type"], "ClusterIP");
    for field in ["sessionAffinity", "sessionAffinityConfig"] {
        if let Some(value) = desired.get(&["spec", field]) {
            merged.set(&["spec", field], value.clone());
        }
    }
    merged
}

#[cfg(test)]
mod tests;
