//! Values of custom metrics: both versions of the API, and the sum over members.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use serde_json::{Map, Value, json};

/// A version of `custom.metrics.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomVersion {
    V1Beta2,
    V1Beta1,
}

/// One value, independent of the version it was read in.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomValue {
    /// An object reference.
    pub object: Map<String, Value>,
    pub metric: String,
    /// The label selector of the metric, where the source reports one.
    pub selector: Value,
    pub timestamp: String,
    pub window_seconds: Option<i64>,
    pub value: Quantity,
}

impl CustomVersion {
    /// The newest first.
    pub const ALL: [Self; 2] = [Self::V1Beta2, Self::V1Beta1];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta2 => "v1beta2",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

impl std::fmt::Display for CustomVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CustomValue {
    pub fn object_name(&self) -> &str {
        self.object.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    fn read(value: &Value, version: CustomVersion) -> Option<Self> {
        let (metric, selector, window) = match version {
            CustomVersion::V1Beta2 => (&value["metric"]["name"], &value["metric"]["selector"], &value["windowSeconds"]),
            CustomVersion::V1Beta1 => (&value["metricName"], &value["selector"], &value["window"]),
        };
        Some(Self {
            object: value["describedObject"].as_object()?.clone(),
            metric: metric.as_str()?.to_owned(),
            selector: selector.clone(),
            timestamp: value["timestamp"].as_str().unwrap_or_default().to_owned(),
            window_seconds: window.as_i64(),
            value: read_quantity(&value["value"])?,
        })
    }

    /// Returns the value as an item of a `MetricValueList`.
    pub fn to_value(&self, version: CustomVersion) -> Value {
        let mut item = json!({"describedObject": self.object, "timestamp": self.timestamp});
        let window = match version {
            CustomVersion::V1Beta2 => {
                item["metric"] = json!({"name": self.metric, "selector": self.selector});
                "windowSeconds"
            }
            CustomVersion::V1Beta1 => {
                item["metricName"] = self.metric.as_str().into();
                item["selector"] = self.selector.clone();
                "window"
            }
        };
        if let Some(seconds) = self.window_seconds {
            item[window] = seconds.into();
        }
        item["value"] = self.value.to_string().into();
        item
    }
}

/// Reads the items of a `MetricValueList`; those that are not values are left out.
pub fn read_list(list: &Value, version: CustomVersion) -> Vec<CustomValue> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| CustomValue::read(item, version)).collect()
}

/// Sums the values of objects with the same name, as Karmada does, and sorts them by name.
pub fn merge(values: impl IntoIterator<Item = CustomValue>) -> Vec<CustomValue> {
    let mut merged: BTreeMap<String, CustomValue> = BTreeMap::new();
    for value in values {
        let key = value.object_name().to_owned();
        match merged.get_mut(&key) {
            Some(sum) => sum.value = sum.value.plus(&value.value),
            None => drop(merged.insert(key, value)),
        }
    }
    merged.into_values().collect()
}

/// A quantity is a string, or a number in hand-written answers.
pub fn read_quantity(value: &Value) -> Option<Quantity> {
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_number().map(ToString::to_string))?;
    Quantity::parse(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1beta1() -> Value {
        json!({"items": [{"describedObject": {"kind": "Pod", "namespace": "d", "name": "a", "apiVersion": "/v1"},
            "metricName": "hits", "timestamp": "2026-01-01T00:00:00Z", "window": 60, "value": "1500m", "selector": null}]})
    }

    #[test]
    fn values_are_converted_between_versions() {
        let values = read_list(&v1beta1(), CustomVersion::V1Beta1);
        let newer = values[0].to_value(CustomVersion::V1Beta2);
        let expected = json!({"describedObject": {"kind": "Pod", "namespace": "d", "name": "a", "apiVersion": "/v1"},
            "metric": {"name": "hits", "selector": null}, "timestamp": "2026-01-01T00:00:00Z", "windowSeconds": 60,
            "value": "1500m"});
        assert_eq!(newer, expected);
        let back = read_list(&json!({"items": [newer]}), CustomVersion::V1Beta2);
        assert_eq!(back[0].to_value(CustomVersion::V1Beta1), v1beta1()["items"][0]);
    }

    #[test]
    fn values_of_one_name_are_summed() {
        let one = read_list(&v1beta1(), CustomVersion::V1Beta1);
        let mut other = one[0].clone();
        other.object.insert("name".to_owned(), "b".into());
        let merged = merge([other, one[0].clone(), one[0].clone()]);
        let shown: Vec<String> = merged.iter().map(|v| format!("{} {}", v.object_name(), v.value)).collect();
        assert_eq!(shown, ["a 3", "b 1500m"]);
    }

    #[test]
    fn items_that_are_not_values_are_left_out() {
        let list = json!({"items": [1, {"describedObject": {}}, {"describedObject": {}, "metric": {"name": "m"},
            "value": "much"}, {"describedObject": {"name": "a"}, "metric": {"name": "m"}, "value": 3}]});
        let values = read_list(&list, CustomVersion::V1Beta2);
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].value.to_string(), "3");
        assert!(read_list(&json!("x"), CustomVersion::V1Beta2).is_empty());
    }
}
