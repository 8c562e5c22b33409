//! The parsed spec of a Deployment.

use object::Object;
use serde_json::Value;

use crate::templates::{is_same, scaled};

/// The label that distinguishes the pods of the ReplicaSets.
pub const HASH_LABEL: &str = "pod-template-hash";
/// No deadline, and no limit.
const UNLIMITED: i64 = i32::MAX as i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentStrategy {
    Recreate,
    Rolling { surge_max: i64, unavailable_max: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeploymentSpec {
    pub replicas: i64,
    pub ready_seconds_min: i64,
    pub strategy: DeploymentStrategy,
    pub is_paused: bool,
    pub deadline_seconds: Option<i64>,
    pub history_max: Option<i64>,
}

impl DeploymentSpec {
    pub fn of(deployment: &Object) -> Self {
        let replicas = deployment.i64_at(&["spec", "replicas"]).unwrap_or(1);
        let limited = |field: &str, default: i64| {
            let value = deployment.i64_at(&["spec", field]).unwrap_or(default);
            (value != UNLIMITED).then_some(value)
        };
        Self {
            replicas,
            ready_seconds_min: deployment.i64_at(&["spec", "minReadySeconds"]).unwrap_or(0),
            strategy: strategy_of(deployment, replicas),
            is_paused: deployment.bool_at(&["spec", "paused"]).unwrap_or(false),
            deadline_seconds: limited("progressDeadlineSeconds", 600),
            history_max: limited("revisionHistoryLimit", 10),
        }
    }

    pub fn surge_max(&self) -> i64 {
        match self.strategy {
            DeploymentStrategy::Recreate => 0,
            DeploymentStrategy::Rolling { surge_max, .. } => surge_max,
        }
    }

    pub fn unavailable_max(&self) -> i64 {
        match self.strategy {
            DeploymentStrategy::Rolling { unavailable_max, .. } if self.replicas > 0 => {
                unavailable_max.min(self.replicas)
            }
            _ => 0,
        }
    }
}

fn strategy_of(deployment: &Object, replicas: i64) -> DeploymentStrategy {
    if deployment.str_at(&["spec", "strategy", "type"]) == "Recreate" {
        return DeploymentStrategy::Recreate;
    }
    let quarter = Value::from("25%");
    let of = |field: &str, round_up| {
        let value = deployment.get(&["spec", "strategy", "rollingUpdate", field]).unwrap_or(&quarter);
        scaled(Some(value), replicas, round_up).unwrap_or(0)
    };
    let (surge_max, unavailable_max) = (of("maxSurge", true), of("maxUnavailable", false));
    // With both at zero, which percentages may round to, a rollout could never proceed.
    let unavailable_max = if surge_max == 0 && unavailable_max == 0 { 1 } else { unavailable_max };
    DeploymentStrategy::Rolling { surge_max, unavailable_max }
}

/// Reports whether a ReplicaSet has the Deployment's template.
pub fn has_template_of(deployment: &Object, set: &Object) -> bool {
    let part = |object: &Object, field: &str| object.get(&["spec", "template", field]).cloned().unwrap_or_default();
    let metadata = |object: &Object| {
        let mut metadata = part(object, "metadata");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH_LABEL);
        }
        metadata
    };
    let spec = |object| Object::get(object, &["spec", "template", "spec"]).unwrap_or(&Value::Null);
    is_same(spec(deployment), spec(set)) && is_same(&metadata(deployment), &metadata(set))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(replicas: i64, surge: Value, unavailable: Value, expected: (i64, i64)) {
        let deployment = json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}});
        let spec = DeploymentSpec::of(&Object::from_value(deployment).expect("a map"));
        assert_eq!((spec.surge_max(), spec.unavailable_max()), expected);
    }

    #[test]
    fn a_rollout_can_always_proceed() {
        check(10, json!("25%"), json!("25%"), (3, 2));
        check(1, json!("25%"), json!("25%"), (1, 0));
        check(3, json!(0), json!("10%"), (0, 1));
        check(2, json!(0), json!(5), (0, 2));
        check(0, json!(1), json!(1), (1, 0));
    }

    #[test]
    fn template_comparison_ignores_the_hash_label() {
        let object = |value| Object::from_value(value).expect("a map");
        let deployment = object(json!({"spec": {"template": {"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c"}]}}}}));
        let set = |image: Value| {
            object(json!({"spec": {"template": {"metadata": {"creationTimestamp": null,
                "labels": {"app": "a", "pod-template-hash": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}}))
        };
        assert!(has_template_of(&deployment, &set(Value::Null)));
        assert!(!has_template_of(&deployment, &set(json!("nginx"))));
    }
}
