//! A light Kubernetes cluster in one process: API server, workload controllers, pod placement and nodes.

mod disturbance;
mod start;

pub use start::{Member, Options};
