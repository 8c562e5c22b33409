//! The words a body is refused with when it cannot even be read, as clients know them from kube-apiserver.

use object::{GroupVersionKind, Status};

/// So much of an unreadable body is shown in the refusal.
const SHOWN_BYTES_MAX: usize = 30;

/// The body says nothing about its kind that could be understood.
pub fn unrecognized(expected: &GroupVersionKind, problem: &str, body: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {problem} ({})",
        expected.kind,
        summary(body)
    ))
}

/// The body says what it is, and is not that.
pub fn cannot_be_handled(found: &GroupVersionKind, expected: &GroupVersionKind, problem: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {problem}",
        found.kind, found.version, expected.kind
    ))
}

/// What Go's parser says of the same fault, at least for the common ones.
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
        Some(_) => format!("{}{more}", shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_bodies_are_refused_in_the_words_of_kube_apiserver() {
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
