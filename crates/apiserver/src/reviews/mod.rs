//! Kinds that are answered and never kept: access reviews, token reviews, self subject reviews.

use std::sync::Arc;

use http::Response;
use object::Status;

use crate::context::Context;
use crate::http::Incoming;
use crate::respond::Body;
use crate::server::Server;
use crate::verbs::Target;

pub async fn serve(
    _server: &Arc<Server>,
    _ctx: &Context,
    target: &Target,
    _incoming: Incoming,
    _record: &crate::audit::Record,
) -> Result<Response<Body>, Status> {
    Err(Status::method_not_allowed(&target.resource.kind.group_resource(), "create"))
}
