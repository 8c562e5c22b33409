//! The usage of a ResourceQuota by an object. Used by admission before a write, and by the quota controller to
//! recalculate.

use std::collections::BTreeMap;

use object::quantity::{Quantity, QuantityFormat};
use object::{GroupResource, Object};
use serde_json::Value;

/// Amounts by quota resource name: `pods`, `requests.cpu`, `count/deployments.apps`.
pub type QuotaUsage = BTreeMap<String, Quantity>;

/// The quota usage of one object.
pub fn usage(resource: &GroupResource, object: &Object) -> QuotaUsage {
    let mut usage = QuotaUsage::new();
    let counted = if resource.group.is_empty() { resource.resource.clone() } else { resource.to_string() };
    usage.insert(format!("count/{counted}"), one());
    if !resource.group.is_empty() {
        return usage;
    }
    match resource.resource.as_str() {
        // A pod that has ended keeps its name but uses no capacity.
        "pods" if matches!(object.str_at(&["status", "phase"]), "Succeeded" | "Failed") => {}
        "pods" => {
            usage.insert("pods".to_owned(), one());
            add_pod(&mut usage, object);
        }
        "persistentvolumeclaims" => {
            usage.insert("persistentvolumeclaims".to_owned(), one());
            let asked = object.get(&["spec", "resources", "requests", "storage"]).and_then(read);
            let class = object.str_at(&["spec", "storageClassName"]);
            if let Some(asked) = asked {
                usage.insert("requests.storage".to_owned(), asked.clone());
                if !class.is_empty() {
                    usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), asked);
                }
            }
            if !class.is_empty() {
                usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one());
            }
        }
        "services" => {
            usage.insert("services".to_owned(), one());
            let ports = object.items(&["spec", "ports"]).len() as i64;
            let ty = object.str_at(&["spec", "type"]);
            if ty == "LoadBalancer" {
                usage.insert("services.loadbalancers".to_owned(), one());
            }
            if matches!(ty, "LoadBalancer" | "NodePort") {
                usage.insert("services.nodeports".to_owned(), Quantity::new(ports, QuantityFormat::DecimalSi));
            }
        }
        "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => {
            usage.insert(resource.resource.clone(), one());
        }
        _ => {}
    }
    usage
}

fn add_pod(usage: &mut QuotaUsage, pod: &Object) {
    for part in ["requests", "limits"] {
        for (name, amount) in pod_amounts(pod, part) {
            let standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
            if part == "requests" && standard {
                usage.insert(name.clone(), amount.clone());
            }
            if standard || part == "requests" {
                usage.insert(format!("{part}.{name}"), amount);
            }
        }
    }
}

/// Containers run together, init containers sequentially before them: the larger of the two counts.
fn pod_amounts(pod: &Object, part: &str) -> QuotaUsage {
    let mut total = QuotaUsage::new();
    for container in pod.items(&["spec", "containers"]) {
        for (name, amount) in amounts(container, part) {
            let sum = total.get(&name).map_or(amount.clone(), |sum| sum.plus(&amount));
            total.insert(name, sum);
        }
    }
    for container in pod.items(&["spec", "initContainers"]) {
        for (name, amount) in amounts(container, part) {
            let sidecar = container["restartPolicy"] == "Always";
            let current = total.get(&name).cloned();
            let merged = match current {
                Some(sum) if sidecar => sum.plus(&amount),
                Some(sum) if sum >= amount => sum,
                _ => amount,
            };
            total.insert(name, merged);
        }
    }
    total
}

fn amounts(container: &Value, part: &str) -> Vec<(String, Quantity)> {
    let map = container["resources"][part].as_object().into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.clone(), read(value)?))).collect()
}

fn read(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

fn one() -> Quantity {
    Quantity::new(1, QuantityFormat::DecimalSi)
}

/// Reports whether the quota's scopes select the object.
pub fn covers(quota: &Object, resource: &GroupResource, object: &Object) -> bool {
    let plain = quota.items(&["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain = plain.map(|scope| serde_json::json!({"scopeName": scope, "operator": "Exists"}));
    let selected = quota.items(&["spec", "scopeSelector", "matchExpressions"]).iter().cloned();
    let mut scopes = plain.chain(selected).peekable();
    let is_pod = resource.group.is_empty() && resource.resource == "pods";
    scopes.peek().is_none() || (is_pod && scopes.all(|scope| in_scope(&scope, object)))
}

fn in_scope(scope: &Value, pod: &Object) -> bool {
    let terminating = pod.i64_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0);
    let best_effort = ["requests", "limits"].iter().all(|part| pod_amounts(pod, part).is_empty());
    let class = pod.str_at(&["spec", "priorityClassName"]);
    match scope["scopeName"].as_str().unwrap_or_default() {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let listed = scope["values"].as_array().into_iter().flatten().any(|v| v == class);
            match scope["operator"].as_str().unwrap_or_default() {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_uses_the_sum_of_its_containers() {
        let pod = Object::from_value(json!({"spec": {
            "containers": [{"resources": {"requests": {"cpu": "100m"}}}, {"resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "1"}}}],
        }}))
        .expect("a map");
        let used = usage(&GroupResource::new("", "pods"), &pod);
        let text: Vec<String> = used.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(text, ["count/pods=1", "cpu=1", "memory=1Gi", "pods=1", "requests.cpu=1", "requests.memory=1Gi"]);
    }

    #[test]
    fn scopes_select_only_pods() {
        let quota = Object::from_value(json!({"spec": {"scopes": ["BestEffort"]}})).expect("a map");
        let pods = GroupResource::new("", "pods");
        assert!(covers(&quota, &pods, &Object::default()));
        assert!(!covers(&quota, &GroupResource::new("", "services"), &Object::default()));
    }
}
