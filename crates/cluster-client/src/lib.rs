//! One small trait for any Kubernetes API, and one client for it, in process and over the network.

pub mod backend;
pub mod call;
pub mod client;
pub mod discovery;
pub mod kubeconfig;
pub mod remote;
#[cfg(feature = "testing")]
pub mod testing;

pub use backend::{Backend, Identity, Origin, Upgraded, UserInfo};
pub use call::{
    ApiCall, DeleteOptions, FieldValidation, ListOptions, ObjectList, Patch, PatchKind, Preconditions,
    PropagationPolicy, Reply, ReplyBody, ResourceRef, Verb, VersionMatch, WatchCall, WatchEvent, WatchEvents,
    WriteOptions,
};
pub use client::{ClusterClient, ConnectError, Endpoint};
pub use discovery::{ApiResource, ApiResources, DiscoveryTags, RestMapper};
pub use kubeconfig::{Kubeconfig, KubeconfigError};
pub use remote::config::RemoteConfig;
pub use remote::{escape, is_unreachable};
