//! APIService aggregation: groups and versions that another server answers for, reached through this one.

use std::sync::Arc;

use access::User;
use http::Response;
use object::Status;

use crate::http::Incoming;
use crate::request::RequestInfo;
use crate::respond::Body;
use crate::server::Server;

#[derive(Default)]
pub struct Aggregator {}

/// A request that belongs to another server.
pub struct Proxied {}

impl Aggregator {
    /// The server a request goes to when this one does not answer for its group and version.
    pub async fn proxy(&self, _server: &Arc<Server>, _user: &Arc<User>, _info: &RequestInfo) -> Option<Proxied> {
        None
    }

    /// Groups other servers answer for, for discovery.
    pub async fn groups(&self, _server: &Arc<Server>) -> Vec<kinds::discovery::Group> {
        Vec::new()
    }

    /// Adds the OpenAPI documents other servers publish to the index.
    pub async fn add_openapi(&self, _server: &Arc<Server>, _index: &mut serde_json::Value) {}

    /// Their aggregated discovery documents.
    pub async fn discovery(&self, _server: &Arc<Server>) -> Vec<serde_json::Value> {
        Vec::new()
    }
}

impl Proxied {
    pub async fn forward(self, _incoming: Incoming) -> Result<Response<Body>, Status> {
        Err(Status::unavailable("service unavailable"))
    }
}
