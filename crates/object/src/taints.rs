//! Taints of nodes and clusters, and the tolerations of workloads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const NO_SCHEDULE: &str = "NoSchedule";
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";

/// The key of the taint of a cordoned node.
pub const NODE_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Empty means every key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Empty means every effect.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// Seconds a `NoExecute` taint is tolerated; unlimited if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Taint {
    /// Reads a taint of a node; `None` for one without a key or with an unknown effect.
    pub fn read(value: &Value) -> Option<Self> {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let effect = text("effect").filter(|effect| [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE].contains(&&**effect));
        let (key, time_added) = (text("key")?, text("timeAdded"));
        Some(Self { key, value: text("value").unwrap_or_default(), effect: effect?, time_added })
    }

    pub fn read_all(values: &[Value]) -> Vec<Self> {
        values.iter().filter_map(Self::read).collect()
    }

    /// Reports whether the taint prevents placement, unlike `PreferNoSchedule`.
    pub fn keeps_away(&self) -> bool {
        self.effect != PREFER_NO_SCHEDULE
    }

    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

impl Toleration {
    pub fn read_all(values: &[Value]) -> Vec<Self> {
        values.iter().map(Self::read).collect()
    }

    fn read(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            toleration_seconds: value["tolerationSeconds"].as_i64(),
        }
    }

    /// Reports whether it tolerates the taint. `Lt`, `Gt` and unknown operators tolerate nothing.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let fits = |own: &str, other: &str| own.is_empty() || own == other;
        if !fits(&self.effect, &taint.effect) || !fits(&self.key, &taint.key) {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }

    /// Reports whether the toleration applies to `PreferNoSchedule` taints.
    pub fn concerns_preferences(&self) -> bool {
        self.effect.is_empty() || self.effect == PREFER_NO_SCHEDULE
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let taint = Taint::read(&json!({"key": "a", "value": "1", "effect": "NoSchedule"})).expect("a taint");
        let check = |toleration: Value, expected: bool| {
            assert_eq!(Toleration::read(&toleration).tolerates(&taint), expected, "{toleration}");
        };
        check(json!({"key": "a", "value": "1"}), true);
        check(json!({"key": "a", "operator": "Equal", "value": "2"}), false);
        check(json!({"key": "a", "operator": "Exists"}), true);
        check(json!({"operator": "Exists"}), true);
        check(json!({"operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"operator": "Exists", "effect": "Sometimes"}), false);
        check(json!({"key": "b", "operator": "Exists"}), false);
        check(json!({"key": "a", "operator": "Like", "value": "1"}), false);
    }

    #[test]
    fn a_taint_without_a_key_or_with_an_unknown_effect_is_left_out() {
        let taints = [json!({"effect": "NoExecute"}), json!({"key": "a", "effect": "Sometimes"}), json!({"key": "b"})];
        assert_eq!(Taint::read_all(&taints), []);
    }
}
