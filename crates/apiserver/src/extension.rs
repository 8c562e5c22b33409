//! Paths that are not about stored objects and that others answer: `why`, `plan` and the like.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, Method, Response};
use object::Status;
use object::request::User;

use crate::http::Incoming;
use crate::request::RequestInfo;
use crate::respond::Body;
use crate::server::Server;

/// The path prefix of all extensions.
pub const EXTENSIONS_PATH: &str = "/flotilla/";

/// A request below `EXTENSIONS_PATH` after authorization of its path. An extension that returns objects must check that
/// the caller may read them.
pub struct ExtensionRequest {
    pub incoming: Incoming,
    pub user: Arc<User>,
}

impl ExtensionRequest {
    /// Refuses other methods with a text that says how the path is used.
    pub fn check_method(&self, method: &Method, usage: &str) -> Result<(), Status> {
        if self.incoming.method == *method { Ok(()) } else { Err(Status::new(405, "MethodNotAllowed", usage)) }
    }
}

/// Answers for some paths.
#[async_trait]
pub trait Extension: Send + Sync {
    fn handles(&self, path: &str) -> bool;

    /// Also answers this request although the path belongs to another document: a browser opens it as a page.
    fn handles_page(&self, _path: &str, _headers: &HeaderMap) -> bool {
        false
    }

    /// True if it authorizes callers itself; otherwise they need permission for its path.
    fn judges_callers(&self) -> bool {
        false
    }

    /// Callers without valid credentials reach it too, as the anonymous user.
    fn is_public(&self) -> bool {
        false
    }

    /// Requests to a path that stay open: their bodies are not read in advance and they hold no slot.
    fn is_long_running(&self, _path: &str) -> bool {
        false
    }

    /// Rejects a request for a resource, whatever its path. Called for every request, so it must be cheap.
    fn rejection(&self, _info: &RequestInfo, _headers: &HeaderMap) -> Option<Status> {
        None
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status>;
}
