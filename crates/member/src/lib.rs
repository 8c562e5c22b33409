//! A light Kubernetes cluster in one process: API server, workload controllers, pod placement and nodes.

mod backends;
mod fault_injection;
mod options;
mod start;
mod streams;

pub use options::{Containers, MemberOptions, Runtime};
pub use simulated_nodes::SimulatedNodeSettings;
pub use start::RunningMember;
