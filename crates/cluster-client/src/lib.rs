//! One small trait for any Kubernetes API, and one client for it, in process and over the network.

pub mod backend;
pub mod call;
pub mod client;
pub mod discovery;
pub mod kubeconfig;
pub mod remote;
#[cfg(feature = "testing")]
pub mod testing;

pub use backend::{Backend, Identity, Origin, Upgraded};
pub use call::{
    ApiCall, ApiRequest, ObjectList, Patch, Reply, ReplyBody, ResourceRef, WatchCall, WatchEvent, WatchEvents,
};
pub use client::{ClusterClient, ConnectError, Endpoint, MemberClients};
pub use discovery::{ApiResource, ApiResources, DiscoveryTags, RestMapper};
pub use kubeconfig::{Kubeconfig, KubeconfigError};
pub use remote::config::RemoteConfig;
pub use remote::{escape, is_unreachable};

// The vocabulary of requests in the signatures of this crate.
pub use object::request::{
    DeleteOptions, FieldValidation, ListOptions, PatchKind, Preconditions, PropagationPolicy, Subresource, User,
    VersionMatch, WriteOptions,
};
