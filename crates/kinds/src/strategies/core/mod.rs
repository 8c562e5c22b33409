//! The rules of the core group, one file per kind or family of kinds.

mod account;
pub mod claims;
mod config;
mod endpoints;
mod event;
mod limits;
pub mod namespace;
mod node;
pub mod pod;
mod pod_status;
mod quota;
mod replication;
mod secret;
mod service;
pub mod service_addresses;
mod volume;

pub use replication::{controller_warnings, validate_always_restarts, validate_collisions, validate_replica_counts};

use std::sync::Arc;

use crate::strategy::Strategy;

pub fn for_kind(kind: &str, _version: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "Pod" => Arc::new(pod::Pod),
        "PodTemplate" => Arc::new(replication::PodTemplate),
        "ReplicationController" => Arc::new(replication::ReplicationController),
        "Service" => Arc::new(service::Service),
        "Endpoints" => Arc::new(endpoints::Endpoints),
        "Node" => Arc::new(node::Node),
        "Namespace" => Arc::new(namespace::Namespace),
        "ConfigMap" => Arc::new(config::ConfigMap),
        "Secret" => Arc::new(secret::Secret),
        "ServiceAccount" => Arc::new(account::ServiceAccount),
        "PersistentVolume" => Arc::new(volume::PersistentVolume),
        "PersistentVolumeClaim" => Arc::new(claims::PersistentVolumeClaim),
        "ResourceQuota" => Arc::new(quota::ResourceQuota),
        "LimitRange" => Arc::new(limits::LimitRange),
        "Event" => Arc::new(event::Event),
        "Binding" => Arc::new(pod::Binding),
        _ => return None,
    })
}
