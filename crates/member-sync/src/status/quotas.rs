//! The capacity left by the ResourceQuotas of a member, for the scheduler's estimator.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capacity::{Amounts, QuotaCapacity, QuotaScope};
use object::Object;
use serde_json::Value;

use crate::status::capacity::{CPU, MEMORY, amount, quantity};

const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";

/// Keeps of a quota what limits pods.
pub fn trim_quota(quota: &mut Object) {
    for field in ["managedFields", "annotations", "labels"] {
        quota.remove(&["metadata", field]);
    }
    quota.remove(&["spec", "hard"]);
}

/// By namespace; quotas that limit nothing pods ask for are left out.
pub fn by_namespace(quotas: &[Arc<Object>]) -> BTreeMap<String, Vec<QuotaCapacity>> {
    let mut found: BTreeMap<String, Vec<QuotaCapacity>> = BTreeMap::new();
    for quota in quotas {
        if let Some(limit) = limit_of(quota) {
            found.entry(quota.namespace().to_owned()).or_default().push(limit);
        }
    }
    found
}

/// Returns the remaining capacity of a quota, if it limits anything.
pub fn limit_of(quota: &Object) -> Option<QuotaCapacity> {
    let free = free_of(quota);
    (!free.is_empty()).then(|| QuotaCapacity { scopes: scopes_of(quota), free })
}

/// Returns the unused part of a quota, from its status: limits that are not in the status are not in force.
fn free_of(quota: &Object) -> Amounts {
    let of = |list: &str, name: &str| quota.get(&["status", list])?.get(name).and_then(quantity);
    let names = quota.get(&["status", "hard"]).and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
    let (mut plain, requests): (Vec<&String>, Vec<&String>) = names.partition(|name| !name.starts_with(REQUESTS));
    // `requests.cpu` and `cpu` are the same, and the longer name is meant where both are there.
    plain.extend(requests);
    let mut free = Amounts::new();
    for name in plain {
        let resource = name.strip_prefix(REQUESTS).unwrap_or(name);
        if let (true, Some(hard), Some(used)) = (is_limited(resource), of("hard", name), of("used", name)) {
            free.insert(resource.to_owned(), amount(resource, &hard.minus(&used)));
        }
    }
    free
}

/// Reports whether replica requests for a resource are known: CPU, memory and extended resources.
fn is_limited(resource: &str) -> bool {
    let is_extended = resource.contains('/') && !resource.contains("kubernetes.io/");
    !resource.starts_with(LIMITS) && (matches!(resource, CPU | MEMORY) || is_extended)
}

/// The short form of a scope is a requirement that it is there.
fn scopes_of(quota: &Object) -> Vec<QuotaScope> {
    let short = quota.items(&["spec", "scopes"]).iter().filter_map(Value::as_str).map(|name| QuotaScope {
        name: name.to_owned(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let long: Vec<QuotaScope> = api::read_at(quota, &["spec", "scopeSelector", "matchExpressions"]).unwrap_or_default();
    short.chain(long).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(spec: Value, status: Value) -> Arc<Object> {
        let metadata = json!({"name": "q", "namespace": "team", "labels": {"a": "b"}});
        let mut quota = Object::from_value(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
            "spec": spec, "status": status}))
        .expect("a map");
        trim_quota(&mut quota);
        Arc::new(quota)
    }

    #[track_caller]
    fn check(hard: Value, used: Value, expected: &[(&str, i64)]) {
        let found = by_namespace(&[quota(json!({}), json!({"hard": hard, "used": used}))]);
        let free: Vec<(&str, i64)> = found
            .get("team")
            .into_iter()
            .flat_map(|quotas| quotas[0].free.iter().map(|(name, amount)| (name.as_str(), *amount)))
            .collect();
        assert_eq!(free, expected, "{found:?}");
    }

    #[test]
    fn the_remaining_quota_is_the_limit_minus_usage() {
        check(json!({"cpu": "2"}), json!({"cpu": "500m"}), &[("cpu", 1500)]);
        check(json!({"requests.cpu": "20m"}), json!({"requests.cpu": "0"}), &[("cpu", 20)]);
        check(json!({"requests.memory": "1Gi"}), json!({"requests.memory": "2Gi"}), &[("memory", -(1 << 30))]);
        check(
            json!({"requests.nvidia.com/gpu": "4", "example.com/x": "3"}),
            json!({"requests.nvidia.com/gpu": "1", "example.com/x": "0"}),
            &[("example.com/x", 3), ("nvidia.com/gpu", 3)],
        );
        let both = json!({"cpu": "9", "requests.cpu": "1"});
        check(both, json!({"cpu": "0", "requests.cpu": "0"}), &[("cpu", 1000)]);
    }

    #[test]
    fn resources_that_replicas_do_not_request_are_not_limited() {
        for name in ["pods", "limits.cpu", "limits.nvidia.com/gpu", "requests.storage", "services", "hugepages-2Mi"] {
            check(json!({name: "1"}), json!({name: "1"}), &[]);
        }
        check(json!({"cpu": "1"}), json!({}), &[]);
        assert!(by_namespace(&[quota(json!({"hard": {"cpu": "1"}}), json!({}))]).is_empty(), "not in force yet");
    }

    #[test]
    fn quota_scopes_must_match() {
        let figures = json!({"hard": {"cpu": "1"}, "used": {"cpu": "0"}});
        let spec = json!({"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}});
        let found = by_namespace(&[quota(spec, figures)]);
        let scope = |name: &str, operator: &str, values: &[&str]| QuotaScope {
            name: name.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let expected = [scope("BestEffort", "Exists", &[]), scope("PriorityClass", "In", &["high"])];
        assert_eq!(found["team"][0].scopes, expected);
    }
}
