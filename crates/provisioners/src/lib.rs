//! Where the clusters of a testbed run: one trait, and an implementation per kind of place.

pub mod host;
pub mod kubeconfig;
pub mod lxd;
mod machine;
pub mod process;

pub use machine::{Condition, Error, Forward, Machine, Output, Provisioner};
