//! Checks that a body fits the Go types of a built-in kind, with the message Go's decoder would give.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Schema, SchemaRef, SchemaType};
use crate::field::go_quote;
use crate::quantity::Quantity;

/// The message kube-apiserver puts behind `... cannot be handled as a <Kind>: `, for the first value that does not fit.
pub fn decode_check(schema: &Schema, value: &Value) -> Result<(), String> {
    check(schema.root(), value, &Trail::ROOT)
}

/// Rewrites what Go's types rewrite when an object passes through them: quantities to their canonical form, times to
/// UTC. Call it on a value that passed `decode_check`.
pub fn canonicalize(schema: &Schema, value: &mut Value) {
    canonicalize_at(schema.root(), value);
}

/// Writes whole floats as integers, as Go's encoder does: what was sent as `2.0` is stored and shown as `2`.
pub fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(normalize_numbers),
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < i64::MAX as f64);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        _ => {}
    }
}

fn canonicalize_at(at: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (key, inner) in map {
                if let Some(below) = at.field(key) {
                    canonicalize_at(below, inner);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = at.items() else { return };
            items.iter_mut().for_each(|item| canonicalize_at(below, item));
        }
        scalar => {
            let Some(definition) = at.node().definition.as_deref() else { return };
            if let Some(text) = canonical_scalar(definition, scalar).filter(|text| scalar.as_str() != Some(text)) {
                *scalar = Value::String(text);
            }
        }
    }
}

fn canonical_scalar(definition: &str, value: &Value) -> Option<String> {
    match definition.rsplit('.').next()? {
        "Quantity" => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Quantity::parse(&text).ok().map(|quantity| quantity.to_string())
        }
        "Time" => crate::time::parse(value.as_str()?).map(crate::time::format_seconds),
        "MicroTime" => crate::time::parse(value.as_str()?).map(crate::time::format_micros),
        _ => None,
    }
}

/// The way from the root: which struct held which field. Only spelled out for an error.
pub(super) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    owner: &'a str,
    field: &'a str,
}

impl Trail<'_> {
    pub(super) const ROOT: Trail<'static> = Trail { parent: None, owner: "", field: "" };

    fn refuse(&self, value: &str, go_type: &str) -> String {
        let Some(_) = self.parent else {
            return format!("json: cannot unmarshal {value} into Go value of type {go_type}");
        };
        let mut fields = Vec::new();
        let mut at = Some(self);
        while let Some(trail) = at.filter(|trail| trail.parent.is_some()) {
            fields.push(trail.field);
            at = trail.parent;
        }
        fields.reverse();
        let (owner, path) = (self.owner, fields.join("."));
        format!("json: cannot unmarshal {value} into Go struct field {owner}.{path} of type {go_type}")
    }
}

fn check(at: SchemaRef<'_>, value: &Value, trail: &Trail<'_>) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    if let Some(verdict) = check_special(at, value, trail) {
        return verdict;
    }
    match (at.ty(), value) {
        (SchemaType::Any, _) => Ok(()),
        (SchemaType::Object, Value::Object(map)) => check_fields(at, map, trail),
        (SchemaType::Array, Value::Array(items)) => {
            let Some(below) = at.items() else { return Ok(()) };
            items.iter().try_for_each(|item| check(below, item, trail))
        }
        (SchemaType::String, Value::String(_)) | (SchemaType::Boolean, Value::Bool(_)) => Ok(()),
        (SchemaType::Number, Value::Number(_)) => Ok(()),
        (SchemaType::Integer, Value::Number(number)) => {
            let fits = match go_type(at).as_str() {
                "int32" => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                _ => number.as_i64().is_some(),
            };
            if fits { Ok(()) } else { Err(trail.refuse(&format!("number {number}"), &go_type(at))) }
        }
        _ => Err(trail.refuse(word(value), &go_type(at))),
    }
}

fn check_fields(at: SchemaRef<'_>, map: &Map<String, Value>, trail: &Trail<'_>) -> Result<(), String> {
    let owner = at.node().definition_name();
    for (key, inner) in map {
        let Some(below) = at.property(key) else {
            // Go does not name map keys in its errors.
            at.additional().map_or(Ok(()), |below| check(below, inner, trail))?;
            continue;
        };
        match embedded_struct(owner, key) {
            Some(embedded) => {
                let step = Trail { parent: Some(trail), owner, field: embedded };
                check(below, inner, &Trail { parent: Some(&step), owner: embedded, field: key })?;
            }
            None => check(below, inner, &Trail { parent: Some(trail), owner, field: key })?,
        }
    }
    Ok(())
}

/// The Go struct a field really lives in where one struct is embedded in another: its name shows in the path.
fn embedded_struct(owner: &str, field: &str) -> Option<&'static str> {
    Some(match (owner, field) {
        ("Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => "ProbeHandler",
        ("Volume", field) if field != "name" => "VolumeSource",
        ("EphemeralContainer", field) if field != "targetContainerName" => "EphemeralContainerCommon",
        ("ConfigMapKeySelector" | "SecretKeySelector", "name") => "LocalObjectReference",
        ("ConfigMapVolumeSource" | "ConfigMapProjection" | "SecretProjection", "name") => "LocalObjectReference",
        ("ConfigMapEnvSource" | "SecretEnvSource", "name") => "LocalObjectReference",
        _ => return None,
    })
}

/// Types with a decoder of their own. What they cannot read as JSON is blamed on the field, what they cannot parse is not.
pub(super) fn check_special(at: SchemaRef<'_>, value: &Value, trail: &Trail<'_>) -> Option<Result<(), String>> {
    let node = at.node();
    if node.preserve_unknown || matches!(node.definition_name(), "RawExtension" | "FieldsV1" | "JSON") {
        return Some(Ok(()));
    }
    if node.ty == SchemaType::IntOrString && node.definition_name() != "Quantity"
        || node.definition_name() == "IntOrString"
    {
        return Some(match value {
            Value::String(_) => Ok(()),
            Value::Number(n) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
            Value::Number(n) => Err(trail.refuse(&format!("number {n}"), "int32")),
            _ => Err(trail.refuse(word(value), "int32")),
        });
    }
    if node.rules.as_ref().is_some_and(|rules| rules.format.as_deref() == Some("byte")) {
        return value.as_str().map(check_base64);
    }
    let text = || value.as_str().ok_or_else(|| trail.refuse(word(value), "string"));
    match node.definition_name() {
        "Quantity" => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some(Quantity::parse(&text).map(|_| ()).map_err(|error| error.to_string()))
        }
        "Time" => Some(text().and_then(|text| check_time(text, TIME_LAYOUT))),
        "MicroTime" => Some(text().and_then(|text| check_time(text, MICRO_LAYOUT))),
        "Duration" => Some(text().and_then(|text| crate::duration::parse(text).map(|_| ()))),
        _ => None,
    }
}

/// The name Go gives to a JSON value it cannot store.
pub(super) fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn go_type(at: SchemaRef<'_>) -> String {
    let node = at.node();
    let format = node.rules.as_ref().and_then(|rules| rules.format.as_deref()).unwrap_or_default();
    match node.ty {
        _ if node.definition.is_some() => node.go_type().to_owned(),
        SchemaType::String if format == "byte" => "[]uint8".into(),
        SchemaType::String => "string".into(),
        SchemaType::Integer => if format == "int32" { "int32" } else { "int64" }.into(),
        SchemaType::Number => if format == "float" { "float32" } else { "float64" }.into(),
        SchemaType::Boolean => "bool".into(),
        SchemaType::IntOrString => "intstr.IntOrString".into(),
        SchemaType::Any => "interface {}".into(),
        SchemaType::Array => format!("[]{}", at.items().map_or_else(|| "interface {}".into(), go_type)),
        SchemaType::Object => match at.additional() {
            Some(below) if below.node().definition_name() == "Quantity" => "v1.ResourceList".into(),
            Some(below) => format!("map[string]{}", go_type(below)),
            None => "map[string]interface {}".into(),
        },
    }
}

/// Go's decoder skips line breaks inside base64, and names the offset of the first byte it cannot read.
fn check_base64(text: &str) -> Result<(), String> {
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match STANDARD.decode(&joined) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(offset, _) | base64::DecodeError::InvalidLastSymbol { offset, .. }) => {
            Err(format!("illegal base64 data at input byte {offset}"))
        }
        Err(_) => Err(format!("illegal base64 data at input byte {}", joined.len() / 4 * 4)),
    }
}

const TIME_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Follows the layout part by part, because Go's message quotes the part that failed and what was left to read.
fn check_time(text: &str, layout: &str) -> Result<(), String> {
    let refuse = |rest: &str, part: &str| {
        Err(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            go_quote(text),
            go_quote(layout),
            go_quote(rest),
            go_quote(part)
        ))
    };
    let mut rest = text;
    for part in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let digits = part.bytes().all(|b| b.is_ascii_digit());
        let head = rest.get(..part.len());
        match head {
            Some(head) if digits && head.bytes().all(|b| b.is_ascii_digit()) => {}
            Some(head) if !digits && head == part => {}
            _ => return refuse(rest, part),
        }
        rest = &rest[part.len()..];
    }
    let fraction =
        rest.strip_prefix(['.', ',']).map(|r| r.len() - r.trim_start_matches(|c: char| c.is_ascii_digit()).len());
    if let Some(digits) = fraction.filter(|digits| *digits > 0) {
        rest = &rest[digits + 1..];
    } else if layout == MICRO_LAYOUT {
        return refuse(rest, ".000000");
    }
    let offset = rest.len() == 6 && rest.starts_with(['+', '-']) && rest.as_bytes()[3] == b':';
    if rest != "Z" && !offset {
        return refuse(rest, "Z07:00");
    }
    let range = |what: &str| Err(format!("parsing time {}: {what} out of range", go_quote(text)));
    let number = |from: usize| text.get(from..from + 2).and_then(|t| t.parse::<u32>().ok()).unwrap_or(99);
    match (number(5), number(8), number(11), number(14), number(17)) {
        (month, ..) if month == 0 || month > 12 => range("month"),
        (_, _, hour, ..) if hour > 23 => range("hour"),
        (_, _, _, minute, _) if minute > 59 => range("minute"),
        (.., second) if second > 59 => range("second"),
        _ if text.get(..10).is_none_or(|date| date.parse::<jiff::civil::Date>().is_err()) => range("day"),
        _ => Ok(()),
    }
}
