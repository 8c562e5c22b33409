//! Reads fields like Go's types: absent is zero, another type is an error.

use serde_json::{Map, Value};

use crate::operation::{InterpretError, InterpretResult};

/// An integer; zero if absent.
pub fn int(value: &Value, key: &str) -> InterpretResult<i64> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(0),
        Some(found) => found.as_i64().ok_or_else(|| wrong(key, found, "a whole number")),
    }
}

/// A string; empty if absent.
pub fn text<'a>(value: &'a Value, key: &str) -> InterpretResult<&'a str> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(found) => found.as_str().ok_or_else(|| wrong(key, found, "a string")),
    }
}

/// A list; empty if absent.
pub fn list<'a>(value: &'a Value, key: &str) -> InterpretResult<&'a [Value]> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(found) => Err(wrong(key, found, "a list")),
    }
}

/// Go's serialization of a number field: always, or only if not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    Written,
    Omitted,
}

/// Writes a number field if it differs; an absent one is zero already.
pub fn write_int(map: &mut Map<String, Value>, key: &str, number: i64, zero: Zero) {
    if map.get(key).and_then(Value::as_i64).unwrap_or(0) == number {
        return;
    }
    if number == 0 && zero == Zero::Omitted {
        map.remove(key);
    } else {
        map.insert(key.to_owned(), number.into());
    }
}

fn wrong(key: &str, found: &Value, wanted: &str) -> InterpretError {
    InterpretError(format!("field {key} is {found}, which is not {wanted}"))
}
