//! A light Kubernetes cluster in one process: API server, workload controllers, pod placement and nodes.

mod backends;
mod disturbance;
mod options;
mod start;
mod streams;

pub use options::{Containers, Options, Runtime};
pub use simulated_nodes::Settings as NodeSettings;
pub use start::Member;
