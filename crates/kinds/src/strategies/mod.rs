//! Selects the write rules of each kind; by default only the common ones.

pub mod addresses;
pub mod admissionregistration;
pub mod amount;
mod apiextensions;
pub mod apiregistration;
pub mod apps;
mod authentication;
mod authorization;
mod autoscaling;
pub mod batch;
pub mod certificates;
mod conditions;
mod coordination;
pub mod core;
pub mod defaults;
pub mod diff;
mod discovery;
mod events;
pub mod fields;
mod flowcontrol;
pub mod internal;
pub mod metadata;
mod networking;
mod node;
pub mod pod_spec;
mod policy;
mod rbac;
mod resource;
mod scheduling;
pub mod shape;
mod storage;
#[cfg(test)]
mod tests;
pub mod webhook_client;

use std::sync::Arc;

use object::GroupVersionKind;

use crate::strategy::Strategy;

/// Only the rules common to all kinds.
pub struct Plain;

impl Strategy for Plain {}

/// The rules of a built-in kind; [`Plain`] if it has none of its own.
pub fn for_kind(gvk: &GroupVersionKind) -> Arc<dyn Strategy> {
    let (kind, version) = (gvk.kind.as_str(), gvk.version.as_str());
    let found = match gvk.group.as_str() {
        "" => core::for_kind(kind, version),
        "admissionregistration.k8s.io" => admissionregistration::for_kind(kind),
        "apiextensions.k8s.io" => apiextensions::for_kind(kind),
        "apiregistration.k8s.io" => apiregistration::for_kind(kind),
        "apps" => apps::for_kind(kind, version),
        "authentication.k8s.io" => authentication::for_kind(kind),
        "authorization.k8s.io" => authorization::for_kind(kind),
        "autoscaling" => autoscaling::for_kind(kind, version),
        "batch" => batch::for_kind(kind, version),
        "certificates.k8s.io" => certificates::for_kind(kind),
        "coordination.k8s.io" => coordination::for_kind(kind),
        "discovery.k8s.io" => discovery::for_kind(kind),
        "events.k8s.io" => events::for_kind(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::for_kind(kind),
        "networking.k8s.io" => networking::for_kind(kind),
        "node.k8s.io" => node::for_kind(kind),
        "policy" => policy::for_kind(kind),
        "rbac.authorization.k8s.io" => rbac::for_kind(kind),
        "resource.k8s.io" => resource::for_kind(kind),
        "scheduling.k8s.io" => scheduling::for_kind(kind),
        "storage.k8s.io" => storage::for_kind(kind),
        _ => None,
    };
    found.unwrap_or_else(|| Arc::new(Plain))
}
