//! Secrets: required keys per type, conversion of plain text to data, and immutability.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{FieldError, FieldPath, Object, names};
use serde_json::{Map, Value};

use crate::strategies::defaults::set_empty_str;
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategy::Strategy;

/// Limit for all decoded values together.
pub const BYTES_MAX: usize = 1024 * 1024;

pub struct Secret;

impl Strategy for Secret {
    fn default(&self, object: &mut Object) {
        set_empty_str(object.as_map_mut(), "type", "Opaque");
        take_string_data(object);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        let data = report.field(object, "data");
        let mut size = 0;
        for (key, value) in data.entries() {
            value.problems_as(key, names::config_map_key(key));
            size += decoded_len(value.text());
        }
        if size > BYTES_MAX {
            data.too_long(BYTES_MAX);
        }
        validate_type(report.field(object, "type").text(), data, report.field(object, "metadata"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let kind = report.field(new, "type");
        if kind.text() != old.str_at(&["type"]) {
            kind.invalid("field is immutable");
        }
        let mut errors = report.finish();
        errors.extend(validate_immutable(new, old, &["data"]));
        errors.extend(self.validate_create(new));
        errors
    }
}

/// `stringData` is write-only: its values are merged into data.
fn take_string_data(object: &mut Object) {
    let Some(Value::Object(plain)) = object.remove(&["stringData"]) else { return };
    if plain.is_empty() {
        return;
    }
    let map = object.as_map_mut();
    let data = map.entry("data").or_insert(Value::Null);
    if !data.is_object() {
        *data = Value::Object(Map::new());
    }
    for (key, value) in plain {
        let text = value.as_str().unwrap_or_default();
        data[key.as_str()] = STANDARD.encode(text).into();
    }
}

fn validate_type<'a>(kind: &str, data: Field<'a>, meta: Field<'a>) {
    let has = |key: &str| data.value().and_then(|d| d.get(key)).is_some();
    match kind {
        "kubernetes.io/service-account-token" => {
            meta.field("annotations").key("kubernetes.io/service-account.name").require();
        }
        "kubernetes.io/dockercfg" => validate_json(data.key(".dockercfg"), has(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => validate_json(data.key(".dockerconfigjson"), has(".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            data.key("username").required("");
            data.key("password").required("");
        }
        "kubernetes.io/ssh-auth" => {
            data.key("ssh-privatekey").require();
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has(key) {
                    data.key(key).required("");
                }
            }
        }
        _ => {}
    }
}

fn validate_json(field: Field<'_>, exists: bool) {
    if !exists {
        return field.required("");
    }
    let bytes = STANDARD.decode(field.text()).unwrap_or_default();
    if let Some(problem) = json_problem(&bytes) {
        field.invalid_as("<secret contents redacted>", problem);
    }
}

/// Go's decoding error for bytes that are not a JSON map.
fn json_problem(bytes: &[u8]) -> Option<String> {
    let kind = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(Value::String(_)) => "string",
        Ok(Value::Array(_)) => "array",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) if error.is_eof() => return Some("unexpected end of JSON input".to_owned()),
        Err(_) => return Some(syntax_problem(bytes)),
    };
    Some(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

/// The position of the JSON error. Exact for an invalid first value, the most common mistake.
fn syntax_problem(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start();
    for literal in ["true", "false", "null"] {
        if text.starts_with(&literal[..1]) {
            let wrong = text.chars().zip(literal.chars()).find(|(have, want)| have != want);
            if let Some((have, want)) = wrong {
                return format!("invalid character '{have}' in literal {literal} (expecting '{want}')");
            }
        }
    }
    let first = text.chars().next().unwrap_or(' ');
    format!("invalid character '{first}' looking for beginning of value")
}

/// The decoded length of a base64 text.
pub fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Once immutable, an object stays so and keeps these fields.
pub fn validate_immutable(new: &Object, old: &Object, fields: &[&str]) -> Vec<FieldError> {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let mut errors = Vec::new();
    if old.bool_at(&["immutable"]) != Some(true) {
        return errors;
    }
    if new.bool_at(&["immutable"]) != Some(true) {
        errors.push(FieldError::forbidden(FieldPath::new("immutable"), DETAIL));
    }
    for field in fields {
        if !same(new.get(&[field]), old.get(&[field])) {
            errors.push(FieldError::forbidden(FieldPath::new(*field), DETAIL));
        }
    }
    errors
}
