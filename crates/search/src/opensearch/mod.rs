//! Writes cached objects to OpenSearch, for registries with `backendStore.openSearch`.
//!
//! Documents have the form, index names and ids that karmada-search gives them. Each copy of a resource has a task that
//! reads its changes, at most one per object, so that a slow or unreachable server costs no more memory than the copy.
//! Writes carry the object's version, so that replicas of the control plane that write the same document do not undo
//! newer writes of each other.

mod client;
mod document;
mod export;

use api::search::OpenSearch;

pub use export::Exports;

/// The servers of a registry, and the Secret with their user and password.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub addresses: Vec<String>,
    pub secret_namespace: String,
    pub secret_name: String,
}

impl Destination {
    pub fn of(store: &OpenSearch) -> Self {
        Self {
            addresses: store.addresses.clone(),
            secret_namespace: store.secret_ref.namespace.clone(),
            secret_name: store.secret_ref.name.clone(),
        }
    }
}
