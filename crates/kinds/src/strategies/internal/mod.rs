//! Values as Kubernetes shows them in some messages: in the form of its internal types, with every field in order.
//!
//! `fields.txt` lists those types, one per line: `Type Shown=json:kind …`. A kind is `s` text, `n` number, `b` flag,
//! `q` quantity, `i` number or text, `t` time, `SName` another type; `*` before it may be null, `[]` is a list, `{}`
//! a map; `?` after the JSON name means that an empty value is omitted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

struct Row {
    shown: &'static str,
    json: &'static str,
    hides_empty: bool,
    kind: &'static str,
}

static TYPES: LazyLock<BTreeMap<&'static str, Vec<Row>>> = LazyLock::new(|| {
    let lines = include_str!("fields.txt").lines();
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rows)| (name, rows.split(' ').map(row).collect()))
        .collect()
});

fn row(text: &'static str) -> Row {
    let (names, kind) = text.split_once(':').expect("fields.txt: a kind behind every field");
    let (shown, json) = names.split_once('=').expect("fields.txt: two names for every field");
    Row { shown, json: json.trim_end_matches('?'), hides_empty: json.ends_with('?'), kind }
}

/// A value ready to be printed; maps keep their order.
enum Shown {
    Plain(String),
    List(Vec<Shown>),
    Map(Vec<(String, Shown)>),
}

/// The value of the named type on one line, as after `Invalid value:`.
pub fn compact(kind: &str, value: Option<&Value>) -> String {
    let mut out = String::new();
    write_compact(&show(kind, value), &mut out);
    out
}

/// The value of the named type on many lines, as in a diff.
pub fn pretty(kind: &str, value: Option<&Value>) -> String {
    let mut out = String::new();
    write_pretty(&show(kind, value), 0, &mut out);
    out
}

fn show(kind: &str, value: Option<&Value>) -> Shown {
    let value = value.filter(|v| !v.is_null());
    if let Some(inner) = kind.strip_prefix('*') {
        return value.map_or_else(null, |v| show(inner, Some(v)));
    }
    if let Some(inner) = kind.strip_prefix("[]") {
        let items = value.and_then(Value::as_array);
        return items.map_or_else(null, |items| Shown::List(items.iter().map(|v| show(inner, Some(v))).collect()));
    }
    if let Some(inner) = kind.strip_prefix("{}") {
        let entries = value.and_then(Value::as_object);
        return entries
            .map_or_else(null, |m| Shown::Map(m.iter().map(|(k, v)| (k.clone(), show(inner, Some(v)))).collect()));
    }
    match kind.strip_prefix('S') {
        Some(name) => show_type(name, value),
        None => Shown::Plain(value.map_or_else(|| zero(kind).to_owned(), quote)),
    }
}

fn null() -> Shown {
    Shown::Plain("null".to_owned())
}

fn zero(kind: &str) -> &'static str {
    match kind {
        "s" => "\"\"",
        "n" | "i" => "0",
        "b" => "false",
        "q" => "\"0\"",
        _ => "null",
    }
}

/// JSON as written by Go, which escapes angle brackets and ampersands.
fn quote(value: &Value) -> String {
    let text = value.to_string();
    if !value.is_string() {
        return text;
    }
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn show_type(name: &str, value: Option<&Value>) -> Shown {
    let context = (name == "PodSpec").then(|| pod_security_context(value));
    let mut entries = Vec::new();
    for row in TYPES.get(name).map(Vec::as_slice).unwrap_or_default() {
        // Internal templates have no separate metadata.
        let metadata = || value.and_then(|v| v.get("metadata")?.get(row.json)).filter(|_| row.hides_empty);
        let mut field = value.and_then(|v| v.get(row.json)).or_else(metadata);
        if row.shown == "SecurityContext" && context.is_some() {
            field = context.as_ref();
        }
        if row.hides_empty && field.is_none_or(is_empty) {
            continue;
        }
        entries.push((row.shown.to_owned(), show(row.kind, field)));
    }
    Shown::Map(entries)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_i64() == Some(0),
    }
}

/// Internally the host namespaces of a pod belong to its security context.
fn pod_security_context(spec: Option<&Value>) -> Value {
    let mut context =
        spec.and_then(|s| s.get("securityContext")).and_then(Value::as_object).cloned().unwrap_or_default();
    for key in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        if let Some(value) = spec.and_then(|s| s.get(key)) {
            context.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(context)
}

fn write_compact(shown: &Shown, out: &mut String) {
    match shown {
        Shown::Plain(text) => out.push_str(text),
        Shown::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_compact(item, out);
            }
            out.push(']');
        }
        Shown::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&quote(&Value::from(key.as_str())));
                out.push(':');
                write_compact(value, out);
            }
            out.push('}');
        }
    }
}

fn write_pretty(shown: &Shown, depth: usize, out: &mut String) {
    let indent = |depth: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&" ".repeat(depth));
    };
    match shown {
        Shown::List(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                indent(depth + 1, out);
                write_pretty(item, depth + 1, out);
            }
            indent(depth, out);
            out.push(']');
        }
        Shown::Map(entries) if !entries.is_empty() => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                indent(depth + 1, out);
                out.push_str(&quote(&Value::from(key.as_str())));
                out.push_str(": ");
                write_pretty(value, depth + 1, out);
            }
            indent(depth, out);
            out.push('}');
        }
        other => write_compact(other, out),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_shown_in_the_order_of_the_type() {
        let taint = json!({"effect": "NoExecute", "key": "b", "value": "v"});
        assert_eq!(compact("STaint", Some(&taint)), r#"{"Key":"b","Value":"v","Effect":"NoExecute","TimeAdded":null}"#);
        assert_eq!(pretty("SNodeAddress", Some(&json!({"type": "a"}))), "{\n \"Type\": \"a\",\n \"Address\": \"\"\n}");
    }

    #[test]
    fn every_type_another_refers_to_is_listed() {
        for rows in TYPES.values() {
            for row in rows {
                let kind = row.kind.trim_start_matches(['*', '[', ']', '{', '}']);
                if let Some(name) = kind.strip_prefix('S') {
                    assert!(TYPES.contains_key(name), "{name}");
                }
            }
        }
    }
}
