//! Counts bindings by state, cluster and policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::work::CONDITION_SCHEDULED;
use object::Object;
use object::conditions::ConditionView;
use serde::Serialize;
use serde_json::{Value, json};

use crate::bindings::filter::{is_leaving, policy_of};

/// Bindings shown of each state that needs attention.
const SHOWN: usize = 8;

/// The stage that a binding reached. The earliest stage comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
enum BindingState {
    #[serde(rename = "Not scheduled")]
    NotScheduled,
    Unhealthy,
    Applying,
    Healthy,
}

/// The share of one cluster.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct ClusterShare {
    objects: usize,
    replicas: i64,
}

/// The sums over all bindings that were added.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingCounts {
    total: usize,
    /// Bindings with target clusters.
    scheduled: usize,
    /// Those that every target cluster took.
    applied: usize,
    /// Those that are healthy in every target cluster.
    healthy: usize,
    /// Bindings that leave a cluster.
    leaving: usize,
    replicas: i64,
    states: BTreeMap<BindingState, usize>,
    clusters: BTreeMap<String, ClusterShare>,
    policies: BTreeMap<String, usize>,
    #[serde(skip)]
    attention: BTreeMap<BindingState, Vec<Arc<Object>>>,
}

impl BindingCounts {
    pub fn add(&mut self, binding: &Arc<Object>) {
        let targets = binding.items(&["spec", "clusters"]);
        let (state, is_applied) = (state_of(binding), !targets.is_empty() && is_applied(binding));
        self.total += 1;
        self.scheduled += usize::from(!targets.is_empty());
        self.applied += usize::from(is_applied);
        self.healthy += usize::from(is_applied && state == BindingState::Healthy);
        self.leaving += usize::from(is_leaving(binding));
        *self.states.entry(state).or_default() += 1;
        for target in targets {
            let replicas = target["replicas"].as_i64().unwrap_or(0);
            self.replicas += replicas;
            let share = self.clusters.entry(target["name"].as_str().unwrap_or_default().to_owned()).or_default();
            share.objects += 1;
            share.replicas += replicas;
        }
        if let Some(policy) = policy_of(binding) {
            *self.policies.entry(policy).or_default() += 1;
        }
        if state != BindingState::Healthy {
            let shown = self.attention.entry(state).or_default();
            if shown.len() < SHOWN {
                shown.push(Arc::clone(binding));
            }
        }
    }

    /// With the bindings that need attention most.
    pub fn to_value(&self) -> Value {
        let attention: Vec<Value> =
            self.attention.values().flatten().take(SHOWN).map(|binding| binding.unmanaged().into_value()).collect();
        let mut value = json!(self);
        value["attention"] = attention.into();
        value
    }
}

fn state_of(binding: &Object) -> BindingState {
    let conditions = binding.items(&["status", "conditions"]).iter().map(ConditionView::of);
    let is_refused = conditions.filter(|one| one.kind() == CONDITION_SCHEDULED).any(ConditionView::is_false);
    let targets = binding.items(&["spec", "clusters"]);
    if targets.is_empty() || is_refused {
        return BindingState::NotScheduled;
    }
    if !is_applied(binding) {
        return BindingState::Applying;
    }
    let is_unhealthy =
        |target: &Value| status_in(binding, target).is_some_and(|status| status["health"] == "Unhealthy");
    if targets.iter().any(is_unhealthy) { BindingState::Unhealthy } else { BindingState::Healthy }
}

/// Every target cluster took the object.
fn is_applied(binding: &Object) -> bool {
    let is_taken = |target: &Value| status_in(binding, target).is_some_and(|status| status["applied"] == true);
    binding.items(&["spec", "clusters"]).iter().all(is_taken)
}

fn status_in<'a>(binding: &'a Object, target: &Value) -> Option<&'a Value> {
    binding.items(&["status", "aggregatedStatus"]).iter().find(|status| status["clusterName"] == target["name"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(number: usize, clusters: &Value, statuses: &Value, scheduled: &str) -> Arc<Object> {
        let value = json!({
            "metadata": {
                "name": format!("w{number}-deployment"),
                "namespace": "shop",
                "managedFields": [{"manager": "test"}],
                "annotations": {
                    "propagationpolicy.karmada.io/name": "web",
                    "propagationpolicy.karmada.io/namespace": "shop",
                },
            },
            "spec": {"resource": {"kind": "Deployment", "name": format!("w{number}")}, "clusters": clusters},
            "status": {
                "conditions": [{"type": "Scheduled", "status": scheduled}],
                "aggregatedStatus": statuses,
            },
        });
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn healthy(number: usize) -> Arc<Object> {
        let statuses = json!([{"clusterName": "m1", "applied": true, "health": "Healthy"}]);
        binding(number, &json!([{"name": "m1", "replicas": 2}]), &statuses, "True")
    }

    #[test]
    fn the_state_is_the_step_that_is_missing() {
        let target = json!([{"name": "m1"}, {"name": "m2"}]);
        let check = |clusters: &Value, statuses: &Value, scheduled: &str, expected: BindingState| {
            assert_eq!(state_of(&binding(0, clusters, statuses, scheduled)), expected, "{clusters} {statuses}");
        };
        let taken = |first: &str, second: &str| {
            json!([
                {"clusterName": "m1", "applied": true, "health": first},
                {"clusterName": "m2", "applied": true, "health": second},
            ])
        };
        check(&json!([]), &json!([]), "True", BindingState::NotScheduled);
        check(&target, &taken("Healthy", "Healthy"), "False", BindingState::NotScheduled);
        check(&target, &json!([{"clusterName": "m1", "applied": true}]), "True", BindingState::Applying);
        check(&target, &taken("Healthy", "Unhealthy"), "True", BindingState::Unhealthy);
        check(&target, &taken("Healthy", "Unknown"), "True", BindingState::Healthy);
    }

    #[test]
    fn every_binding_counts_also_beyond_one_page() {
        let mut counts = BindingCounts::default();
        for number in 0..1_200 {
            counts.add(&healthy(number));
        }
        for number in 0..20 {
            counts.add(&binding(number, &json!([{"name": "m2", "replicas": 1}]), &json!([]), "True"));
        }
        counts.add(&binding(99, &json!([]), &json!([]), "False"));
        let value = counts.to_value();
        let number = |field: &str| value[field].as_i64().expect("a number");
        assert_eq!((number("total"), number("scheduled"), number("applied")), (1_221, 1_220, 1_200));
        assert_eq!((number("healthy"), number("replicas"), number("leaving")), (1_200, 2_420, 0));
        assert_eq!(value["clusters"]["m1"], json!({"objects": 1_200, "replicas": 2_400}));
        assert_eq!(value["clusters"]["m2"], json!({"objects": 20, "replicas": 20}));
        assert_eq!(value["policies"], json!({"PropagationPolicy/shop/web": 1_221}));
        assert_eq!(value["states"], json!({"Not scheduled": 1, "Applying": 20, "Healthy": 1_200}));
    }

    #[test]
    fn what_stops_earliest_is_shown_first_and_within_limits() {
        let mut counts = BindingCounts::default();
        for number in 0..20 {
            counts.add(&binding(number, &json!([{"name": "m2"}]), &json!([]), "True"));
        }
        counts.add(&binding(99, &json!([]), &json!([]), "False"));
        let value = counts.to_value();
        let shown = value["attention"].as_array().expect("a list");
        assert_eq!((shown.len(), &shown[0]["metadata"]["name"]), (SHOWN, &json!("w99-deployment")));
        assert!(shown[0]["metadata"]["managedFields"].is_null());
    }
}
