//! The testbed: a control plane, members and a registry on one machine with one command.

mod bed;
pub mod clusters;
pub mod demo;
mod display;
pub mod doctor;
pub mod expose;
pub mod faults;
pub mod hint;
mod host_cluster;
mod kubeconfig_secret;
pub mod lifecycle;
mod links;
pub mod logs;
mod manager;
pub mod place;
pub mod plan;
pub mod ports;
mod registration;
pub mod runtime;
pub mod snapshot;
pub mod spec;
pub mod status;
pub mod supervisor;
mod up;

pub use bed::Testbed;
pub use up::up;
