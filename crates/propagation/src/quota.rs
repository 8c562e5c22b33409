//! The usage of a binding that counts against the quotas of its namespace.

use std::collections::BTreeMap;

use api::core::{ResourceList, quantities};
use api::work::BindingSpec;
use object::quantity::Quantity;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Returns the resources a placed binding uses: its request for each assigned replica, or, if it has components, one
/// whole set of them in each cluster.
pub fn usage(spec: &BindingSpec) -> Amounts {
    let mut used = Amounts::new();
    if !spec.components.is_empty() {
        let clusters = i64::try_from(spec.clusters.len()).unwrap_or(i64::MAX);
        for component in &spec.components {
            if let Some(requirements) = &component.replica_requirements {
                let factor = clusters.saturating_mul(component.replicas.into());
                add_times(&mut used, &requirements.resource_request, factor);
            }
        }
    } else if let Some(requirements) = &spec.replica_requirements {
        let replicas = spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
        add_times(&mut used, &requirements.resource_request, replicas);
    }
    used.retain(|_, amount| !amount.is_zero());
    used
}

/// Adds amounts to others.
pub fn add(total: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name).or_default();
        *sum = sum.plus(&amount);
    }
}

/// The amounts a quota speaks of; it limits nothing else.
pub fn limited_by(amounts: Amounts, overall: &ResourceList) -> Amounts {
    amounts.into_iter().filter(|(name, _)| overall.contains_key(name)).collect()
}

fn add_times(total: &mut Amounts, request: &ResourceList, factor: i64) {
    add(total, quantities(request).map(|(name, amount)| (name.to_owned(), amount.times(factor))).collect());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(spec: Value, expected: &[(&str, &str)]) {
        let parsed: BindingSpec = serde_json::from_value(spec.clone()).expect("a spec");
        let used = usage(&parsed);
        let used: Vec<(&str, String)> = used.iter().map(|(name, amount)| (name.as_str(), amount.to_string())).collect();
        let expected: Vec<(&str, String)> =
            expected.iter().map(|(name, amount)| (*name, (*amount).to_owned())).collect();
        assert_eq!(used, expected, "{spec}");
    }

    #[test]
    fn usage_is_the_request_times_the_assigned_replicas() {
        let requirements = json!({"resourceRequest": {"cpu": "100m", "memory": "64Mi", "none": "0"}});
        let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}]);
        check(
            json!({"replicas": 9, "replicaRequirements": requirements, "clusters": clusters}),
            &[("cpu", "500m"), ("memory", "320Mi")],
        );
        check(json!({"replicas": 9, "replicaRequirements": requirements}), &[]);
        check(json!({"replicas": 9, "clusters": clusters}), &[]);
    }

    #[test]
    fn components_count_as_a_set_in_every_cluster() {
        let component = |replicas: i32, cpu: &str| json!({"name": cpu, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
        let components = json!([component(1, "1"), component(4, "500m"), {"name": "idle", "replicas": 2}]);
        let clusters = json!([{"name": "m1"}, {"name": "m2"}]);
        check(json!({"components": components, "clusters": clusters}), &[("cpu", "6")]);
        check(json!({"components": components}), &[]);
    }

    #[test]
    fn a_quota_limits_the_resources_it_names() {
        let overall = ResourceList::from([("cpu".to_owned(), Default::default())]);
        let amounts = Amounts::from([("cpu".to_owned(), Quantity::default()), ("gpu".to_owned(), Quantity::default())]);
        assert_eq!(limited_by(amounts, &overall).into_keys().collect::<Vec<_>>(), ["cpu"]);
    }
}
