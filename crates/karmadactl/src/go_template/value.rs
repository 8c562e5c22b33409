//! The values of a Go template, printed as Go prints them.

use std::borrow::Cow;

use serde_json::Value;

/// A value on its way through a template. Whole numbers of JSON are integers, as where kubectl reads them.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    /// Nothing was there.
    Missing,
    Json(&'a Value),
    Part(&'a [Value]),
    Text(Cow<'a, str>),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl<'a> Val<'a> {
    /// Scalars as themselves.
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Missing,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::Part(items),
            Value::Object(_) => Self::Json(value),
        }
    }

    /// Reports whether the value is true for Go: not missing, empty or zero.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing => false,
            Self::Json(value) => value.as_object().is_some_and(|map| !map.is_empty()),
            Self::Part(items) => !items.is_empty(),
            Self::Text(text) => !text.is_empty(),
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Bool(value) => *value,
        }
    }

    /// As `{{.}}` prints it.
    pub fn print(&self) -> String {
        match self {
            Self::Missing => "<no value>".to_owned(),
            other => other.show(),
        }
    }

    /// As `%v` prints it.
    pub fn show(&self) -> String {
        match self {
            Self::Missing => "<nil>".to_owned(),
            Self::Json(value) => show(value),
            Self::Part(items) => show_items(items),
            Self::Text(text) => text.to_string(),
            Self::Int(number) => number.to_string(),
            Self::Float(number) => float(*number),
            Self::Bool(value) => value.to_string(),
        }
    }

    /// The name Go has for its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing => "<nil>",
            Self::Json(_) => "map[string]interface {}",
            Self::Part(_) => "[]interface {}",
            Self::Text(_) => "string",
            Self::Int(_) => "int",
            Self::Float(_) => "float64",
            Self::Bool(_) => "bool",
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            let parts: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{}", show(value))).collect();
            format!("map[{}]", parts.join(" "))
        }
        Value::Array(items) => show_items(items),
        other => Val::of(other).show(),
    }
}

fn show_items(items: &[Value]) -> String {
    let parts: Vec<String> = items.iter().map(show).collect();
    format!("[{}]", parts.join(" "))
}

/// The shortest form; with an exponent from a million on, as Go has it.
pub fn float(number: f64) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    if !number.is_finite() {
        return match (number.is_nan(), number > 0.0) {
            (true, _) => "NaN".to_owned(),
            (_, true) => "+Inf".to_owned(),
            _ => "-Inf".to_owned(),
        };
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
