//! Computes the quota usage of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinds::quota::{covers, usage};
use object::quantity::{Quantity, QuantityFormat};
use object::{GroupResource, Object};
use serde_json::{Map, Value};

/// The usage counted so far, by quota resource name.
#[derive(Default)]
pub struct QuotaUsage {
    used: BTreeMap<String, Quantity>,
}

/// Returns the resources a quota limits.
pub fn resources(quota: &Object) -> BTreeSet<GroupResource> {
    hard(quota).keys().filter_map(|name| resource_of(name)).collect()
}

fn hard(quota: &Object) -> Map<String, Value> {
    quota.get(&["spec", "hard"]).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn resource_of(name: &str) -> Option<GroupResource> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(GroupResource::new(group, resource));
    }
    let core = |resource: &str| Some(GroupResource::new("", resource));
    if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") {
        return core("persistentvolumeclaims");
    }
    match name {
        "services.loadbalancers" | "services.nodeports" => core("services"),
        "configmaps"
        | "secrets"
        | "services"
        | "persistentvolumeclaims"
        | "replicationcontrollers"
        | "resourcequotas" => core(name),
        // Any other amount is one requested by pods.
        _ => core("pods"),
    }
}

impl QuotaUsage {
    pub fn add(&mut self, quota: &Object, resource: &GroupResource, objects: &[Arc<Object>]) {
        for object in objects {
            if !covers(quota, resource, object) {
                continue;
            }
            for (name, amount) in usage(resource, object) {
                let sum = self.used.get(&name).map_or_else(|| amount.clone(), |sum| sum.plus(&amount));
                self.used.insert(name, sum);
            }
        }
    }

    /// Returns the quota with its new status, or `None` if it is unchanged.
    pub fn into_status(self, quota: &Object) -> Option<Object> {
        let hard = hard(quota);
        let used: Map<String, Value> = hard
            .keys()
            .map(|name| {
                let zero = || Quantity::new(0, QuantityFormat::DecimalSi);
                (name.clone(), self.used.get(name).cloned().unwrap_or_else(zero).to_string().into())
            })
            .collect();
        let same = |path: &[&str], wanted: &Map<String, Value>| {
            let stated = quota.get(path).and_then(Value::as_object).cloned().unwrap_or_default();
            amounts(&stated) == amounts(wanted)
        };
        if same(&["status", "hard"], &hard) && same(&["status", "used"], &used) {
            return None;
        }
        let mut desired = quota.clone();
        desired.set(&["status", "hard"], hard);
        desired.set(&["status", "used"], used);
        Some(desired)
    }
}

/// Parsed for comparison: the same quantity can be written in many ways.
fn amounts(map: &Map<String, Value>) -> BTreeMap<String, Option<Quantity>> {
    map.iter().map(|(name, amount)| (name.clone(), amount.as_str().and_then(|a| Quantity::parse(a).ok()))).collect()
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(resource_of(name).map(|r| r.to_string()).as_deref(), Some(expected), "{name}");
    }

    #[test]
    fn every_limit_names_the_resource_it_counts() {
        check("count/deployments.apps", "deployments.apps");
        check("count/configmaps", "configmaps");
        check("pods", "pods");
        check("requests.cpu", "pods");
        check("limits.memory", "pods");
        check("requests.nvidia.com/gpu", "pods");
        check("requests.storage", "persistentvolumeclaims");
        check("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims");
        check("services.nodeports", "services");
        check("secrets", "secrets");
    }

    #[test]
    fn usage_counts_existing_objects_and_is_zero_without_any() {
        let quota = json!({"spec": {"hard": {"count/configmaps": "5", "pods": "2"}}});
        let quota = Object::from_value(quota).expect("a map");
        let maps = [Arc::new(Object::default()), Arc::new(Object::default())];
        let mut counted = QuotaUsage::default();
        counted.add(&quota, &GroupResource::new("", "configmaps"), &maps);
        let written = counted.into_status(&quota).expect("it had no status");
        assert_eq!(written.get(&["status", "used"]), Some(&json!({"count/configmaps": "2", "pods": "0"})));
        let mut again = QuotaUsage::default();
        again.add(&written, &GroupResource::new("", "configmaps"), &maps);
        assert_eq!(again.into_status(&written), None);
    }
}
