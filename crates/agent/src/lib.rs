//! The agent of a pull-mode member: registration, lease, interpretation, and the sync of its one member.

mod capacity;
mod estimation;
mod lease;
pub mod name_resolution;
mod plane;
pub mod probe;
mod run;
mod tunnel;
mod webhooks;

pub use run::{AgentDeps, AgentReplicas, AgentSettings, run};
