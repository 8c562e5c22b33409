//! Node requirements of one pod: resources, and node constraints.

use std::collections::BTreeMap;

use api::core::{QuantityText, ResourceList};
use api::work::{NodeClaim, ReplicaRequirements};
use object::names::qualified_name;
use object::quantity::{Quantity, QuantityFormat};
use object::taints::Toleration;
use serde::Deserialize;
use serde_json::Value;

use crate::operation::{InterpretError, InterpretResult};

/// Options set by feature gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodOptions {
    /// Quotas are counted by priority class, so the class must be reported (gate ResourceQuotaEstimate).
    pub with_priority_class: bool,
}

/// The requirements of a pod spec; `None` if it has none.
pub fn requirements(spec: &Value, options: PodOptions) -> InterpretResult<Option<ReplicaRequirements>> {
    let node_claim = node_claim(spec)?;
    let resource_request = request(spec)?;
    if node_claim.is_none() && resource_request.is_empty() {
        return Ok(None);
    }
    let class = if options.with_priority_class { spec["priorityClassName"].as_str() } else { None };
    Ok(Some(ReplicaRequirements {
        node_claim,
        resource_request,
        namespace: String::new(),
        priority_class_name: class.unwrap_or_default().to_owned(),
    }))
}

fn node_claim(spec: &Value) -> InterpretResult<Option<NodeClaim>> {
    let wanted = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let claim = NodeClaim {
        hard_node_affinity: (!wanted.is_null()).then(|| wanted.clone()),
        node_selector: read(spec, "nodeSelector")?,
        tolerations: read::<Vec<Toleration>>(spec, "tolerations")?,
    };
    Ok((claim != NodeClaim::default()).then_some(claim))
}

fn read<T: for<'de> Deserialize<'de> + Default>(spec: &Value, key: &str) -> InterpretResult<T> {
    match &spec[key] {
        Value::Null => Ok(T::default()),
        value => T::deserialize(value).map_err(|error| InterpretError(format!("{key} cannot be read: {error}"))),
    }
}

/// Amounts by resource name: milli-units of cpu, whole units of all else.
type Amounts<'a> = BTreeMap<&'a str, i64>;

/// The sum over the containers, or the largest init container if that is more, plus the overhead.
fn request(spec: &Value) -> InterpretResult<ResourceList> {
    let mut total = Amounts::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        for (name, amount) in container_request(container)? {
            let sum = total.entry(name).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        for (name, amount) in container_request(container)? {
            let most = total.entry(name).or_default();
            *most = amount.max(*most);
        }
    }
    let mut overhead = Amounts::new();
    collect(&spec["overhead"], &mut overhead)?;
    for (name, amount) in overhead {
        let sum = total.entry(name).or_default();
        *sum = sum.saturating_add(amount);
    }
    let wanted = total.into_iter().filter(|(_, amount)| *amount > 0);
    Ok(wanted.map(|(name, amount)| (name.to_owned(), QuantityText::from(&written(name, amount)))).collect())
}

/// A limit without a request counts as the request.
fn container_request(container: &Value) -> InterpretResult<Amounts<'_>> {
    let mut amounts = Amounts::new();
    collect(&container["resources"]["requests"], &mut amounts)?;
    collect(&container["resources"]["limits"], &mut amounts)?;
    Ok(amounts)
}

/// Adds missing entries.
fn collect<'a>(list: &'a Value, amounts: &mut Amounts<'a>) -> InterpretResult<()> {
    for (name, value) in list.as_object().into_iter().flatten() {
        if amounts.contains_key(name.as_str()) || !is_counted(name) {
            continue;
        }
        let quantity = match value {
            Value::String(text) => Quantity::parse(text),
            other => Quantity::parse(&other.to_string()),
        };
        let quantity = quantity.map_err(|error| InterpretError(format!("{name} {value}: {error}")))?;
        let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
        amounts.insert(name, amount);
    }
    Ok(())
}

fn written(name: &str, amount: i64) -> Quantity {
    match name {
        "cpu" => Quantity::from_milli(amount, QuantityFormat::DecimalSi),
        "memory" | "ephemeral-storage" => Quantity::new(amount, QuantityFormat::BinarySi),
        name if name.starts_with("hugepages-") => Quantity::new(amount, QuantityFormat::BinarySi),
        _ => Quantity::new(amount, QuantityFormat::DecimalSi),
    }
}

/// Resources a scheduler can count: the basic ones, and extended resources.
fn is_counted(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pods")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || is_extended(name)
}

fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: Value, expected: Value) {
        let found = requirements(&spec, PodOptions::default()).expect("readable");
        assert_eq!(serde_json::to_value(found).expect("encodes"), expected, "of {spec}");
    }

    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn a_pod_without_requests_has_no_requirements() {
        check(json!({"containers": [{"name": "c"}]}), Value::Null);
        check(json!({"containers": [container(json!({"cpu": "0"}), json!({}))], "nodeSelector": {}}), Value::Null);
        check(Value::Null, Value::Null);
    }

    #[test]
    fn containers_are_summed_init_containers_maxed_and_overhead_added() {
        check(
            json!({
                "containers": [container(json!({"cpu": "500m", "memory": "1Gi"}), json!({})),
                    container(json!({"cpu": 1}), json!({"memory": "512Mi", "cpu": "9"}))],
                "initContainers": [container(json!({"cpu": "2", "memory": "1Mi"}), json!({})),
                    container(json!({}), json!({"ephemeral-storage": "1G"}))],
                "overhead": {"cpu": "100m"},
            }),
            json!({"resourceRequest": {"cpu": "2100m", "memory": "1536Mi", "ephemeral-storage": "1000000000"}}),
        );
    }

    #[test]
    fn only_countable_resources_are_requested() {
        let asked = json!({"nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "storage": "1Gi", "requests.a/b": 1,
            "attachable-volumes-x": 3, "example.kubernetes.io/x": 1});
        check(
            json!({"containers": [container(asked, json!({}))]}),
            json!({"resourceRequest": {"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "attachable-volumes-x": "3",
                "example.kubernetes.io/x": "1"}}),
        );
    }

    #[test]
    fn node_claims_come_from_labels_taints_and_required_affinity() {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]});
        check(
            json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "t", "operator": "Exists"}],
                "priorityClassName": "high",
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}),
            json!({"nodeClaim": {"nodeSelector": {"disk": "ssd"}, "hardNodeAffinity": required,
                "tolerations": [{"key": "t", "operator": "Exists"}]}}),
        );
    }

    #[test]
    fn the_priority_class_is_reported_only_with_quota_estimation() {
        let spec = json!({"nodeSelector": {"a": "b"}, "priorityClassName": "high"});
        let class = |with_priority_class| {
            let found = requirements(&spec, PodOptions { with_priority_class }).expect("readable");
            found.expect("has a selector").priority_class_name
        };
        assert_eq!((class(false), class(true)), (String::new(), "high".to_owned()));
    }

    #[test]
    fn an_amount_that_is_no_amount_is_an_error() {
        let spec = json!({"containers": [container(json!({"cpu": "much"}), json!({}))]});
        let error = requirements(&spec, PodOptions::default()).expect_err("no amount");
        assert!(error.0.starts_with("cpu \"much\": quantities must match"), "{error}");
    }
}
