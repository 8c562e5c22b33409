//! The trait of an API that a `ClusterClient` can reach, and the identity of the caller.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object::request::User;
use object::{Object, Status};

use crate::call::{ApiCall, Reply, ResourceRef, WatchCall, WatchEvents};
use crate::remote::connect::Stream;

/// A Kubernetes API: a server in this process, or one behind a socket.
///
/// A backend behaves like the API over HTTP: it performs authorization, admission, defaulting and validation, and
/// fails with `Status` errors that have the usual codes and reasons.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status>;

    /// Opens a watch. The stream ends when the server closes it; an error inside it arrives as `WatchEvent::Error`
    /// and is the last event.
    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status>;

    /// A reference to an object that this process already has encoded at exactly this version, so that watchers need
    /// not keep a copy. `None` if there is none.
    fn origin(&self, _object: &ResourceRef, _resource_version: &str) -> Option<Arc<dyn Origin>> {
        None
    }

    /// Any other path: discovery, `/version`, health, OpenAPI. Responses of 400 and above are not errors; the error
    /// is for a request without a response.
    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status>;

    /// A request with an `Upgrade` header, whose connection switches protocols. Any response except 101 is an error.
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
    /// Headers of the 101 response.
    pub headers: http::HeaderMap,
    pub stream: Box<dyn Stream>,
}

/// An object at one version, decoded on demand.
pub trait Origin: Send + Sync {
    /// The object as a watch delivers it.
    fn object(&self) -> Arc<Object>;
}

/// The identity of a caller.
///
/// In process, `user` is the caller. Over the network the credentials determine the caller and `user` is not sent. In
/// both cases `impersonated` requests another identity, and the API checks the caller's permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: User,
    pub impersonated: Option<User>,
}

impl Identity {
    pub fn of(user: User) -> Self {
        Self { user, impersonated: None }
    }
}
