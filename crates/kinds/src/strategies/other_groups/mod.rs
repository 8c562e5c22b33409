//! The rules of all groups but core, apps and batch.

pub mod admission;
mod apiregistration;
mod autoscaling;
pub mod certificates;
mod conditions;
mod coordination;
mod definitions;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod reviews;
mod scheduling;
mod storage;
#[cfg(test)]
mod tests;
pub mod webhook_client;

use std::sync::Arc;

use object::{FieldError, FieldErrorKind, Object};
use serde_json::{Map, Value};

use crate::strategies::fields::Field;
use crate::strategy::Strategy;

pub fn for_kind(group: &str, kind: &str, version: &str) -> Option<Arc<dyn Strategy>> {
    match group {
        "rbac.authorization.k8s.io" => rbac::for_kind(kind),
        "certificates.k8s.io" => certificates::for_kind(kind),
        "coordination.k8s.io" => coordination::for_kind(kind),
        "admissionregistration.k8s.io" => admission::for_kind(kind),
        "autoscaling" => autoscaling::for_kind(kind, version),
        "apiregistration.k8s.io" => apiregistration::for_kind(kind),
        "authentication.k8s.io" | "authorization.k8s.io" => reviews::for_kind(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::for_kind(kind),
        "resource.k8s.io" => resource::for_kind(kind),
        "networking.k8s.io" => networking::for_kind(kind),
        "policy" => policy::for_kind(kind),
        "storage.k8s.io" => storage::for_kind(kind),
        "scheduling.k8s.io" => scheduling::for_kind(kind),
        "discovery.k8s.io" => discovery::for_kind(kind),
        "events.k8s.io" => events::for_kind(kind),
        "node.k8s.io" => node::for_kind(kind),
        "apiextensions.k8s.io" => definitions::for_kind(kind),
        _ => None,
    }
}

/// A part that kube-apiserver always shows, be it empty.
fn show_empty(object: &mut Object, field: &str) {
    let slot = object.as_map_mut().entry(field).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
}

/// An error whose value is a structure of the server's own, already in the form it is shown in.
fn invalid_shown(field: Field<'_>, shown: &str, detail: &str) {
    let detail = format!("{shown}: {detail}");
    field.push(FieldError { kind: FieldErrorKind::Invalid, path: field.field_path(), value: None, detail });
}
