//! Pieces of descriptions that several kinds share.

use std::fmt::Write;

use jiff::tz::TimeZone;
use object::Object;
use serde_json::{Map, Value};

use super::{LAST_APPLIED, annotation, several};

/// Writes a line `title: value`.
pub fn line(text: &mut String, title: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{title}:\t{value}");
}

/// Writes the line if there is a value.
pub fn line_if(text: &mut String, title: &str, value: &str) {
    if !value.is_empty() {
        line(text, title, value);
    }
}

pub fn name_and_namespace(text: &mut String, object: &Object) {
    line(text, "Name", object.name());
    line(text, "Namespace", object.namespace());
}

/// Writes labels and annotations.
pub fn labels_and_annotations(text: &mut String, object: &Object) {
    several(text, "Labels", object.labels().map(|(key, value)| format!("{key}={value}\n")).collect());
    annotations(text, "Annotations", object.get(&["metadata", "annotations"]));
}

pub fn annotations(text: &mut String, title: &str, map: Option<&Value>) {
    let entries = entries(map).filter(|(key, _)| *key != LAST_APPLIED);
    several(text, title, entries.map(|(key, value)| annotation(key, value)).collect());
}

/// Writes a map of texts, one line each.
pub fn labels(text: &mut String, title: &str, map: Option<&Value>) {
    several(text, title, entries(map).map(|(key, value)| format!("{key}={value}\n")).collect());
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// `a=b,c=d`, or `<none>`.
pub fn format_labels(map: Option<&Value>) -> String {
    let mut pairs: Vec<String> = entries(map).map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    or_none(&pairs.join(","))
}

/// The text of a label selector.
pub fn format_selector(selector: Option<&Value>) -> String {
    let empty = Map::new();
    let selector = selector.and_then(Value::as_object).unwrap_or(&empty);
    let mut parts: Vec<String> =
        entries(selector.get("matchLabels")).map(|(key, value)| format!("{key}={value}")).collect();
    for requirement in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = requirement["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        parts.push(match requirement["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort();
    or_none(&parts.join(","))
}

pub fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

/// The controller of an object, as `KIND/NAME`.
pub fn controller(object: &Object) -> String {
    let owners = object.owner_references();
    let owner = owners.iter().find(|owner| owner.controller);
    owner.map(|owner| format!("{}/{}", owner.kind, owner.name)).unwrap_or_default()
}

/// A time in the time zone of this machine: `Mon, 02 Jan 2006 15:04:05 -0700`.
pub fn time(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
        Err(_) => text.to_owned(),
    }
}

/// The text of a scalar: a number, or the text itself.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The number at a path; 0 if there is none.
pub fn number(object: &Object, path: &[&str]) -> i64 {
    object.i64_at(path).unwrap_or(0)
}

/// Writes the table of conditions with their times; `observed` is the field of the first time.
pub fn conditions_with_times(text: &mut String, object: &Object, title: &str, observed: &str) {
    let conditions = object.items(&["status", "conditions"]);
    if conditions.is_empty() {
        return;
    }
    let _ = writeln!(text, "Conditions:\n  Type\tStatus\t{title}\tLastTransitionTime\tReason\tMessage");
    text.push_str("  ----\t------\t-----------------\t------------------\t------\t-------\n");
    for condition in conditions {
        let field = |name: &str| condition[name].as_str().unwrap_or_default();
        let (seen, changed) = (time_or_zero(field(observed)), time_or_zero(field("lastTransitionTime")));
        let (kind, status) = (field("type"), field("status"));
        let _ = writeln!(text, "  {kind} \t{status} \t{seen} \t{changed} \t{} \t{}", field("reason"), field("message"));
    }
}

/// A missing time is Go's zero.
fn time_or_zero(text: &str) -> String {
    if text.is_empty() { "Mon, 01 Jan 0001 00:00:00 +0000".to_owned() } else { time(text) }
}

/// Writes the table of conditions of a workload.
pub fn conditions(text: &mut String, object: &Object) {
    let conditions = object.items(&["status", "conditions"]);
    if conditions.is_empty() {
        return;
    }
    text.push_str("Conditions:\n  Type\tStatus\tReason\n  ----\t------\t------\n");
    for condition in conditions {
        let field = |name: &str| condition[name].as_str().unwrap_or_default();
        let _ = writeln!(text, "  {} \t{}\t{}", field("type"), field("status"), field("reason"));
    }
}
