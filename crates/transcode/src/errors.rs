//! Errors of an API in gRPC and REST: a code, a message, and details in the types of `google.rpc`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use object::Status;
use prost::Message;
use serde_json::{Value, json};

/// The domain of our reasons.
const DOMAIN: &str = "flotilla.dev";

/// An error code of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub number: i32,
    pub http: u16,
}

const fn code(number: i32, http: u16) -> Code {
    Code { number, http }
}

pub const OK: i32 = 0;
const CANCELLED: Code = code(1, 499);
const INVALID_ARGUMENT: Code = code(3, 400);
const DEADLINE_EXCEEDED: Code = code(4, 504);
const NOT_FOUND: Code = code(5, 404);
const ALREADY_EXISTS: Code = code(6, 409);
const PERMISSION_DENIED: Code = code(7, 403);
const RESOURCE_EXHAUSTED: Code = code(8, 429);
const FAILED_PRECONDITION: Code = code(9, 400);
const ABORTED: Code = code(10, 409);
/// `If-Match` names another version.
const STALE: Code = code(10, 412);
const OUT_OF_RANGE: Code = code(11, 400);
const UNIMPLEMENTED: Code = code(12, 501);
const INTERNAL: Code = code(13, 500);
const UNAVAILABLE: Code = code(14, 503);
const UNAUTHENTICATED: Code = code(16, 401);

/// The reason of an operation that the state of an object does not allow.
pub const FAILED_PRECONDITION_REASON: &str = "FailedPrecondition";
/// The reason of a page token that belongs to another query.
pub const OUT_OF_RANGE_REASON: &str = "OutOfRange";

/// Returns an error about the state of an object.
pub fn failed_precondition(message: impl Into<String>) -> Status {
    Status::new(400, FAILED_PRECONDITION_REASON, message)
}

/// Returns an error about a page token.
pub fn out_of_range(message: impl Into<String>) -> Status {
    Status::new(400, OUT_OF_RANGE_REASON, message)
}

/// Returns the code for an error.
pub fn code_of(status: &Status) -> Code {
    match (status.code, status.reason) {
        (_, FAILED_PRECONDITION_REASON) => FAILED_PRECONDITION,
        (_, OUT_OF_RANGE_REASON) => OUT_OF_RANGE,
        (410, _) => OUT_OF_RANGE,
        (400 | 406 | 413 | 415 | 422, _) => INVALID_ARGUMENT,
        (401, _) => UNAUTHENTICATED,
        (403, _) => PERMISSION_DENIED,
        (404, _) => NOT_FOUND,
        (412, _) => STALE,
        (409, "AlreadyExists") => ALREADY_EXISTS,
        (409, _) => ABORTED,
        (429, _) => RESOURCE_EXHAUSTED,
        (405 | 501, _) => UNIMPLEMENTED,
        (408 | 504, _) => DEADLINE_EXCEEDED,
        (499, _) => CANCELLED,
        (502 | 503, _) => UNAVAILABLE,
        _ => INTERNAL,
    }
}

/// Returns the error as JSON.
pub fn body(status: &Status) -> Value {
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": status.reason, "domain": DOMAIN, "metadata": metadata(status),
    })];
    let violations = violations(status);
    if !violations.is_empty() {
        let shown = violations.iter().map(|(field, text)| json!({"field": field, "description": text}));
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": shown.collect::<Vec<_>>(),
        }));
    }
    if let Some(seconds) = retry_after(status) {
        details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")}));
    }
    json!({"code": code_of(status).number, "message": status.message, "details": details})
}

/// Seconds after which a client may try again.
pub fn retry_after(status: &Status) -> Option<u32> {
    status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
}

fn metadata(status: &Status) -> std::collections::BTreeMap<String, String> {
    let details = status.details.iter();
    let pairs =
        details.flat_map(|details| [("name", &details.name), ("group", &details.group), ("kind", &details.kind)]);
    pairs.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn violations(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes).filter(|cause| !cause.field.is_empty());
    causes.map(|cause| (cause.field.clone(), cause.message.clone())).collect()
}

/// Returns the value of the header `grpc-status-details-bin`.
pub fn details_header(status: &Status) -> String {
    let info = ErrorInfo { reason: status.reason.to_owned(), domain: DOMAIN.to_owned(), metadata: metadata(status) };
    let mut details = vec![any("ErrorInfo", &info)];
    let violations = violations(status);
    if !violations.is_empty() {
        let fields = violations.into_iter().map(|(field, description)| FieldViolation { field, description });
        details.push(any("BadRequest", &BadRequest { field_violations: fields.collect() }));
    }
    if let Some(seconds) = retry_after(status) {
        let delay = Some(Delay { seconds: seconds.into(), nanos: 0 });
        details.push(any("RetryInfo", &RetryInfo { retry_delay: delay }));
    }
    let message = status.message.clone();
    STANDARD_NO_PAD.encode(RpcStatus { code: code_of(status).number, message, details }.encode_to_vec())
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value: message.encode_to_vec() }
}

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: std::collections::BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_reasons_become_codes() {
        let check = |code: u16, reason: &'static str, number: i32, http: u16| {
            let found = code_of(&Status::new(code, reason, ""));
            assert_eq!((found.number, found.http), (number, http), "{code} {reason}");
        };
        check(422, "Invalid", 3, 400);
        check(400, FAILED_PRECONDITION_REASON, 9, 400);
        check(400, OUT_OF_RANGE_REASON, 11, 400);
        check(401, "Unauthorized", 16, 401);
        check(403, "Forbidden", 7, 403);
        check(404, "NotFound", 5, 404);
        check(405, "MethodNotAllowed", 12, 501);
        check(409, "AlreadyExists", 6, 409);
        check(409, "Conflict", 10, 409);
        check(412, "PreconditionFailed", 10, 412);
        check(429, "TooManyRequests", 8, 429);
        check(503, "ServiceUnavailable", 14, 503);
        check(504, "Timeout", 4, 504);
        check(500, "InternalError", 13, 500);
    }

    #[test]
    fn details_name_the_reason_and_the_time_to_wait() {
        let status = Status::too_many_requests("slow down", 7);
        let body = body(&status);
        assert_eq!(body["code"], 8);
        assert_eq!(body["details"][0]["reason"], "TooManyRequests");
        assert_eq!(body["details"][1]["retryDelay"], "7s");
        let bytes = STANDARD_NO_PAD.decode(details_header(&status)).expect("base64");
        let decoded = RpcStatus::decode(&bytes[..]).expect("a status");
        assert_eq!((decoded.code, decoded.message.as_str(), decoded.details.len()), (8, "slow down", 2));
    }
}
