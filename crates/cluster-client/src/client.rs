//! The client for any Kubernetes API, in process or over the network.

use std::sync::Arc;

use bytes::Bytes;
use object::request::{DeleteOptions, ListOptions, Subresource, User, WriteOptions};
use object::{Object, Status};

use crate::backend::{Backend, Identity, Origin, Upgraded};
use crate::call::{ApiCall, ApiRequest, ObjectList, Patch, Reply, ResourceRef, WatchCall, WatchEvents};
use crate::remote::bounded::{MemoryBudget, OBJECT_MEMORY_MAX, read_value};
use crate::remote::config::RemoteConfig;
use crate::remote::credentials::CredentialError;
use crate::remote::proxy::ProxyError;
use crate::remote::tls::TlsError;
use crate::remote::{Remote, is_too_large};

/// Objects per page when a whole collection is read.
pub const PAGE_SIZE: u64 = 500;

/// Factor by which the page size is reduced after a page that is too large.
const PAGE_SHRINK: u64 = 10;

/// Maximum number of times `list_all` starts over when its continue token expires.
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

/// Creates clients of the clusters that a control plane manages, by their names.
pub trait MemberClients: Send + Sync {
    /// Returns a client, possibly before the cluster is reachable.
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status>;
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

/// The pages of a collection that are still to be read.
pub struct Pages {
    client: ClusterClient,
    target: ResourceRef,
    next: Option<ListOptions>,
    limit: u64,
}

impl Pages {
    /// The next page; `None` after the last. A page that is too large is asked for again with fewer objects.
    pub async fn next(&mut self) -> Result<Option<ObjectList>, Status> {
        let Some(options) = self.next.clone() else { return Ok(None) };
        let page = loop {
            let asked = ListOptions { limit: Some(self.limit), ..options.clone() };
            match self.client.list(self.target.clone(), asked).await {
                Err(status) if is_too_large(&status) && self.limit > 1 => {
                    self.limit = (self.limit / PAGE_SHRINK).max(1);
                }
                answer => break answer?,
            }
        };
        self.next = (!page.continue_token.is_empty()).then(|| ListOptions {
            continue_token: Some(page.continue_token.clone()),
            // The token pins the version; the API refuses another one next to it.
            resource_version: None,
            resource_version_match: None,
            ..options
        });
        Ok(Some(page))
    }
}

impl ClusterClient {
    /// The only constructor. It opens no connection: an unavailable API fails the first call.
    pub fn connect(endpoint: Endpoint) -> Result<Self, ConnectError> {
        let (backend, identity) = match endpoint {
            Endpoint::Direct { server, identity } => (server, identity),
            Endpoint::Remote(config) => {
                let identity = Identity { user: User::default(), impersonated: config.impersonate.clone() };
                (Arc::new(Remote::new(config)?) as Arc<dyn Backend>, identity)
            }
        };
        Ok(Self { backend, identity: Arc::new(identity) })
    }

    /// The same API, impersonating a user. The API checks the permission.
    pub fn impersonating(&self, user: User) -> Self {
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
    pub async fn call(&self, target: ResourceRef, request: ApiRequest) -> Result<Reply, Status> {
        self.backend.call(&self.identity, ApiCall { target, request }).await
    }

    pub async fn get(&self, target: ResourceRef) -> Result<Arc<Object>, Status> {
        self.call(target, ApiRequest::Get { resource_version: None }).await?.into_object()
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
        self.call(target, ApiRequest::List(options)).await?.into_list()
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
        let mut pages = self.pages(target.clone(), options.clone());
        let mut list = ObjectList::default();
        while let Some(mut page) = pages.next().await? {
            list.items.append(&mut page.items);
            list = ObjectList { items: list.items, ..page };
        }
        list.remaining_item_count = None;
        list.continue_token.clear();
        Ok(list)
    }

    /// Reads a collection page by page, for callers that need not hold all of it as trees.
    pub fn pages(&self, target: ResourceRef, options: ListOptions) -> Pages {
        let limit = options.limit.unwrap_or(PAGE_SIZE);
        Pages { client: self.clone(), target, next: Some(options), limit }
    }

    /// Creates in the collection (or subresource) `target` names; the object carries its own name.
    pub async fn create(
        &self,
        target: ResourceRef,
        object: Object,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.call(target, ApiRequest::Create { object, options }).await?.into_object()
    }

    /// Replaces the object; its resourceVersion, if set, must match the stored one.
    pub async fn update(
        &self,
        target: ResourceRef,
        object: Object,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.call(target, ApiRequest::Update { object, options }).await?.into_object()
    }

    pub async fn update_status(
        &self,
        target: ResourceRef,
        object: Object,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.update(target.subresource(Subresource::Status), object, options).await
    }

    pub async fn patch(&self, target: ResourceRef, patch: Patch, options: WriteOptions) -> Result<Arc<Object>, Status> {
        self.call(target, ApiRequest::Patch { patch, options }).await?.into_object()
    }

    /// Server-side apply with `force`: a controller takes over conflicting fields.
    pub async fn apply(&self, target: ResourceRef, object: Object, field_manager: &str) -> Result<Arc<Object>, Status> {
        self.patch(target, Patch::apply(object, true), WriteOptions::managed_by(field_manager)).await
    }

    /// Returns the last state of the object, or a `Status` object; the API decides which.
    pub async fn delete(&self, target: ResourceRef, options: DeleteOptions) -> Result<Arc<Object>, Status> {
        self.call(target, ApiRequest::Delete(options)).await?.into_object()
    }

    pub async fn delete_collection(
        &self,
        target: ResourceRef,
        delete: DeleteOptions,
        list: ListOptions,
    ) -> Result<Reply, Status> {
        self.call(target, ApiRequest::DeleteCollection { delete, list }).await
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

    /// The number of times an object of the API could not be read and was left out of an answer.
    pub fn unreadable_objects(&self) -> u64 {
        self.backend.unreadable_objects()
    }

    /// Goes on with another client certificate (PEM), without a restart; clones do too.
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
        read_value(response.body(), &MemoryBudget::new(OBJECT_MEMORY_MAX)).map_err(Status::internal)
    }
}
