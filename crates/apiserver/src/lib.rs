//! The Kubernetes API over a store: what kube-apiserver is to its clients, in one crate.
//!
//! A request: listen → authenticate → authorize → route → decode once → default, admit, validate → one guarded write →
//! the committed bytes go to the caller, to the cache and from there to every watcher without being encoded again.

pub mod activity;
pub mod admission;
pub mod aggregate;
pub mod audit;
pub mod auth;
pub mod cache;
pub mod context;
mod convert;
mod crd;
pub mod decode;
pub mod direct;
mod disturbance;
pub mod documents;
pub mod dynamic_group;
pub mod extension;
mod flow;
pub mod forwarding;
mod generated_name;
pub mod health;
mod housekeeping;
pub mod http;
pub mod limits;
mod managed;
pub mod metrics;
pub mod mount;
pub mod outgoing;
pub mod request;
pub mod resources;
pub mod respond;
mod reviews;
pub mod scope;
pub mod served_resources;
pub mod server;
mod shape;
pub mod storage;
pub mod subresource;
mod system_objects;
pub mod usage;
mod validate;
pub mod verbs;

use std::sync::Arc;

use object::{Object, Status};

/// Brings the store to the state clients rely on: system namespaces, default roles and `additions` of the same kinds. Starts
/// the controllers of the server itself.
pub async fn prepare(server: &Arc<server::Server>, additions: Vec<Object>) -> Result<(), Status> {
    auth::bootstrap::ensure(server.write_scope(), additions).await?;
    system_objects::ensure(server.resources(), server.port()).await?;
    crd::controller::start(server).await?;
    aggregate::start(server).await?;
    housekeeping::start(server);
    Ok(())
}
