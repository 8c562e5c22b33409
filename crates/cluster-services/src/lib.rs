//! Controllers around pods in a member cluster: scheduling, endpoints, autoscaling, disruption budgets, volumes, node
//! lifecycle.

mod addresses;
mod autoscaling;
mod disruption;
mod endpoints;
mod mirrors;
mod node_lifecycle;
mod pod_gc;
mod scales;
mod scheduling;
mod selected_pods;
mod settings;
mod start;
#[cfg(test)]
mod testing;
mod volumes;

pub use crate::settings::ClusterServiceSettings;
pub use crate::start::{ClusterServiceDeps, run};
