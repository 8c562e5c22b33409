//! Services across clusters in the control plane: MultiClusterService, slices of exported services, ServiceImport.
//! Slices are collected from members by `member-sync`.

mod derived;
mod dispatch;
mod exposure;
mod imports;
mod plane;
mod settings;
mod start;
#[cfg(test)]
mod testing;

pub use crate::settings::{CONTROLLERS, ServiceSettings};
pub use crate::start::{ServiceDeps, run};
