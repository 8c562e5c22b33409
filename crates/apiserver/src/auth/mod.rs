//! Who is asking, and may they: authentication, impersonation and authorization of every request.

pub mod token_request;

use std::sync::Arc;

use access::User;
use http::HeaderMap;
use object::Status;

use crate::http::Peer;
use crate::request::RequestInfo;
use crate::server::Server;

/// Everything the server needs to know its callers.
#[derive(Default)]
pub struct Auth {}

impl Auth {
    /// The user behind a request; 401 when credentials are given and wrong.
    pub async fn authenticate(
        &self,
        _server: &Server,
        _peer: &Peer,
        _headers: &HeaderMap,
    ) -> Result<Arc<User>, Status> {
        Err(Status::unauthorized())
    }

    /// The user the request acts as: the caller, or whom the `Impersonate-*` headers name when the caller may.
    pub async fn impersonated(
        &self,
        _server: &Server,
        caller: &Arc<User>,
        _headers: &HeaderMap,
    ) -> Result<Arc<User>, Status> {
        Ok(caller.clone())
    }

    /// 403 unless the user may do this.
    pub async fn authorize(&self, _server: &Server, _user: &User, _info: &RequestInfo) -> Result<(), Status> {
        Err(Status::unauthorized())
    }

    /// The OIDC documents by which others verify this server's tokens.
    pub fn openid(&self, path: &str) -> Result<http::Response<crate::respond::Body>, Status> {
        Err(Status::new(404, "NotFound", format!("{path} is not served")))
    }
}
