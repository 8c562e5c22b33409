//! Provisioners of a testbed's clusters: one trait, with an implementation per environment.

pub mod host;
pub mod kubeconfig;
pub mod lxd;
mod machine;
pub mod process;

pub use machine::{Condition, Error, Forward, Machine, Output, Provisioner};
