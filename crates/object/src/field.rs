//! Paths into an object and the validation errors that name them, worded as Kubernetes words them.

use std::fmt;

use serde_json::{Number, Value};

/// A path such as `spec.containers[0].image` or `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(String);

impl FieldPath {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kind of error in a field; the name is the machine-readable `reason` of the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    TypeInvalid,
    NotSupported,
    Duplicate,
    Forbidden,
    NotFound,
    TooLong,
    TooMany,
    Internal,
}

impl FieldErrorKind {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// One validation error: where, what, the value that was refused, and what would be right.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    pub path: FieldPath,
    /// The refused value; `None` where the message shows none (required, forbidden, too long).
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    pub fn required(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { kind: FieldErrorKind::Required, path, value: None, detail: detail.into() }
    }

    pub fn invalid(path: FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { kind: FieldErrorKind::Invalid, path, value: Some(value.into()), detail: detail.into() }
    }

    pub fn type_invalid(path: FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { kind: FieldErrorKind::TypeInvalid, path, value: Some(value.into()), detail: detail.into() }
    }

    pub fn not_supported(path: FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self { kind: FieldErrorKind::NotSupported, path, value: Some(value.into()), detail }
    }

    pub fn duplicate(path: FieldPath, value: impl Into<Value>) -> Self {
        Self { kind: FieldErrorKind::Duplicate, path, value: Some(value.into()), detail: String::new() }
    }

    pub fn forbidden(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { kind: FieldErrorKind::Forbidden, path, value: None, detail: detail.into() }
    }

    pub fn not_found(path: FieldPath, value: impl Into<Value>) -> Self {
        Self { kind: FieldErrorKind::NotFound, path, value: Some(value.into()), detail: String::new() }
    }

    pub fn too_long(path: FieldPath, bytes_max: usize) -> Self {
        let detail = format!("may not be more than {bytes_max} bytes");
        Self { kind: FieldErrorKind::TooLong, path, value: None, detail }
    }

    pub fn too_many(path: FieldPath, actual: usize, items_max: usize) -> Self {
        let plural = if items_max == 1 { "" } else { "s" };
        let detail = format!("must have at most {items_max} item{plural}");
        Self { kind: FieldErrorKind::TooMany, path, value: Some(actual.into()), detail }
    }

    pub fn internal(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { kind: FieldErrorKind::Internal, path, value: None, detail: detail.into() }
    }

    /// The message without the path, as it stands in `status.details.causes[].message`.
    pub fn body(&self) -> String {
        let mut text = self.kind.title().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            match value {
                Value::String(s) => text.push_str(&go_quote(s)),
                Value::Number(n) => text.push_str(&go_number(n)),
                other => text.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// A float shown the way Go's `%v` does it: no trailing `.0`, an exponent from a million on and below 0.0001.
pub fn go_float(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        return format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    number.to_string()
}

pub(crate) fn go_number(number: &Number) -> String {
    if number.is_f64() { go_float(number.as_f64().unwrap_or_default()) } else { number.to_string() }
}

/// A value as Go's `%v` prints it.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(n) => go_number(n),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// A string quoted the way Go's `%q` does it, which clients see in messages.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_kubernetes_words_them() {
        let path = FieldPath::root().child("spec").child("ports").index(0).child("port");
        let cases = [
            (FieldError::required(path.clone(), ""), "spec.ports[0].port: Required value"),
            (
                FieldError::invalid(path.clone(), 0, "must be between 1 and 65535, inclusive"),
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
            (
                FieldError::not_supported(path.clone(), "X", &["TCP", "UDP"]),
                "spec.ports[0].port: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\"",
            ),
            (FieldError::duplicate(path.clone(), "a"), "spec.ports[0].port: Duplicate value: \"a\""),
            (FieldError::too_many(path, 3, 1), "spec.ports[0].port: Too many: 3: must have at most 1 item"),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }
}
