//! Checks that a patched tree matches the Go types of a built-in kind. In kube-apiserver strategic merge patches pass
//! through a converter with its own messages instead of a JSON decoder.

use serde_json::Value;

use super::{Schema, SchemaRef, SchemaType, decode};

/// The converter's message for the first mismatch.
pub fn conversion_check(schema: &Schema, value: &Value) -> Result<(), String> {
    check(schema.root(), value)
}

fn check(at: SchemaRef<'_>, value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    if let Some(verdict) = decode::check_special(at, value, &decode::Trail::ROOT) {
        return verdict;
    }
    match (at.ty(), value) {
        (SchemaType::Any | SchemaType::IntOrString, _) => Ok(()),
        (SchemaType::Object, Value::Object(map)) => {
            map.iter().try_for_each(|(key, inner)| at.field(key).map_or(Ok(()), |below| check(below, inner)))
        }
        (SchemaType::Array, Value::Array(items)) => {
            at.items().map_or(Ok(()), |below| items.iter().try_for_each(|item| check(below, item)))
        }
        (SchemaType::String, Value::String(_)) | (SchemaType::Boolean, Value::Bool(_)) => Ok(()),
        (SchemaType::Number, Value::Number(_)) => Ok(()),
        (SchemaType::Integer, Value::Number(number)) => {
            let whole = number.as_i64().is_some() || number.as_f64().is_some_and(|n| n.fract() == 0.0);
            if whole { Ok(()) } else { Err(format!("cannot convert float64 to {}", decode::go_type(at))) }
        }
        (SchemaType::String, Value::Number(number)) if number.is_i64() => {
            Err(format!("cannot convert int64 to {}", decode::go_type(at)))
        }
        (SchemaType::Object, other) if at.additional().is_some() => {
            Err(format!("cannot restore map from {}", go_kind(other)))
        }
        (SchemaType::Object, other) => Err(format!("cannot restore struct from: {}", go_kind(other))),
        (SchemaType::Array, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        _ => Err(format!("unrecognized type: {}", decode::go_type(at))),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
