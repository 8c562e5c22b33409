//! Checks a ResourceBinding against the FederatedResourceQuotas of its namespace.

use std::collections::BTreeMap;

use api::core::{ResourceList, quantities};
use api::policy::{QuotaSpec, QuotaStatus};
use api::work::{self, BindingSpec};
use object::quantity::Quantity;
use object::{Object, Status};

use crate::bindings;
use crate::rules::Denial;

const WEBHOOK: &str = "resourcebinding.karmada.io";

/// Amounts by resource.
pub type Usage = BTreeMap<String, Quantity>;

/// The spec of a binding, whichever version it is written in.
pub fn binding_spec(binding: &Object) -> Result<BindingSpec, Status> {
    if binding.api_version() == work::RESOURCE_BINDINGS_V1ALPHA1.api_version() {
        return api::read(&bindings::upgrade(binding.clone()));
    }
    api::read(binding)
}

/// Returns the usage of a binding in all its members together.
pub fn usage(spec: &BindingSpec) -> Usage {
    let mut total = Usage::new();
    if !spec.components.is_empty() {
        for component in &spec.components {
            let request = component.replica_requirements.as_ref().map(|needs| &needs.resource_request);
            let times = i64::from(component.replicas) * spec.clusters.len() as i64;
            add(&mut total, request, times);
        }
        return total;
    }
    let replicas: i64 = spec.clusters.iter().map(|cluster| i64::from(cluster.replicas)).sum();
    add(&mut total, spec.replica_requirements.as_ref().map(|needs| &needs.resource_request), replicas);
    total
}

fn add(total: &mut Usage, request: Option<&ResourceList>, times: i64) {
    for (name, amount) in request.into_iter().flat_map(quantities) {
        let sum = total.entry(name.to_owned()).or_default();
        *sum = sum.plus(&amount.times(times));
    }
    total.retain(|_, amount| !amount.is_zero());
}

/// Returns the usage a write adds to a binding; empty when the write does not affect quotas.
pub fn growth(new: &BindingSpec, old: Option<&BindingSpec>) -> Usage {
    if old.is_none() && new.clusters.is_empty() {
        return Usage::new();
    }
    let mut growth = usage(new);
    for (name, before) in old.map(usage).unwrap_or_default() {
        let grown = growth.remove(&name).unwrap_or_default().minus(&before);
        growth.insert(name, grown);
    }
    growth.retain(|_, amount| !amount.is_zero());
    growth
}

/// Checks one quota. Returns the usage to record, or `None` when the quota does not apply.
pub fn decide(
    (namespace, name): (&str, &str),
    spec: &QuotaSpec,
    status: &QuotaStatus,
    growth: &Usage,
) -> Result<Option<Usage>, Denial> {
    let limits: Usage = quantities(&spec.overall).map(|(name, amount)| (name.to_owned(), amount)).collect();
    let concerned: Vec<&String> = growth.keys().filter(|name| limits.contains_key(*name)).collect();
    if concerned.is_empty() {
        return Ok(None);
    }
    let mut used: Usage = quantities(&status.overall_used).map(|(name, amount)| (name.to_owned(), amount)).collect();
    for resource in concerned {
        let sum = used.remove(resource).unwrap_or_default().plus(&growth[resource]);
        used.insert(resource.clone(), sum);
    }
    for (resource, sum) in &used {
        if let Some(limit) = limits.get(resource).filter(|limit| !sum.is_zero() && sum > *limit) {
            let message = format!(
                "FederatedResourceQuota({namespace}/{name}) exceeded for resource {resource}: requested sum {sum}, limit {limit}."
            );
            return Err(Denial { webhook: WEBHOOK, code: 403, reason: "QuotaExceeded", message });
        }
    }
    Ok(Some(used))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(replicas: i32) -> BindingSpec {
        serde_json::from_value(json!({
            "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
            "clusters": [{"name": "m1", "replicas": replicas}],
        }))
        .expect("a binding")
    }

    fn quota(overall: &str, used: &str) -> (QuotaSpec, QuotaStatus) {
        let spec = serde_json::from_value(json!({"overall": {"cpu": overall}})).expect("a spec");
        let status = serde_json::from_value(json!({"overallUsed": {"cpu": used}})).expect("a status");
        (spec, status)
    }

    #[test]
    fn a_binding_that_is_not_placed_yet_uses_nothing() {
        assert!(growth(&BindingSpec { clusters: Vec::new(), ..binding(1) }, None).is_empty());
    }

    #[test]
    fn usage_is_counted_from_the_previous_usage() {
        let growth = growth(&binding(4), Some(&binding(2)));
        assert_eq!(growth["cpu"].to_string(), "1");
        let (spec, status) = quota("3", "2");
        let used = decide(("ns", "q"), &spec, &status, &growth).expect("fits").expect("concerned");
        assert_eq!(used["cpu"].to_string(), "3");
    }

    #[test]
    fn a_binding_over_quota_is_refused_with_usage_and_limit() {
        let (spec, status) = quota("3", "2500m");
        let denial = decide(("ns", "q"), &spec, &status, &growth(&binding(2), None)).expect_err("too much");
        assert_eq!((denial.code, denial.reason), (403, "QuotaExceeded"));
        let expected = "FederatedResourceQuota(ns/q) exceeded for resource cpu: requested sum 3500m, limit 3.";
        assert_eq!(denial.message, expected);
    }

    #[test]
    fn components_count_once_per_member() {
        let spec: BindingSpec = serde_json::from_value(json!({
            "components": [{"name": "a", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}],
            "clusters": [{"name": "m1"}, {"name": "m2"}],
        }))
        .expect("a binding");
        assert_eq!(usage(&spec)["cpu"].to_string(), "4");
    }
}
