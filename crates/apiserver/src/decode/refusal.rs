//! Errors for bodies that cannot be read, with the texts of kube-apiserver.

use data_encoding::HEXLOWER;
use object::{GroupVersionKind, Status};
use serde_json::Value;

/// Maximum number of bytes of an unreadable body in the error.
const SHOWN_BYTES_MAX: usize = 30;

/// The kind of the body cannot be read.
pub fn unrecognized(expected: &GroupVersionKind, problem: &str, body: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {problem} ({})",
        expected.kind,
        summary(body)
    ))
}

/// The body names its kind and does not fit it.
pub fn cannot_be_handled(found: &GroupVersionKind, expected: &GroupVersionKind, problem: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {problem}",
        found.kind, found.version, expected.kind
    ))
}

/// An object of another kind or version than the resource holds. `api_version` is the body's own, even if malformed.
pub fn wrong_kind(found: &GroupVersionKind, api_version: &str, expected: &GroupVersionKind, custom: bool) -> Status {
    let same_kind = found.kind == expected.kind;
    let other_version = api_version != expected.api_version();
    // Versions a server once had are still known to it, though not served.
    let was_served = same_kind && (found.version.contains("alpha") || found.version.contains("beta"));
    let known = !own_registry(expected) && kinds::protobuf::knows(api_version, &found.kind);
    if other_version && (custom || (same_kind && (known || was_served))) {
        let expected = expected.api_version();
        return Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ));
    }
    if !known && !custom {
        return not_registered(found, expected);
    }
    let package = match expected.group.split('.').next() {
        None | Some("" | "events") => "core",
        Some(package) => package,
    };
    let (from, to) = (format!("{}.{}", found.version, found.kind), format!("{package}.{}", expected.kind));
    cannot_be_handled(found, expected, &format!("converting ({from}) to ({to}): unknown conversion"))
}

/// Definitions of kinds and of servers are held by servers within the server, which know no other kinds.
fn own_registry(expected: &GroupVersionKind) -> bool {
    matches!(expected.group.as_str(), "apiextensions.k8s.io" | "apiregistration.k8s.io")
}

/// An unknown kind. Go names the source line of its registry, and so does this text.
pub fn not_registered(found: &GroupVersionKind, expected: &GroupVersionKind) -> Status {
    let (kind, api_version) = (&found.kind, found.api_version());
    let problem =
        format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\"");
    cannot_be_handled(found, expected, &problem)
}

/// Returns Go's text for a body that is JSON but no object.
pub fn not_a_map(value: &Value) -> Option<String> {
    let found = match value {
        Value::Object(_) | Value::Null => return None,
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    let fields = r#"APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"""#;
    Some(format!("json: cannot unmarshal {found} into Go value of type struct {{ {fields} }}"))
}

/// Returns the text of Go's parser for the same error, for the common ones.
pub fn json_problem(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() || body.is_empty() {
        return "unexpected end of JSON input".to_owned();
    }
    let text = error.to_string();
    let phrases = [
        ("expected value", "looking for beginning of value"),
        ("expected ident", "looking for beginning of value"),
        ("trailing characters", "after top-level value"),
        ("key must be a string", "looking for beginning of object key string"),
        ("trailing comma", "looking for beginning of value"),
        ("expected `:`", "after object key"),
        ("expected `,` or `}`", "after object key:value pair"),
        ("expected `,` or `]`", "after array element"),
    ];
    let phrase = phrases.iter().find(|(ours, _)| text.starts_with(ours)).map(|(_, theirs)| *theirs);
    let line = body.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    match (phrase, line.get(error.column().saturating_sub(1))) {
        (Some(phrase), Some(byte)) => format!("invalid character {:?} {phrase}", char::from(*byte)),
        _ => text,
    }
}

fn summary(body: &[u8]) -> String {
    let shown = &body[..body.len().min(SHOWN_BYTES_MAX)];
    let more = if body.len() > SHOWN_BYTES_MAX { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => format!("{}{more}", HEXLOWER.encode(shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_other_kinds_are_refused_with_the_message_of_kube_apiserver() {
        let no_kind = |kind: &str, version: &str| {
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
        };
        let cases = [
            (
                "apps/v1 Deployment",
                "v1 ConfigMap",
                "converting (v1.ConfigMap) to (apps.Deployment): unknown conversion".to_owned(),
            ),
            ("events.k8s.io/v1 Event", "v1 Pod", "converting (v1.Pod) to (core.Event): unknown conversion".to_owned()),
            ("v1 Secret", "v1 Foo", no_kind("Foo", "v1")),
            ("v1 Secret", "v2 Secret", no_kind("Secret", "v2")),
            ("apiregistration.k8s.io/v1 APIService", "v1 Pod", no_kind("Pod", "v1")),
        ];
        let parse = |text: &str| {
            let (api_version, kind) = text.split_once(' ').expect("a version and a kind");
            (api_version.to_owned(), object::GroupVersion::parse(api_version).expect("well formed").kind(kind))
        };
        for (expected, found, problem) in cases {
            let ((_, expected), (api_version, found)) = (parse(expected), parse(found));
            let (kind, version) = (&found.kind, &found.version);
            let text = format!("{kind} in version {version:?} cannot be handled as a {}: {problem}", expected.kind);
            assert_eq!(wrong_kind(&found, &api_version, &expected, false).message, text);
        }
        let ((_, expected), (api_version, found)) =
            (parse("apps/v1 Deployment"), parse("extensions/v1beta1 Deployment"));
        let text = "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)";
        assert_eq!(wrong_kind(&found, &api_version, &expected, false).message, text);
    }

    #[test]
    fn unreadable_bodies_are_refused_with_the_message_of_kube_apiserver() {
        let secret = GroupVersionKind::new("", "v1", "Secret");
        let cases = [
            ("", "unexpected end of JSON input (<empty>)"),
            ("{", "unexpected end of JSON input ({)"),
            ("x", "invalid character 'x' looking for beginning of value (78)"),
            (r#"{"a":1}x"#, r#"invalid character 'x' after top-level value ({"a":1}x)"#),
            (r#"{"a" 1}"#, r#"invalid character '1' after object key ({"a" 1})"#),
            (
                r#"{"apiVersion":"v1","kind":"Secret""#,
                r#"unexpected end of JSON input ({"apiVersion":"v1","kind":"Sec ...)"#,
            ),
        ];
        for (body, expected) in cases {
            let error = serde_json::from_str::<serde_json::Value>(body).expect_err("unreadable");
            let status = unrecognized(&secret, &json_problem(body.as_bytes(), &error), body.as_bytes());
            let prefix = "the object provided is unrecognized (must be of type Secret): ";
            assert_eq!(status.message, format!("{prefix}{expected}"));
        }
    }
}
