//! The management plane: an API server with the manager's kinds, the instances it runs, and the proxy to them.
//!
//! Entry points in front of it (gRPC, REST, the web console) use [`Manager::operations`]: a client to the manager's own API as
//! a user, the instances by name, clients to instances as a user, and the life-cycle operations.

pub mod access;
pub mod accounts;
mod admission;
pub mod api;
mod audit_trail;
mod binding_intake;
mod bootstrap;
mod clusters;
mod endpoints;
mod forward;
mod identity;
mod instance_names;
pub mod kubeconfigs;
pub mod operations;
mod options;
mod peer_mount;
mod planes;
mod proxy;
mod registry;
mod replicas;
mod revocation;
mod role_sync;
mod start;
pub mod tokens;
mod webhooks;

pub use clusters::ImportPolicy;
pub use instances::plane::BackupFormat;
pub use options::ManagerOptions;
pub use planes::{PlaneFlags, PlaneFlagsParser};
pub use start::Manager;
