//! The rules of all groups but core, apps and batch.

mod admission;
pub mod certificates;
mod conditions;
mod coordination;
mod definitions;
mod rbac;
#[cfg(test)]
mod tests;
mod webhook_client;

use std::sync::Arc;

use object::Object;
use serde_json::{Map, Value};

use crate::strategy::Strategy;

pub fn for_kind(group: &str, kind: &str, _version: &str) -> Option<Arc<dyn Strategy>> {
    match group {
        "rbac.authorization.k8s.io" => rbac::for_kind(kind),
        "certificates.k8s.io" => certificates::for_kind(kind),
        "coordination.k8s.io" => coordination::for_kind(kind),
        "admissionregistration.k8s.io" => admission::for_kind(kind),
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
