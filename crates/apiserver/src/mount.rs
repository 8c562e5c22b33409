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

/// Serves the paths of other APIs. It authorizes callers itself.
#[async_trait]
pub trait Mount: Send + Sync {
    fn handles(&self, path: &str) -> bool;

    async fn serve(&self, server: &Arc<Server>, request: MountRequest) -> Result<Response<Body>, Status>;
}
