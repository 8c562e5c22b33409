//! Looks after members as objects: lifecycle, health, rights, quotas, namespaces, remedies.
//!
//! One file or folder per controller of Karmada. Each gathers from mirrors, decides in a pure function, and commits what
//! differs. Nothing here talks to a member: what must reach one travels as a Work.

mod access;
mod cron;
mod eviction;
mod figures;
mod health;
mod lifecycle;
mod namespaces;
mod plane;
mod profiles;
mod quota;
mod rebalance;
mod remedies;
mod replicas;
mod scale_targets;
pub mod settings;
mod start;
mod suspend_detector;
mod taint_policies;
mod taints;
#[cfg(test)]
mod testing;
mod works;

pub use settings::Settings;
pub use start::{FleetDeps, controller_names, run};
