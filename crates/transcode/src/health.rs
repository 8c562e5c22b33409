//! The service `grpc.health.v1.Health`.

use bytes::Bytes;
use futures::{StreamExt, stream};
use object::Status;
use prost::Message;

use crate::call::Results;
use crate::grpc;

pub const CHECK: &str = "/grpc.health.v1.Health/Check";
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";

const SERVING: i32 = 1;
const SERVICE_UNKNOWN: i32 = 3;

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

fn requested(body: &[u8]) -> Result<String, Status> {
    let message = grpc::single(body)?;
    let request = HealthCheckRequest::decode(message);
    request.map(|request| request.service).map_err(|error| Status::bad_request(error.to_string()))
}

fn answer(status: i32) -> Bytes {
    HealthCheckResponse { status }.encode_to_vec().into()
}

/// Answers for a service; the empty name means the whole server. The server answers at all only while it serves.
pub fn check(body: &[u8], is_known: impl Fn(&str) -> bool) -> Result<Bytes, Status> {
    let service = requested(body)?;
    match service.is_empty() || is_known(&service) {
        true => Ok(answer(SERVING)),
        false => Err(Status::new(404, "NotFound", "unknown service")),
    }
}

/// Sends the state once and keeps the stream open.
pub fn watch(body: &[u8], is_known: impl Fn(&str) -> bool) -> Result<Results<Bytes>, Status> {
    let service = requested(body)?;
    let state = if service.is_empty() || is_known(&service) { SERVING } else { SERVICE_UNKNOWN };
    Ok(Box::pin(stream::iter([Ok(answer(state))]).chain(stream::pending())))
}
