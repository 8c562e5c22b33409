//! Cluster membership: join, unjoin, register, unregister, bootstrap tokens, and the credentials and permissions they create.
//!
//! Every operation is an `async fn(options, progress) -> Result<Outcome, MembershipError>`. Nothing here parses
//! arguments or writes to a terminal; callers implement [`Progress`] to show what happens.

pub mod agent_manifests;
pub mod cluster_api;
pub mod cluster_name;
pub mod credentials;
mod error;
pub mod invitation;
pub mod join;
mod member_access;
pub mod plane_manifests;
mod progress;
pub mod register;
pub mod registration;
pub mod renewal;
pub mod rights;
pub mod token;
pub mod unjoin;
pub mod unregister;

pub use error::MembershipError;
pub use member_access::{ClusterLocation, MemberAccess, read_kubeconfig};
pub use progress::{NoProgress, Progress};
