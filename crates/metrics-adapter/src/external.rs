//! Values of external metrics, and their sum over members. Karmada does not serve this API.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use serde_json::{Value, json};

use crate::custom::read_quantity;

/// One value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalValue {
    pub metric: String,
    pub labels: BTreeMap<String, String>,
    pub timestamp: String,
    pub window_seconds: Option<i64>,
    pub value: Quantity,
}

impl ExternalValue {
    fn read(value: &Value) -> Option<Self> {
        let labels = value["metricLabels"].as_object().into_iter().flatten();
        Some(Self {
            metric: value["metricName"].as_str()?.to_owned(),
            labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
            timestamp: value["timestamp"].as_str().unwrap_or_default().to_owned(),
            window_seconds: value["window"].as_i64(),
            value: read_quantity(&value["value"])?,
        })
    }

    /// Returns the value as an item of an `ExternalMetricValueList`.
    pub fn to_value(&self) -> Value {
        let mut item = json!({"metricName": self.metric, "metricLabels": self.labels, "timestamp": self.timestamp,
            "value": self.value.to_string()});
        if let Some(seconds) = self.window_seconds {
            item["window"] = seconds.into();
        }
        item
    }
}

/// Reads the items of an `ExternalMetricValueList`; those that are not values are left out.
pub fn read_list(list: &Value) -> Vec<ExternalValue> {
    list["items"].as_array().into_iter().flatten().filter_map(ExternalValue::read).collect()
}

/// Sums values with the same name and labels. The timestamp is the oldest one.
pub fn merge(values: impl IntoIterator<Item = ExternalValue>) -> Vec<ExternalValue> {
    let mut merged: BTreeMap<(String, BTreeMap<String, String>), ExternalValue> = BTreeMap::new();
    for value in values {
        let key = (value.metric.clone(), value.labels.clone());
        match merged.get_mut(&key) {
            Some(sum) => {
                sum.value = sum.value.plus(&value.value);
                sum.timestamp = std::mem::take(&mut sum.timestamp).min(value.timestamp);
            }
            None => drop(merged.insert(key, value)),
        }
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_the_same_labels_are_summed() {
        let item = |queue: &str, value: &str, at: &str| json!({"metricName": "depth", "metricLabels": {"queue": queue}, "timestamp": at, "value": value});
        let one = read_list(&json!({"items": [item("a", "3", "2026-01-01T00:00:02Z"), item("b", "500m", "x"), {}]}));
        let other = read_list(&json!({"items": [item("a", "4", "2026-01-01T00:00:01Z")]}));
        let merged: Vec<Value> = merge(one.into_iter().chain(other)).iter().map(ExternalValue::to_value).collect();
        assert_eq!(merged, [item("a", "7", "2026-01-01T00:00:01Z"), item("b", "500m", "x")]);
    }
}
