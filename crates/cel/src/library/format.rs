//! `string.format`: `%s`, `%d`, `%f`, `%e`, `%b`, `%o`, `%x`, `%X`.

use data_encoding::HEXLOWER;

use super::convert::plain_text;
use super::{CallContext, fail, no_overload_for};
use crate::value::{EvalError, Evaluated, List, Map, Value};

const PRECISION_DEFAULT: usize = 6;
/// More digits are meaningless for a double.
const PRECISION_MAX: usize = 1_000;

pub(super) fn format<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(template), Value::List(items)] = args else { return no_overload_for(context, args) };
    let mut out = String::new();
    let mut used = 0;
    let mut rest = &**template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let Some(item) = items.get(used) else {
            return fail(format!("index {used} out of range"));
        };
        let (verb, precision, after) = read_clause(rest)?;
        rest = after;
        used += 1;
        out.push_str(&clause(verb, precision, &item?)?);
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

/// The verb and precision after a percent sign, and the rest of the text.
pub(crate) fn read_clause(text: &str) -> Result<(char, Option<usize>, &str), EvalError> {
    let (precision, text) = match text.strip_prefix('.') {
        None => (None, text),
        Some(digits) => {
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let precision = digits[..end].parse::<usize>().ok().filter(|precision| *precision <= PRECISION_MAX);
            let Some(precision) = precision else {
                return Err(EvalError::new("error while parsing precision"));
            };
            (Some(precision), &digits[end..])
        }
    };
    match text.chars().next() {
        Some(verb) => Ok((verb, precision, &text[verb.len_utf8()..])),
        None => Err(EvalError::new("unexpected end of string")),
    }
}

fn clause(verb: char, precision: Option<usize>, value: &Value) -> Result<String, EvalError> {
    let precision = precision.unwrap_or(PRECISION_DEFAULT);
    match (verb, value) {
        ('s', value) => whole_value(value),
        ('d', Value::Int(value)) => Ok(value.to_string()),
        ('d', Value::Uint(value)) => Ok(value.to_string()),
        ('f', Value::Double(value)) => Ok(fixed(*value, precision)),
        // Kubernetes uses the precision of this clause as a width.
        ('e', Value::Double(value)) => Ok(format!("{:>precision$}", scientific(*value))),
        ('f' | 'e', Value::String(text)) => match &**text {
            "NaN" => Ok(not_finite(f64::NAN)),
            "Infinity" => Ok(not_finite(f64::INFINITY)),
            "-Infinity" => Ok(not_finite(f64::NEG_INFINITY)),
            _ => Err(unsupported(verb, value)),
        },
        ('b', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:b}"))),
        ('b', Value::Uint(value)) => Ok(format!("{value:b}")),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('o', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:o}"))),
        ('o', Value::Uint(value)) => Ok(format!("{value:o}")),
        ('x' | 'X', value) => {
            let hex = match value {
                Value::Int(value) => signed(*value, |magnitude| format!("{magnitude:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => hex_bytes(text.as_bytes()),
                Value::Bytes(bytes) => hex_bytes(bytes),
                other => return Err(unsupported(verb, other)),
            };
            Ok(if verb == 'X' { hex.to_uppercase() } else { hex })
        }
        ('d' | 'f' | 'e' | 'b' | 'o', other) => Err(unsupported(verb, other)),
        (other, _) => Err(unknown_clause(other)),
    }
}

pub(crate) fn unknown_clause(verb: char) -> EvalError {
    EvalError::new(format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\""))
}

fn unsupported(verb: char, value: &Value) -> EvalError {
    EvalError::new(format!("error during formatting: {}, was given {}", restriction(verb), value.type_name()))
}

/// The values a clause accepts.
pub(crate) fn restriction(verb: char) -> &'static str {
    match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps"
        }
    }
}

fn signed(value: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", show(value.unsigned_abs()))
}

fn hex_bytes(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Fixed notation with thousands separated by commas, as in the default locale.
fn fixed(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let plain = format!("{value:.precision$}");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

fn not_finite(value: f64) -> String {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "NaN".to_owned(),
        (false, true) => "∞".to_owned(),
        (false, false) => "-∞".to_owned(),
    }
}

fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let shown = format!("{value:.PRECISION_DEFAULT$e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    // The default locale writes powers of ten out.
    format!("{mantissa}×10{}", superscript(exponent.parse().unwrap_or(0)))
}

fn superscript(exponent: i32) -> String {
    let digit = |c: char| match c {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        _ => '⁹',
    };
    format!("{}{:02}", if exponent < 0 { "-" } else { "" }, exponent.abs()).chars().map(digit).collect()
}

fn whole_value(value: &Value) -> Result<String, EvalError> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Value::List(list) => shown_list(list),
        Value::Map(map) => shown_map(map),
        Value::Opaque(_) | Value::Optional(_) => Err(unsupported('s', value)),
        other => plain_text(other).ok_or_else(|| unsupported('s', other)),
    }
}

/// A value inside a list or map, formatted like a literal.
fn nested(value: &Value) -> Result<String, EvalError> {
    Ok(match value {
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Double(value) if value.is_finite() => format!("{value:.PRECISION_DEFAULT$}"),
        Value::Double(value) => format!("{:?}", super::numbers::shortest(*value)),
        Value::Timestamp(time) => format!("timestamp(\"{time}\")"),
        Value::Duration(duration) => format!("duration(\"{duration}\")"),
        Value::Type(ty) => format!("type({})", ty.runtime_name()),
        other => whole_value(other)?,
    })
}

fn shown_list(list: &List) -> Result<String, EvalError> {
    let items: Result<Vec<String>, EvalError> = list.iter().map(|item| nested(&item?)).collect();
    Ok(format!("[{}]", items?.join(", ")))
}

fn shown_map(map: &Map) -> Result<String, EvalError> {
    let mut entries = Vec::new();
    for (key, value) in map.entries()? {
        entries.push((nested(&key)?, nested(&value)?));
    }
    entries.sort();
    let shown: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", shown.join(", ")))
}
