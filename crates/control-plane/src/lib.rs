//! Wiring: a whole control plane from a data directory, as many of them in one process as wanted.

mod certificates;
mod controllers;
mod options;
mod start;

pub use options::{Options, Storage};
pub use start::ControlPlane;
