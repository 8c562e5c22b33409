//! What an API must offer to be reached through a `ClusterClient`, and who is asking.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object::{Object, Status};

use crate::call::{ApiCall, Reply, ResourceRef, WatchCall, WatchEvents};
use crate::remote::connect::Stream;

/// A Kubernetes API: a server in this process, or one behind a socket.
///
/// A backend answers as the API would over HTTP: authorization, admission, defaulting and validation happen in it, and
/// failures are `Status` errors with the codes and reasons clients know.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status>;

    /// Opens a watch. The stream ends when the server closes it; an error inside it arrives as `WatchEvent::Error`
    /// and is the last event.
    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status>;

    /// A hold on an object that this process has encoded anyway, at exactly this version; for those who were shown it by
    /// a watch and would otherwise keep a copy. `None` when there is no such thing.
    fn origin(&self, _object: &ResourceRef, _resource_version: &str) -> Option<Arc<dyn Origin>> {
        None
    }

    /// Any other path: discovery, `/version`, health, OpenAPI. Answers of 400 and above are responses, not errors; the
    /// error is for a request that got no answer.
    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status>;

    /// A request whose connection becomes something else, with the `Upgrade` header that names it. Any answer but 101 is
    /// an error.
    async fn upgrade(&self, _identity: &Identity, _request: http::Request<Bytes>) -> Result<Upgraded, Status> {
        Err(Status::new(501, "NotImplemented", "an API in this process has no connections to upgrade"))
    }

    /// The number of times an object of the API could not be read and was left out of an answer.
    fn unreadable_objects(&self) -> u64 {
        0
    }

    /// From now on new connections are opened with this client certificate (PEM). Where there are no connections, the
    /// caller is known otherwise and nothing changes.
    fn use_certificate(&self, _certificate: &[u8], _key: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

/// A connection that is no longer HTTP.
pub struct Upgraded {
    /// Of the answer that switched.
    pub headers: http::HeaderMap,
    pub stream: Box<dyn Stream>,
}

/// An object at one version, decoded when asked for.
pub trait Origin: Send + Sync {
    /// As a watch shows it.
    fn object(&self) -> Arc<Object>;
}

/// A user as the authenticator saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Who makes a call.
///
/// In process, `user` is the caller. Over the network the credentials decide who the caller is and `user` is not sent.
/// In both, `impersonated` asks to act as someone else, and the API checks that the caller may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: UserInfo,
    pub impersonated: Option<UserInfo>,
}

impl UserInfo {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|g| (*g).to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// The user a service account's token stands for.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let namespace_group = format!("system:serviceaccounts:{namespace}");
        Self::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &namespace_group, "system:authenticated"],
        )
    }
}

impl Identity {
    pub fn of(user: UserInfo) -> Self {
        Self { user, impersonated: None }
    }
}
