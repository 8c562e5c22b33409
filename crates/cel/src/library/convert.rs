//! Conversions between types, and formatting of values.

use super::numbers::shortest;
use super::{CallContext, Function, fail, no_overload, no_overload_for};
use crate::types::Type;
use crate::value::time::{Duration, Timestamp};
use crate::value::{Evaluated, Opaque, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "dyn" => |_, args| args.first().cloned().map_or_else(no_overload, Ok),
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "type" => |_, args| args.first().map_or_else(no_overload, |value| Ok(Value::Type(value.type_of()))),
        "uint" => to_uint,
        _ => return None,
    })
}

fn unconvertible<'a>(value: &Value, to: &Type) -> Evaluated<'a> {
    fail(format!("type conversion error from '{}' to '{}'", value.type_name(), to.runtime_name()))
}

fn to_bool<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [text @ Value::String(value)] => match &**value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => unconvertible(text, &Type::Bool),
        },
        _ => no_overload_for(context, args),
    }
}

fn to_bytes<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.clone())),
        [Value::String(text)] => Ok(Value::Bytes(text.as_bytes().into())),
        _ => no_overload_for(context, args),
    }
}

fn to_double<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [text @ Value::String(value)] => match parse_double(value) {
            Some(value) => Ok(Value::Double(value)),
            None => unconvertible(text, &Type::Double),
        },
        _ => no_overload_for(context, args),
    }
}

fn parse_double(text: &str) -> Option<f64> {
    let parsed: f64 = text.parse().ok()?;
    // Only a spelled-out infinity may be infinite.
    let spelled = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    (parsed.is_finite() || matches!(spelled.as_str(), "inf" | "infinity" | "nan")).then_some(parsed)
}

fn to_int<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(*value)),
        [Value::Uint(value)] => {
            i64::try_from(*value).map_or_else(|_| fail("integer overflow"), |value| Ok(Value::Int(value)))
        }
        [Value::Double(value)] => {
            // The bounds themselves are excluded: they may be the result of rounding.
            if value.is_finite() && *value > i64::MIN as f64 && *value < i64::MAX as f64 {
                Ok(Value::Int(*value as i64))
            } else {
                fail("integer overflow")
            }
        }
        [Value::Duration(Duration(nanos))] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(time)] => Ok(Value::Int(time.seconds())),
        [text @ Value::String(value)] => match value.parse() {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => unconvertible(text, &Type::Int),
        },
        _ => no_overload_for(context, args),
    }
}

fn to_uint<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let overflow = || fail("unsigned integer overflow");
    match args {
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Int(value)] => u64::try_from(*value).map_or_else(|_| overflow(), |value| Ok(Value::Uint(value))),
        [Value::Double(value)] => {
            if value.is_finite() && *value >= 0.0 && *value < u64::MAX as f64 {
                Ok(Value::Uint(*value as u64))
            } else {
                overflow()
            }
        }
        [text @ Value::String(value)] => match value.parse() {
            Ok(value) => Ok(Value::Uint(value)),
            Err(_) => unconvertible(text, &Type::Uint),
        },
        _ => no_overload_for(context, args),
    }
}

fn to_duration<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Duration(value)] => Ok(Value::Duration(*value)),
        [Value::Int(nanos)] => Ok(Value::Duration(Duration(*nanos))),
        [text @ Value::String(value)] => match Duration::parse(value) {
            Some(value) => Ok(Value::Duration(value)),
            None => unconvertible(text, &Type::Duration),
        },
        _ => no_overload_for(context, args),
    }
}

fn to_timestamp<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Timestamp(value)] => Ok(Value::Timestamp(*value)),
        [Value::Int(seconds)] => match Timestamp::from_seconds(*seconds) {
            Some(value) => Ok(Value::Timestamp(value)),
            None => fail("timestamp overflow"),
        },
        [text @ Value::String(value)] => match Timestamp::parse(value) {
            Some(value) => Ok(Value::Timestamp(value)),
            None => unconvertible(text, &Type::Timestamp),
        },
        _ => no_overload_for(context, args),
    }
}

fn to_string<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [value] = args else { return no_overload() };
    match value {
        Value::String(text) => Ok(Value::String(text.clone())),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text.to_owned())),
            Err(_) => fail("invalid UTF-8 in bytes, cannot convert to string"),
        },
        other => match plain_text(other) {
            Some(text) => Ok(Value::text(text)),
            None => no_overload_for(context, args),
        },
    }
}

/// The text of a scalar, as `string()` gives it.
pub(crate) fn plain_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => shortest(*value),
        Value::String(text) => text.to_string(),
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(duration) => duration.to_string(),
        Value::Type(ty) => ty.runtime_name().to_owned(),
        Value::Opaque(Opaque::Ip(ip)) => ip.to_string(),
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.to_string(),
        _ => return None,
    })
}

/// A value inside an error message.
pub(crate) fn shown(value: &Value) -> String {
    plain_text(value).unwrap_or_else(|| value.type_name())
}
