//! Kubernetes errors: the `Status` object with its reason, code and causes.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::field::{FieldError, go_quote};
use crate::gvk::{GroupKind, GroupResource};
use crate::request::Verb;

/// Larger bodies are not read as a Status: the sender may not be trusted, and a tree takes up to a hundred times its text.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the message for a body that is no Status.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// Message of a 404 for a resource that is not served, as Kubernetes words it.
pub const RESOURCE_NOT_SERVED: &str = "the server could not find the requested resource";
/// Message of a 405, as Kubernetes words it.
pub const METHOD_NOT_SERVED: &str = "the server does not allow this method on the requested resource";

/// A response that is not an object: a failure (or the success of a delete) as a Kubernetes `Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    /// Machine-readable reason such as `NotFound`; empty on success.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<StatusDetails>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusDetails {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<StatusCause>,
    pub retry_after_seconds: u32,
    /// Token to continue a list whose pages expired; clients find it in the status' metadata.
    pub continue_token: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusCause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl std::error::Error for Status {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Status {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        let details = StatusDetails {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..StatusDetails::default()
        };
        self.with_details(details)
    }

    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Reports a 410: the requested revision is no longer available, list again.
    pub fn is_expired(&self) -> bool {
        self.code == 410
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {} not found", go_quote(name))).about(resource, name)
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {} already exists", go_quote(name))).about(resource, name)
    }

    /// The path names a resource that the server does not serve.
    pub fn resource_not_served() -> Self {
        Self::new(404, "NotFound", RESOURCE_NOT_SERVED)
    }

    /// The path names a resource that does not support the HTTP method.
    pub fn method_not_served() -> Self {
        Self::new(405, "MethodNotAllowed", METHOD_NOT_SERVED)
    }

    /// True for a 404 about the path itself. A 404 about an object names it in its details.
    pub fn is_not_served(&self) -> bool {
        self.code == 404 && self.details.as_ref().is_none_or(|details| details.name.is_empty())
    }

    pub fn conflict(resource: &GroupResource, name: &str, detail: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {detail}", go_quote(name));
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The conflict of a write whose resourceVersion is not the stored one.
    pub fn stale(resource: &GroupResource, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, detail)
    }

    pub fn forbidden(resource: &GroupResource, name: &str, detail: impl fmt::Display) -> Self {
        let subject = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => "forbidden".to_owned(),
            (false, true) => format!("{resource} is forbidden"),
            (false, false) => format!("{resource} {} is forbidden", go_quote(name)),
        };
        Self::new(403, "Forbidden", format!("{subject}: {detail}")).about(resource, name)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn method_not_allowed(resource: &GroupResource, verb: Verb) -> Self {
        let message = format!("{verb} is not supported on resources of kind {}", go_quote(&resource.to_string()));
        Self::new(405, "MethodNotAllowed", message).about(resource, "")
    }

    pub fn not_acceptable(supported: &[&str]) -> Self {
        let list = supported.join(", ");
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {list}"))
    }

    pub fn unsupported_media_type(supported: &[&str]) -> Self {
        let list = supported.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {list}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn internal(message: impl fmt::Display) -> Self {
        let details = StatusDetails {
            causes: vec![StatusCause { message: message.to_string(), ..StatusCause::default() }],
            ..StatusDetails::default()
        };
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).with_details(details)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message)
            .with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message)
    }

    /// The error for a resource version in the future; clients retry without one.
    pub fn version_too_large(wanted: u64, current: u64) -> Self {
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let details = StatusDetails { causes: vec![cause], retry_after_seconds: 1, ..StatusDetails::default() };
        Self::timeout(format!("Too large resource version: {wanted}, current: {current}")).with_details(details)
    }

    /// The error for an object that fails validation, with one cause per field.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let text = match errors {
            [one] => one.to_string(),
            many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        let causes = errors.iter().map(|error| StatusCause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.path.to_string(),
        });
        let details = StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.collect(),
            ..StatusDetails::default()
        };
        Self::new(422, "Invalid", format!("{kind} {} is invalid: {text}", go_quote(name))).with_details(details)
    }

    /// The response to a delete that removed the object at once.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success",
            "details": drop_empty(json!({
                "name": name, "group": resource.group, "kind": resource.resource, "uid": uid,
            })),
        })
    }

    pub fn to_value(&self) -> Value {
        let mut root = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {},
            "status": if self.code < 400 { "Success" } else { "Failure" },
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            root["details"] = details.to_value();
            if !details.continue_token.is_empty() {
                root["metadata"]["continue"] = details.continue_token.clone().into();
            }
        }
        drop_empty(root)
    }

    /// Parses a `Status` sent by another API server; anything else becomes a plain error with that code.
    pub fn from_response(code: u16, body: &[u8]) -> Self {
        let parsed: Option<Value> = (body.len() <= BODY_BYTES_MAX).then(|| serde_json::from_slice(body).ok()).flatten();
        match parsed {
            Some(value) if value["kind"] == "Status" => Self::from_value(code, &value),
            _ => Self::new(code, reason_of_code(code), shown_text(body)),
        }
    }

    fn from_value(code: u16, value: &Value) -> Self {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let details = value.get("details").map(|d| StatusDetails {
            name: text(&d["name"]),
            group: text(&d["group"]),
            kind: text(&d["kind"]),
            uid: text(&d["uid"]),
            retry_after_seconds: d["retryAfterSeconds"].as_u64().unwrap_or(0) as u32,
            continue_token: text(&value["metadata"]["continue"]),
            causes: d["causes"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
                .map(|c| StatusCause {
                    reason: text(&c["reason"]),
                    message: text(&c["message"]),
                    field: text(&c["field"]),
                })
                .collect(),
        });
        let reason = value["reason"].as_str().and_then(known_reason).unwrap_or_else(|| reason_of_code(code));
        let code = value["code"].as_u64().map_or(code, |c| c as u16);
        Self { code, reason, message: text(&value["message"]), details: details.map(Box::new) }
    }
}

impl StatusDetails {
    fn to_value(&self) -> Value {
        let causes: Vec<Value> = self
            .causes
            .iter()
            .map(|c| drop_empty(json!({"reason": c.reason, "message": c.message, "field": c.field})))
            .collect();
        let mut root = json!({"name": self.name, "group": self.group, "kind": self.kind, "uid": self.uid});
        if !causes.is_empty() {
            root["causes"] = Value::Array(causes);
        }
        if self.retry_after_seconds > 0 {
            root["retryAfterSeconds"] = self.retry_after_seconds.into();
        }
        drop_empty(root)
    }
}

/// Omits empty strings, as Go's `omitempty` does.
fn drop_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| v.as_str() != Some("")).collect::<Map<_, _>>())
        }
        other => other,
    }
}

const REASONS: &[(u16, &str)] = &[
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (405, "MethodNotAllowed"),
    (406, "NotAcceptable"),
    (409, "Conflict"),
    (409, "AlreadyExists"),
    (410, "Expired"),
    (410, "Gone"),
    (413, "RequestEntityTooLarge"),
    (415, "UnsupportedMediaType"),
    (422, "Invalid"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (500, "ServerTimeout"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
];

fn known_reason(reason: &str) -> Option<&'static str> {
    REASONS.iter().map(|(_, known)| *known).find(|known| *known == reason)
}

fn reason_of_code(code: u16) -> &'static str {
    REASONS.iter().find(|(c, _)| *c == code).map_or("Unknown", |(_, reason)| *reason)
}

/// The text of an error that is no Status; the end of a long one is left out.
fn shown_text(body: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]).trim().to_owned();
    if body.len() > TEXT_BYTES_MAX { format!("{shown}… ({} bytes)", body.len()) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldPath;

    #[test]
    fn invalid_names_every_field() {
        let errors = [FieldError::required(FieldPath::new("spec.selector"), "")];
        let status = Status::invalid(&GroupKind::new("apps", "Deployment"), "web", &errors);
        assert_eq!(status.message, "Deployment.apps \"web\" is invalid: spec.selector: Required value");
        let value = status.to_value();
        assert_eq!(value["details"]["causes"][0]["field"], "spec.selector");
        assert_eq!(Status::from_response(422, value.to_string().as_bytes()), status);
    }

    #[test]
    fn a_response_without_a_status_keeps_its_code() {
        let huge = format!("{{\"kind\":\"Status\",\"details\":{{\"causes\":[{}]}}}}", "{},".repeat(200_000));
        let status = Status::from_response(500, huge.as_bytes());
        assert!(status.message.len() < 2 * TEXT_BYTES_MAX && status.message.ends_with("bytes)"), "{}", status.message);
        let status = Status::from_response(404, b"404 page not found");
        assert!(status.is_not_found());
        assert_eq!(status.message, "404 page not found");
    }

    #[test]
    fn a_404_about_the_path_differs_from_one_about_an_object() {
        let resource = GroupResource::new("apps", "deployments");
        let wired = |status: Status| Status::from_response(status.code, status.to_value().to_string().as_bytes());
        for (status, is_not_served) in [
            (Status::resource_not_served(), true),
            (Status::from_response(404, b"404 page not found"), true),
            (Status::not_found(&resource, "web"), false),
            (Status::method_not_served(), false),
        ] {
            assert_eq!(status.is_not_served(), is_not_served, "{status}");
            assert_eq!(wired(status.clone()).is_not_served(), is_not_served, "{status} over the wire");
        }
    }
}
