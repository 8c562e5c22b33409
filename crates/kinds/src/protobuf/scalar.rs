//! Values with a custom encoding: times, quantities, int-or-string, bytes, JSON inside protobuf.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::ProtobufError;
use super::table::Type;
use super::wire::{self, Fields, Item};

/// Go's zero time (year one) in Unix seconds.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

/// A value encoded as bytes; `None` for other types.
pub fn read(ty: Type, field: &'static str, bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    Ok(Some(match ty {
        Type::Text => String::from_utf8_lossy(bytes).into(),
        Type::Bytes => STANDARD.encode(bytes).into(),
        Type::Time => read_time(field, bytes, false)?,
        Type::MicroTime => read_time(field, bytes, true)?,
        Type::Quantity => read_quantity(bytes)?,
        Type::IntOrString => read_int_or_string(bytes)?,
        Type::Raw => read_raw(field, bytes)?,
        Type::Texts => read_texts(bytes)?,
        _ => return Ok(None),
    }))
}

/// The JSON value of an unset field.
pub fn zero(ty: Type) -> Value {
    match ty {
        Type::Text => "".into(),
        Type::Bool | Type::SchemaOrBool => false.into(),
        Type::Int32 | Type::Int64 | Type::IntOrString => 0.into(),
        Type::Double => 0.0.into(),
        Type::Quantity => "0".into(),
        _ => Value::Null,
    }
}

fn read_time(field: &'static str, bytes: &[u8], micro: bool) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields::of(bytes);
    while let Some((number, item)) = fields.next()? {
        match (number, item) {
            (1, Item::Varint(value)) => seconds = value as i64,
            (2, Item::Varint(value)) if micro => nanos = value as i32 / 1000 * 1000,
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Time { field })?;
    // Years outside RFC 3339.
    if !(ZERO_TIME_SECONDS..=253_402_300_799).contains(&time.as_second()) {
        return Err(ProtobufError::Time { field });
    }
    if time.as_second() == ZERO_TIME_SECONDS && time.subsec_nanosecond() == 0 {
        return Ok(Value::Null);
    }
    Ok(if micro { format!("{time:.6}") } else { format!("{time:.0}") }.into())
}

fn read_quantity(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut text = "0".into();
    let mut fields = Fields::of(bytes);
    while let Some((number, item)) = fields.next()? {
        if let (1, Item::Bytes(bytes)) = (number, item) {
            text = String::from_utf8_lossy(bytes);
        }
    }
    Ok(text.into())
}

fn read_int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut fields = Fields::of(bytes);
    while let Some(item) = fields.next()? {
        match item {
            (1, Item::Varint(kind)) => is_text = kind != 0,
            (2, Item::Varint(value)) => number = value as i32,
            (3, Item::Bytes(bytes)) => text = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn read_raw(field: &'static str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut raw: &[u8] = b"";
    let mut fields = Fields::of(bytes);
    while let Some((number, item)) = fields.next()? {
        if let (1, Item::Bytes(bytes)) = (number, item) {
            raw = bytes;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|source| ProtobufError::Raw { field, source })
}

fn read_texts(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut texts = Vec::new();
    let mut fields = Fields::of(bytes);
    while let Some((number, item)) = fields.next()? {
        if let (1, Item::Bytes(bytes)) = (number, item) {
            texts.push(String::from_utf8_lossy(bytes).into());
        }
    }
    Ok(Value::Array(texts))
}

/// Writes one value under its number; message types of the table are not handled here.
pub fn write(ty: Type, name: &'static str, number: u32, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let mismatch = || ProtobufError::Mismatch { field: name, found: found(value) };
    match ty {
        Type::Text => wire::write_bytes(out, number, value.as_str().ok_or_else(mismatch)?.as_bytes()),
        Type::Bool => wire::write_number(out, number, value.as_bool().ok_or_else(mismatch)?.into()),
        Type::Int32 | Type::Int64 => wire::write_number(out, number, integer(value).ok_or_else(mismatch)? as u64),
        Type::Double => wire::write_double(out, number, value.as_f64().ok_or_else(mismatch)?),
        Type::Bytes => {
            let text = value.as_str().ok_or_else(mismatch)?;
            let bytes = STANDARD.decode(text).map_err(|_| mismatch())?;
            wire::write_bytes(out, number, &bytes);
        }
        Type::Time | Type::MicroTime => {
            let time = parse_time(value).ok_or_else(mismatch)?;
            let nanos = if ty == Type::MicroTime { time.1 / 1000 * 1000 } else { 0 };
            wire::write_nested(out, number, |out| {
                if time != (ZERO_TIME_SECONDS, 0) {
                    wire::write_number(out, 1, time.0 as u64);
                    wire::write_number(out, 2, nanos as u64);
                }
                Ok(())
            })?;
        }
        Type::Quantity => {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(amount) => amount.to_string(),
                _ => return Err(mismatch()),
            };
            wire::write_nested(out, number, |out| {
                wire::write_bytes(out, 1, text.as_bytes());
                Ok(())
            })?;
        }
        Type::IntOrString => {
            let (kind, amount, text) = match value {
                Value::String(text) => (1, 0, text.as_str()),
                other => (0, integer(other).ok_or_else(mismatch)?, ""),
            };
            wire::write_nested(out, number, |out| {
                wire::write_number(out, 1, kind);
                wire::write_number(out, 2, amount as u64);
                wire::write_bytes(out, 3, text.as_bytes());
                Ok(())
            })?;
        }
        Type::Raw => {
            let raw = serde_json::to_vec(value).map_err(|source| ProtobufError::Raw { field: name, source })?;
            wire::write_nested(out, number, |out| {
                wire::write_bytes(out, 1, &raw);
                Ok(())
            })?;
        }
        Type::Texts => {
            let texts = value.as_array().ok_or_else(mismatch)?;
            wire::write_nested(out, number, |out| {
                texts.iter().try_for_each(|text| write(Type::Text, name, 1, text, out))
            })?;
        }
        Type::SchemaOrList | Type::SchemaOrBool | Type::SchemaOrTexts | Type::Message(_) => return Err(mismatch()),
    }
    Ok(())
}

/// Writes the zero value of an unset non-pointer field, as in Go.
pub fn write_zero(ty: Type, number: u32, out: &mut Vec<u8>) {
    match ty {
        Type::Text => wire::write_bytes(out, number, b""),
        Type::Bool | Type::Int32 | Type::Int64 => wire::write_number(out, number, 0),
        Type::Double => wire::write_double(out, number, 0.0),
        Type::Quantity => wire::write_bytes(out, number, b"\x0a\x010"),
        Type::IntOrString => wire::write_bytes(out, number, b"\x08\0\x10\0\x1a\0"),
        Type::Time | Type::MicroTime | Type::Raw | Type::Message(_) => wire::write_bytes(out, number, b""),
        // Nil slices, and types that are always pointers.
        Type::Bytes | Type::Texts | Type::SchemaOrList | Type::SchemaOrBool | Type::SchemaOrTexts => {}
    }
}

fn parse_time(value: &Value) -> Option<(i64, i32)> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    // Go counts fractions forward from the previous second, even for negative seconds.
    let nanos = time.as_nanosecond();
    Some((nanos.div_euclid(1_000_000_000) as i64, nanos.rem_euclid(1_000_000_000) as i32))
}

/// Integers may have been written with a zero fraction.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.0e15).map(|n| n as i64))
}

pub fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
