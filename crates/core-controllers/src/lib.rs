//! The kube-controller-manager controllers of a control plane without nodes: namespaces, garbage collection,
//! accounts, certificates, quotas.
//!
//! Every controller gathers, decides in a pure function, and commits. One watch per resource (`resource_watcher`) feeds the
//! garbage collector, the quota recount and the removal of finished jobs; the others mirror the few objects they need.

mod accounts;
mod bootstrap;
mod certificates;
mod events;
mod garbage;
mod jobs;
mod namespaces;
mod quota;
mod resource_watcher;
mod resources;
mod roles;
mod start;

pub use certificates::AgentApproval;
pub use start::{ControllerClients, ControllerParameters, SignToken, run};
