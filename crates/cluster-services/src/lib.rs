//! Controllers around pods in a member cluster: scheduling, endpoints, autoscaling, disruption budgets, volumes, node
//! lifecycle.

mod addresses;
mod autoscaling;
mod conditions;
mod disruption;
mod endpoints;
mod members;
mod node_lifecycle;
mod own_writes;
mod pod_gc;
mod resources;
mod room;
mod scales;
mod scheduling;
mod settings;
mod start;
#[cfg(test)]
mod testing;
mod volumes;

pub use crate::settings::Settings;
pub use crate::start::{Parts, run};
