//! Between Kubernetes objects and messages.

use std::collections::BTreeMap;

use manager_api::{Condition, NumStatistic};
use object::{Object, Status, conditions, time};
use prost_types::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Reads an RFC 3339 time.
pub fn timestamp(text: &str) -> Option<Timestamp> {
    let at = time::parse(text)?;
    Some(Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() })
}

pub fn created(object: &Object) -> Option<Timestamp> {
    timestamp(object.creation_timestamp())
}

pub fn labels(object: &Object) -> BTreeMap<String, String> {
    object.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub fn conditions_of(object: &Object) -> Vec<Condition> {
    let shown = conditions::all(object).map(|condition| Condition {
        r#type: condition.kind().to_owned(),
        status: condition.status().to_owned(),
        reason: condition.reason().to_owned(),
        message: condition.message().to_owned(),
        last_transition_time: timestamp(condition.text("lastTransitionTime")),
    });
    shown.collect()
}

pub fn statistic(value: Option<&Value>) -> Option<NumStatistic> {
    let value = value?;
    let number = |name: &str| value[name].as_i64().unwrap_or_default();
    Some(NumStatistic { total: number("totalNum"), ready: number("readyNum") })
}

/// The quantities of an object as text.
pub fn quantities(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}

const OWN_FIELDS: [&str; 4] = ["name", "uid", "etag", "createTime"];

/// Returns a message whose fields are those of an object's spec.
pub fn from_spec<T: DeserializeOwned>(object: &Object) -> Result<T, Status> {
    let mut fields = Map::new();
    fields.insert("name".into(), object.name().into());
    fields.insert("uid".into(), object.uid().into());
    fields.insert("etag".into(), object.resource_version().into());
    fields.insert("createTime".into(), object.creation_timestamp().into());
    let spec = object.get(&["spec"]).and_then(Value::as_object).into_iter().flatten();
    for (name, value) in spec.filter(|(_, value)| !value.is_null()) {
        fields.insert(name.clone(), value.clone());
    }
    serde_json::from_value(Value::Object(fields)).map_err(Status::internal)
}

/// The same, without fields that the message does not have.
pub fn from_known_spec<T: DeserializeOwned>(object: &Object, known: &[&str]) -> Result<T, Status> {
    let mut kept = object.clone();
    let spec = object.get(&["spec"]).and_then(Value::as_object).into_iter().flatten();
    let spec: Map<String, Value> = spec
        .filter(|(name, _)| known.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    kept.set(&["spec"], Value::Object(spec));
    from_spec(&kept)
}

/// Returns name, etag and spec of a message.
pub fn to_spec<T: Serialize>(message: &T) -> Result<(String, String, Value), Status> {
    let mut value = serde_json::to_value(message).map_err(Status::internal)?;
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (name, etag) = (text(&value, "name"), text(&value, "etag"));
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, value| !OWN_FIELDS.contains(&name.as_str()) && !is_empty(value));
    }
    match name.is_empty() {
        true => Err(Status::bad_request("name: is required")),
        false => Ok((name, etag, value)),
    }
}

fn is_empty(value: &Value) -> bool {
    *value == json!("") || *value == json!([]) || *value == json!({}) || value.is_null() || *value == json!(false)
}
