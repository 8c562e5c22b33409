//! Other APIs below a path of this server, with the callers of this server.

use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use object::Status;
use object::request::User;

use crate::http::{Incoming, Peer};
use crate::respond::Body;
use crate::server::Server;

/// A request for a mounted API. Nothing about it has been authorized.
pub struct MountRequest {
    pub incoming: Incoming,
    pub peer: Arc<Peer>,
    /// The user at this server; `None` when this server does not accept the credentials, which may be for the mounted API.
    pub user: Option<Arc<User>>,
}

/// The names by which a client addressed the server. Clients choose them independently.
pub struct RequestedNames<'a> {
    /// The name in the TLS handshake (SNI).
    pub server_name: Option<&'a str>,
    /// The authority of HTTP/2 or the header `Host`; it may have a port.
    pub host: Option<&'a str>,
}

/// Serves the paths of other APIs. It authorizes callers itself.
#[async_trait]
pub trait Mount: Send + Sync {
    fn handles(&self, path: &str) -> bool;

    /// Returns the path at this server of a request to a name that belongs to one mounted API, `None` for other names.
    /// The error refuses a request whose names contradict each other.
    fn path_by_name(&self, names: &RequestedNames<'_>, path: &str) -> Result<Option<String>, Status>;

    async fn serve(&self, server: &Arc<Server>, request: MountRequest) -> Result<Response<Body>, Status>;
}
