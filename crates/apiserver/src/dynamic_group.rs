//! API groups whose resources are known only to their handler and may change at any time, such as custom metrics.

use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use object::Status;
use object::request::User;

use crate::http::Incoming;
use crate::respond::Body;
use crate::server::Server;

/// A request for such a group, after authorization.
pub struct DynamicRequest {
    pub incoming: Incoming,
    pub user: Arc<User>,
}

/// A resource as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicResource {
    /// With its subresource, if any: `pods/http_requests`.
    pub name: String,
    pub kind: &'static str,
    pub namespaced: bool,
}

/// Answers for one group.
#[async_trait]
pub trait DynamicGroup: Send + Sync {
    fn group(&self) -> &str;

    /// The preferred version first.
    fn versions(&self) -> &[&'static str];

    /// The resources known so far, without waiting. A group without any is not listed.
    fn known(&self) -> Vec<DynamicResource>;

    /// The resources of the moment, for a request for the list itself.
    async fn resources(&self) -> Vec<DynamicResource>;

    async fn serve(&self, server: &Arc<Server>, request: DynamicRequest) -> Result<Response<Body>, Status>;
}
