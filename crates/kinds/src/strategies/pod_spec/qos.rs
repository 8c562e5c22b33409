//! The quality-of-service class of a pod.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::amount::Amount;

/// `Guaranteed` if every container has equal requests and limits for cpu and memory, `BestEffort` if none has any.
pub fn class_of(spec: &Value) -> &'static str {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    if let Some(resources) = spec.get("resources").filter(|r| r.is_object()) {
        add(resources.get("requests"), &mut requests);
        let limited = add(resources.get("limits"), &mut limits);
        let given = resources.get("limits").and_then(Value::as_object).is_some_and(|l| !l.is_empty());
        guaranteed = !given || limited == 2;
    } else {
        let lists = ["containers", "initContainers"];
        for container in lists.iter().filter_map(|list| spec.get(list)?.as_array()).flatten() {
            let resources = container.get("resources");
            add(resources.and_then(|r| r.get("requests")), &mut requests);
            guaranteed &= add(resources.and_then(|r| r.get("limits")), &mut limits) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let equal = requests.len() == limits.len()
        && requests.iter().all(|(name, request)| limits.get(name).is_some_and(|limit| limit.same_as(*request)));
    if guaranteed && equal { "Guaranteed" } else { "Burstable" }
}

/// Adds the cpu and memory of a list; returns how many of the two it has.
fn add<'a>(list: Option<&'a Value>, total: &mut BTreeMap<&'a str, Amount>) -> usize {
    let mut found = 0;
    for (name, value) in list.and_then(Value::as_object).into_iter().flatten() {
        let amount = Amount::of(value).unwrap_or(Amount::ZERO);
        if matches!(name.as_str(), "cpu" | "memory") && amount.is_positive() {
            found += 1;
            let sum = total.get(name.as_str()).map_or(amount, |have: &Amount| have.plus(amount));
            total.insert(name, sum);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        let cases = [
            (json!({"containers": [{}]}), "BestEffort"),
            (json!({"containers": [{"resources": full}]}), "Guaranteed"),
            (json!({"containers": [{"resources": full}, {}]}), "Burstable"),
            (json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]}), "Burstable"),
            (json!({"containers": [{}], "resources": full}), "Guaranteed"),
        ];
        for (spec, expected) in cases {
            assert_eq!(class_of(&spec), expected, "{spec}");
        }
    }
}
