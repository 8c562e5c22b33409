//! Cells shared by several tables: ages, labels, selectors, containers, truncated lists.

use jiff::Timestamp;
use object::Object;
use serde_json::{Map, Value};

use super::age;

pub(super) fn age_of(object: &Object, now: Timestamp) -> Value {
    age::since(object.creation_timestamp(), now).into()
}

/// The full creation time, as in the plain table; the year one if unset.
pub(super) fn creation_time(object: &Object) -> Value {
    match object.creation_timestamp() {
        "" => "0001-01-01T00:00:00Z".into(),
        time => time.into(),
    }
}

pub(super) fn number_at(object: &Object, path: &[&str]) -> i64 {
    object.i64_at(path).unwrap_or(0)
}

pub(super) fn count_at(object: &Object, path: &[&str]) -> Value {
    number_at(object, path).into()
}

/// The string below `value`, or `""`.
pub(super) fn str_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn items_of<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text_or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

/// A string that may be absent; present but empty stays empty.
pub(super) fn optional_text(object: &Object, path: &[&str], otherwise: &str) -> Value {
    object.get(path).and_then(Value::as_str).unwrap_or(otherwise).into()
}

/// `a=b,c=d` in key order, or `<none>`.
pub(super) fn labels(labels: Option<&Value>) -> String {
    let pairs: Vec<String> =
        entries(labels).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    text_or(&pairs.join(","), "<none>")
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// A label selector in its query form, `<none>` if it is empty.
pub(super) fn selector(selector: Option<&Value>) -> String {
    text_or(&selector_query(selector), "<none>")
}

/// A label selector in its query form, requirements in key order.
pub(super) fn selector_query(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut terms: Vec<(&str, String)> = entries(selector.get("matchLabels"))
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in items_of(selector, "matchExpressions") {
        let key = str_of(expression, "key");
        let mut values: Vec<&str> = items_of(expression, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match str_of(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// Names and images of containers, each joined by commas.
pub(super) fn containers(containers: &[Value]) -> (Value, Value) {
    let join = |key: &str| containers.iter().map(|c| str_of(c, key)).collect::<Vec<_>>().join(",");
    (join("name").into(), join("image").into())
}

/// `a,b,c + 2 more...`: the first three and the number of others; `otherwise` if there are none.
pub(super) fn first_three(list: &[String], otherwise: &str) -> String {
    match list.len() {
        0 => otherwise.to_owned(),
        1..=3 => text_or(&list.join(","), otherwise),
        more => format!("{} + {} more...", list[..3].join(","), more - 3),
    }
}

/// A quantity, or `0` if absent.
pub(super) fn quantity(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "0".to_owned(),
    }
}

/// An integer or a percentage.
pub(super) fn int_or_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
