//! `If-Match`: a write happens only when the object still has the version that the client has read.

use http::{HeaderMap, header};
use object::Status;
use serde_json::{Value, json};

use crate::method::{Field, FieldKind, Method};

const ETAG: &str = "etag";

/// Puts the version of `If-Match` into the field `etag` of a request. Returns true if the request has one now.
pub fn require_match(method: &Method, message: &mut Value, headers: &HeaderMap) -> Result<bool, Status> {
    let Some(version) = version(headers)? else { return Ok(false) };
    let path = etag_of(method).ok_or_else(|| invalid("this method takes no version"))?;
    let mut current = message;
    for field in path {
        let fields = current.as_object_mut().ok_or_else(|| invalid("the request must be an object"))?;
        current = fields.entry(field.json).or_insert_with(|| json!({}));
    }
    match current.as_str() {
        Some(given) if !given.is_empty() && given != version => {
            return Err(invalid("is another version than the etag of the request"));
        }
        _ => *current = version.into(),
    }
    Ok(true)
}

/// The error of a write whose `If-Match` names another version.
pub fn failed(status: Status) -> Status {
    match status.is_conflict() {
        true => Status::new(412, "PreconditionFailed", status.message),
        false => status,
    }
}

/// `*` demands only that the object exists, which every write of one does.
fn version(headers: &HeaderMap) -> Result<Option<String>, Status> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim).filter(|_| values.next().is_none());
    let text = text.ok_or_else(|| invalid("must be one version"))?;
    if text == "*" {
        return Ok(None);
    }
    let plain = text.strip_prefix("W/").unwrap_or(text);
    let plain = plain.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(plain);
    match plain.is_empty() || plain.contains([',', '"', ' ']) {
        true => Err(invalid("must be one version")),
        false => Ok(Some(plain.to_owned())),
    }
}

/// The fields that lead to the version: of the request, or of the object in it.
fn etag_of(method: &Method) -> Option<Vec<&'static Field>> {
    if let Some(own) = method.request.field(ETAG) {
        return Some(vec![own]);
    }
    method.request.fields.iter().find_map(|field| match field.kind {
        FieldKind::Message(inner) if !field.repeated => Some(vec![field, inner.field(ETAG)?]),
        _ => None,
    })
}

fn invalid(problem: &str) -> Status {
    Status::bad_request(format!("If-Match: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{Message, Output};

    const fn text(name: &'static str) -> Field {
        Field { name, json: name, kind: FieldKind::Text, repeated: false }
    }

    static OBJECT: Message = Message { fields: &[text("name"), text(ETAG)] };
    static INNER: Message =
        Message { fields: &[Field { name: "user", json: "user", kind: FieldKind::Message(&OBJECT), repeated: false }] };
    static NONE: Message = Message { fields: &[text("name")] };

    #[track_caller]
    fn check(request: &'static Message, header: &str, sent: Value, expected: Result<Value, &str>) {
        let output = Output::Message;
        let method = Method { service: "s", name: "m", routes: &[], request, response: None, output, permission: "" };
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, header.parse().expect("a header"));
        let mut message = sent;
        match (require_match(&method, &mut message, &headers), expected) {
            (Ok(_), Ok(expected)) => assert_eq!(message, expected),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{}", error.message),
            (found, expected) => panic!("{found:?} / {expected:?}"),
        }
    }

    #[test]
    fn the_version_becomes_the_etag_of_the_request() {
        check(&OBJECT, "\"7\"", json!({"name": "a"}), Ok(json!({"name": "a", "etag": "7"})));
        check(&OBJECT, "7", json!({"etag": "7"}), Ok(json!({"etag": "7"})));
        check(&OBJECT, "W/\"7\"", json!({}), Ok(json!({"etag": "7"})));
        check(&OBJECT, "*", json!({}), Ok(json!({})));
        check(&INNER, "7", json!({"user": {"name": "ann"}}), Ok(json!({"user": {"name": "ann", "etag": "7"}})));
        check(&OBJECT, "7", json!({"etag": "8"}), Err("another version"));
        check(&OBJECT, "\"7\", \"8\"", json!({}), Err("one version"));
        check(&NONE, "7", json!({}), Err("takes no version"));
        check(&INNER, "7", json!({"user": "ann"}), Err("must be an object"));
    }

    #[test]
    fn only_conflicts_are_failed_preconditions() {
        assert_eq!(failed(Status::new(409, "Conflict", "")).code, 412);
        assert_eq!(failed(Status::new(409, "AlreadyExists", "")).code, 409);
        assert_eq!(failed(Status::new(404, "NotFound", "")).code, 404);
    }
}
