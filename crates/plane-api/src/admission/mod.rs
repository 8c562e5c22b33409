//! Admission steps of a control plane: Karmada's webhook rules, the limits of agents, and safe mode after a restore.

pub mod agents;
pub mod cluster_secrets;
pub mod karmada;
pub mod registry_stores;
pub mod safe_mode;
