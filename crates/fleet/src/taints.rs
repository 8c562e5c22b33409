//! Putting taints on a cluster and taking them off, as data.

use jiff::Timestamp;
use object::taints::Taint;
use object::time::format_seconds;
use serde_json::{Value, json};

/// Is there a taint of this key and effect? Kubernetes takes two such for the same whatever their values.
pub fn has(taints: &[Value], taint: &Taint) -> bool {
    taints.iter().any(|other| is_same(other, taint))
}

/// The taints without some and with others at the end. Those that were there stay as they are.
pub fn change(taints: &[Value], add: &[Taint], remove: &[Taint], now: Timestamp) -> Vec<Value> {
    let kept = taints.iter().filter(|taint| !remove.iter().any(|removed| is_same(taint, removed)));
    let added = add.iter().filter(|taint| !has(taints, taint)).map(|taint| {
        let mut value = json!({"key": taint.key, "effect": taint.effect, "timeAdded": format_seconds(now)});
        if !taint.value.is_empty() {
            value["value"] = taint.value.as_str().into();
        }
        value
    });
    kept.cloned().chain(added).collect()
}

/// The taints in the form of Karmada's events.
pub fn describe(taints: &[Value]) -> String {
    if taints.is_empty() {
        return "cluster now does not have taints".to_owned();
    }
    let described: Vec<String> = taints
        .iter()
        .map(|taint| {
            let text = |key: &str| taint[key].as_str().unwrap_or_default().to_owned();
            let value = Some(text("value")).filter(|value| !value.is_empty());
            let value = value.map(|value| format!("Value:{value},")).unwrap_or_default();
            format!("{{Key:{},{value}Effect:{}}}", text("key"), text("effect"))
        })
        .collect();
    format!("cluster now has taints([{}])", described.join(","))
}

pub fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

fn is_same(value: &Value, taint: &Taint) -> bool {
    value["key"] == taint.key.as_str() && value["effect"] == taint.effect.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_described_as_by_karmada() {
        assert_eq!(describe(&[]), "cluster now does not have taints");
        let taints =
            [json!({"key": "a", "effect": "NoSchedule"}), json!({"key": "b", "value": "c", "effect": "NoExecute"})];
        assert_eq!(
            describe(&taints),
            "cluster now has taints([{Key:a,Effect:NoSchedule},{Key:b,Value:c,Effect:NoExecute}])"
        );
    }
}
