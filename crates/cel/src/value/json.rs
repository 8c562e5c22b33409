//! Converts JSON to values: by its schema if there is one, else by its own shape.

use super::map::Map;
use super::time::{Duration, Timestamp};
use super::{EvalError, Evaluated, Items, List, ListKind, Opaque, Value};
use crate::schema::Schema;
use base64::{DecodeError, Engine as _};
use serde_json::Value as Json;

pub(super) fn dynamic_value(data: &Json) -> Value<'_> {
    match data {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Int(value),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(items) => Value::List(List { items: Items::Json { items, schema: None }, kind: ListKind::Plain }),
        Json::Object(data) => Value::Map(Map::Json { data, schema: None }),
    }
}

pub(super) fn item_value<'a>(data: &'a Json, schema: Option<&'a Schema>) -> Evaluated<'a> {
    match schema {
        Some(schema) => typed_value(data, schema),
        None => Ok(dynamic_value(data)),
    }
}

fn invalid<'a>(message: impl Into<String>) -> Evaluated<'a> {
    Err(EvalError::new(message))
}

/// The name Kubernetes prints for the type of decoded JSON.
fn decoded_type(data: &Json) -> &'static str {
    match data {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

pub(super) fn typed_value<'a>(data: &'a Json, schema: &'a Schema) -> Evaluated<'a> {
    if data.is_null() {
        if schema.nullable {
            return Ok(Value::Null);
        }
        return invalid("invalid data, got null for schema with nullable=false");
    }
    if schema.int_or_string {
        return match data {
            Json::String(text) => Ok(Value::text(text.as_str())),
            Json::Number(number) if number.is_i64() => Ok(Value::Int(number.as_i64().unwrap_or_default())),
            _ => invalid("invalid data, expected XIntOrString value to be either a string or integer"),
        };
    }
    match (schema.kind.as_str(), data) {
        ("object", Json::Object(data)) => Ok(Value::Map(Map::Json { data, schema: Some(schema) })),
        ("object", _) => invalid("invalid data, expected a map for the provided schema with type=object"),
        ("array", Json::Array(items)) => typed_list(items, schema),
        ("array", _) => invalid("invalid data, expected an array for the provided schema with type=array"),
        ("string", Json::String(text)) => formatted(text, &schema.format),
        ("string", other) => invalid(format!("invalid data, expected string, got {}", decoded_type(other))),
        ("number", Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or(f64::NAN))),
        ("number", other) => invalid(format!("invalid data, expected float, got {}", decoded_type(other))),
        ("integer", Json::Number(number)) if number.is_i64() => Ok(Value::Int(number.as_i64().unwrap_or_default())),
        ("integer", other) => invalid(format!("invalid data, expected int, got {}", decoded_type(other))),
        ("boolean", Json::Bool(value)) => Ok(Value::Bool(*value)),
        ("boolean", other) => invalid(format!("invalid data, expected bool, got {}", decoded_type(other))),
        _ if schema.preserve_unknown_fields => Ok(Value::Opaque(Opaque::Preserved(data))),
        (kind, _) => invalid(format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with \
             x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {kind}"
        )),
    }
}

fn typed_list<'a>(items: &'a [Json], schema: &'a Schema) -> Evaluated<'a> {
    let Some(item_schema) = schema.items.as_deref() else {
        return invalid("invalid array type, expected Items with a non-empty Schema");
    };
    let kind = match schema.list_type.as_deref() {
        Some("map") => ListKind::Map { keys: &schema.list_map_keys },
        Some("set") => ListKind::Set,
        Some("atomic") | None => ListKind::Atomic,
        Some(other) => {
            return invalid(format!(
                "invalid x-kubernetes-list-type, expected 'map', 'set' or 'atomic' but got {other}"
            ));
        }
    };
    Ok(Value::List(List { items: Items::Json { items, schema: Some(item_schema) }, kind }))
}

fn formatted<'a>(text: &'a str, format: &str) -> Evaluated<'a> {
    match format {
        "duration" => match Duration::parse_lenient(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => invalid(format!("Invalid duration {text}: unable to parse {text} as duration")),
        },
        "date" => match Timestamp::parse_date(text) {
            Some(date) => Ok(Value::Timestamp(date)),
            None => invalid(format!("Invalid date formatted string {text}: {}", unreadable(text, "2006-01-02"))),
        },
        "date-time" => match Timestamp::parse_datetime(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => invalid(format!(
                "Invalid date-time formatted string {text}: {}",
                unreadable(text, "2006-01-02T15:04:05")
            )),
        },
        "byte" => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(DecodeError::InvalidByte(at, _)) => {
                invalid(format!("Invalid byte formatted string {text}: illegal base64 data at input byte {at}"))
            }
            Err(_) => invalid(format!("Invalid byte formatted string {text}: illegal base64 data")),
        },
        _ => Ok(Value::text(text)),
    }
}

/// Go's error for a time in another layout.
fn unreadable(text: &str, layout: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")
}

/// Equality of JSON data that ignores the difference between absent and empty.
pub(crate) fn semantic_equal(a: &Json, b: &Json) -> bool {
    let is_empty = |value: &Json| match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        _ => false,
    };
    a == b || (is_empty(a) && is_empty(b))
}
