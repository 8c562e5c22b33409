//! The client for any Kubernetes API, in process or over the network.

use std::sync::Arc;

use bytes::Bytes;
use object::{Object, Status};

use crate::backend::{Backend, Identity, Origin, Upgraded, UserInfo};
use crate::call::{
    ApiCall, DeleteOptions, ListOptions, ObjectList, Patch, Reply, ResourceRef, Verb, WatchCall, WatchEvents,
    WriteOptions,
};
use crate::remote::Remote;
use crate::remote::config::RemoteConfig;
use crate::remote::credentials::CredentialError;
use crate::remote::proxy::ProxyError;
use crate::remote::tls::TlsError;

/// Objects per page when a whole collection is read.
pub const PAGE_SIZE: u64 = 500;

/// Maximum restarts of `list_all` when its pages expire.
const LIST_RESTARTS_MAX: usize = 3;

/// A handle on one Kubernetes API as one identity. Clones share the connection.
#[derive(Clone)]
pub struct ClusterClient {
    backend: Arc<dyn Backend>,
    identity: Arc<Identity>,
}

/// The location of the API.
#[expect(clippy::large_enum_variant, reason = "made once and taken apart at once")]
pub enum Endpoint {
    /// In this process: no socket, no encoding.
    Direct { server: Arc<dyn Backend>, identity: Identity },
    /// Over the network.
    Remote(RemoteConfig),
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{0:?} is not the address of a server; it must be like https://host:port")]
    Server(String),
    #[error("credentials are not sent without TLS; {0} must start with https://")]
    CredentialsInTheClear(String),
    #[error("cannot read the certificate authority")]
    CertificateAuthority(#[source] std::io::Error),
    #[error("not a name a certificate can have")]
    ServerName(#[source] std::io::Error),
    #[error("cannot connect: {0}")]
    Open(#[source] std::io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("the user agent cannot be sent in a header")]
    UserAgent,
}

impl ClusterClient {
    /// The only constructor. It opens no connection: an unavailable API fails the first call.
    pub fn connect(endpoint: Endpoint) -> Result<Self, ConnectError> {
        let (backend, identity) = match endpoint {
            Endpoint::Direct { server, identity } => (server, identity),
            Endpoint::Remote(config) => {
                let identity = Identity { user: UserInfo::default(), impersonated: config.impersonate.clone() };
                (Arc::new(Remote::new(config)?) as Arc<dyn Backend>, identity)
            }
        };
        Ok(Self { backend, identity: Arc::new(identity) })
    }

    /// The same API, impersonating a user. The API checks the permission.
    pub fn impersonating(&self, user: UserInfo) -> Self {
        let identity = Identity { user: self.identity.user.clone(), impersonated: Some(user) };
        Self { backend: Arc::clone(&self.backend), identity: Arc::new(identity) }
    }

    /// The same API as the same identity, through a wrapper around every call.
    pub fn through(&self, wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>) -> Self {
        Self { backend: wrap(Arc::clone(&self.backend)), identity: Arc::clone(&self.identity) }
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Any call; the reply includes the code and the warnings.
    pub async fn call(&self, target: ResourceRef, verb: Verb) -> Result<Reply, Status> {
        self.backend.call(&self.identity, ApiCall { target, verb }).await
    }

    pub async fn get(&self, target: ResourceRef) -> Result<Arc<Object>, Status> {
        self.call(target, Verb::Get { resource_version: None }).await?.into_object()
    }

    /// Like `get`, but `None` if not found.
    pub async fn find(&self, target: ResourceRef) -> Result<Option<Arc<Object>>, Status> {
        match self.get(target).await {
            Ok(object) => Ok(Some(object)),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// One page.
    pub async fn list(&self, target: ResourceRef, options: ListOptions) -> Result<ObjectList, Status> {
        self.call(target, Verb::List(options)).await?.into_list()
    }

    /// Every page, as one consistent list. Restarts if pages expire meanwhile.
    pub async fn list_all(&self, target: ResourceRef, options: ListOptions) -> Result<ObjectList, Status> {
        let mut restarts = 0;
        loop {
            match self.list_pages(&target, &options).await {
                Err(status) if status.is_expired() && restarts < LIST_RESTARTS_MAX => restarts += 1,
                result => return result,
            }
        }
    }

    async fn list_pages(&self, target: &ResourceRef, options: &ListOptions) -> Result<ObjectList, Status> {
        let first = ListOptions { limit: options.limit.or(Some(PAGE_SIZE)), ..options.clone() };
        let mut list = self.list(target.clone(), first.clone()).await?;
        while !list.continue_token.is_empty() {
            // The token pins the version; the API rejects an explicit one next to it.
            let next = ListOptions {
                continue_token: Some(std::mem::take(&mut list.continue_token)),
                resource_version: None,
                resource_version_match: None,
                ..first.clone()
            };
            let page = self.list(target.clone(), next).await?;
            list.items.extend(page.items);
            list.continue_token = page.continue_token;
            list.resource_version = page.resource_version;
        }
        list.remaining_item_count = None;
        Ok(list)
    }

    /// Creates in the collection (or subresource) of `target`; the object carries its own name.
    pub async fn create(
        &self,
        target: ResourceRef,
        object: Object,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.call(target, Verb::Create { object, options }).await?.into_object()
    }

    /// Replaces the object; its resourceVersion, if set, must match the stored one.
    pub async fn update(
        &self,
        target: ResourceRef,
        object: Object,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.call(target, Verb::Update { object, options }).await?.into_object()
    }

    pub async fn update_status(
        &self,
        target: ResourceRef,
        object: Object,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.update(target.subresource("status"), object, options).await
    }

    pub async fn patch(&self, target: ResourceRef, patch: Patch, options: WriteOptions) -> Result<Arc<Object>, Status> {
        self.call(target, Verb::Patch { patch, options }).await?.into_object()
    }

    /// Server-side apply with `force`: a controller takes over conflicting fields.
    pub async fn apply(&self, target: ResourceRef, object: Object, field_manager: &str) -> Result<Arc<Object>, Status> {
        self.patch(target, Patch::apply(object, true), WriteOptions::managed_by(field_manager)).await
    }

    /// Returns the last state of the object, or a `Status` object; the API decides which.
    pub async fn delete(&self, target: ResourceRef, options: DeleteOptions) -> Result<Arc<Object>, Status> {
        self.call(target, Verb::Delete(options)).await?.into_object()
    }

    pub async fn delete_collection(
        &self,
        target: ResourceRef,
        delete: DeleteOptions,
        list: ListOptions,
    ) -> Result<Reply, Status> {
        self.call(target, Verb::DeleteCollection { delete, list }).await
    }

    pub async fn watch(&self, request: WatchCall) -> Result<WatchEvents, Status> {
        self.backend.watch(&self.identity, request).await
    }

    /// A reference to an object from a watch, if its API is in this process and still has that version.
    pub fn origin(&self, object: &ResourceRef, resource_version: &str) -> Option<Arc<dyn Origin>> {
        self.backend.origin(object, resource_version)
    }

    /// Any path. A response of 400 and above is not an error here.
    pub async fn raw(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        self.backend.raw(&self.identity, request).await
    }

    /// A request whose connection switches protocols. Any response except 101 is an error.
    pub async fn upgrade(&self, request: http::Request<Bytes>) -> Result<Upgraded, Status> {
        self.backend.upgrade(&self.identity, request).await
    }

    /// Switches to another client certificate (PEM) without a restart; clones do too.
    pub fn use_certificate(&self, certificate: &[u8], key: &[u8]) -> Result<(), Status> {
        self.backend.use_certificate(certificate, key)
    }

    /// The JSON at a path, such as `/version`.
    pub async fn get_json(&self, path: &str) -> Result<serde_json::Value, Status> {
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|e| Status::bad_request(format!("not a path: {e}")))?;
        let response = self.raw(request).await?;
        if response.status().as_u16() >= 400 {
            return Err(Status::from_response(response.status().as_u16(), response.body()));
        }
        serde_json::from_slice(response.body()).map_err(Status::internal)
    }
}
