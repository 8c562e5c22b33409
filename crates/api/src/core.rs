//! Parts of Kubernetes' own types that Karmada's kinds use.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use serde::{Deserialize, Serialize};

/// Quantities by resource name, unparsed; `quantities` parses them.
pub type ResourceList = BTreeMap<String, QuantityText>;

/// A quantity as written, which may be a plain number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct QuantityText(pub String);

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            serde_json::Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(serde::de::Error::custom(format!("{other} is not a quantity"))),
        }
    }
}

impl From<&Quantity> for QuantityText {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.to_string())
    }
}

/// The quantities of a list; invalid ones are skipped.
pub fn quantities(list: &ResourceList) -> impl Iterator<Item = (&str, Quantity)> {
    list.iter().filter_map(|(name, text)| Some((name.as_str(), Quantity::parse(&text.0).ok()?)))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A requirement of a label or field selector: `In`, `NotIn`, `Exists`, `DoesNotExist`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub last_transition_time: String,
    pub reason: String,
    pub message: String,
}

impl Condition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}

/// Finds a condition by type.
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Adds or replaces a condition; the last transition time is kept while the status stays. Returns whether anything
/// changed.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let Some(old) = conditions.iter_mut().find(|condition| condition.kind == new.kind) else {
        conditions.push(new);
        return true;
    };
    let time =
        if old.status == new.status { old.last_transition_time.clone() } else { new.last_transition_time.clone() };
    let merged = Condition { last_transition_time: time, ..new };
    let changed = *old != merged;
    *old = merged;
    changed
}

impl LabelSelector {
    /// The compiled selector; an empty one matches everything.
    pub fn compile(&self) -> Result<object::selector::LabelSelector, object::selector::SelectorError> {
        let value = serde_json::to_value(self).unwrap_or_default();
        object::selector::LabelSelector::from_value(Some(&value))
    }
}
