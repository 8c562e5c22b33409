//! Taints of nodes and tolerations of pods.

use serde_json::Value;

/// Keeps pods away from a cordoned node.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: Box<str>,
    pub value: Box<str>,
    pub effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Empty means every key.
    key: Box<str>,
    value: Box<str>,
    /// Operator `Exists`: any value matches.
    exists: bool,
    /// All effects when `None`.
    effect: Option<Effect>,
    /// Seconds a `NoExecute` taint is tolerated; unlimited if `None`.
    pub seconds: Option<i64>,
    /// The toleration is valid.
    is_sound: bool,
}

impl Effect {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }
}

impl Taint {
    pub fn read(value: &Value) -> Option<Self> {
        let effect = Effect::parse(value["effect"].as_str()?)?;
        let value_text = value["value"].as_str().unwrap_or_default();
        Some(Self { key: value["key"].as_str()?.into(), value: value_text.into(), effect })
    }

    pub fn read_all(values: &[Value]) -> Vec<Self> {
        values.iter().filter_map(Self::read).collect()
    }

    /// Reports whether the taint prevents placement, unlike `PreferNoSchedule`.
    pub fn keeps_away(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }

    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

impl Toleration {
    pub fn read(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        let effect = Effect::parse(text("effect"));
        Self {
            key: text("key").into(),
            value: text("value").into(),
            exists: text("operator") == "Exists",
            effect,
            seconds: value["tolerationSeconds"].as_i64(),
            is_sound: matches!(text("operator"), "" | "Equal" | "Exists")
                && (text("effect").is_empty() || effect.is_some()),
        }
    }

    pub fn read_all(values: &[Value]) -> Vec<Self> {
        values.iter().map(Self::read).collect()
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.is_sound
            && self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && (self.exists || self.value == taint.value)
    }

    /// Reports whether the toleration applies to `PreferNoSchedule` taints.
    pub fn concerns_preferences(&self) -> bool {
        self.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule)
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
        check(json!({"key": "b", "operator": "Exists"}), false);
        check(json!({"key": "a", "operator": "Like", "value": "1"}), false);
    }
}
