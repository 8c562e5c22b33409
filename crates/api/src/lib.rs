//! Karmada's API: the kinds of every group as types, with their labels, annotations, finalizers and names.

pub mod affinity;
pub mod apportion;
pub mod apps;
pub mod autoscaling;
pub mod capacity;
pub mod cluster;
pub mod config;
pub mod core;
pub mod failover;
pub mod features;
pub mod multicluster;
pub mod names;
pub mod networking;
pub mod policy;
pub mod remedy;
pub mod resource;
pub mod safe_mode;
pub mod search;
pub mod tunnel;
pub mod work;

pub use resource::{Resource, read, read_at};
