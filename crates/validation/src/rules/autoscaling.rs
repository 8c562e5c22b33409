//! FederatedHPA and CronFederatedHPA.

use std::collections::BTreeSet;

use kinds::strategies::defaults::{map_at, set_absent};
use kinds::strategies::fields::{Field, Report};
use object::{FieldError, GroupVersionKind, Object, names};
use serde_json::{Map, Value, json};

use super::cron;

/// Metrics that exist without pods, so that they can start the first one.
const SOURCES_WITHOUT_PODS: [&str; 2] = ["Object", "External"];

pub fn default(autoscaler: &mut Object) {
    let Some(spec) = map_at(autoscaler.as_map_mut(), "spec") else { return };
    set_absent(spec, "minReplicas", 1);
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let cpu = json!({"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        spec.insert("metrics".to_owned(), json!([cpu]));
    }
    if let Some(behavior) = map_at(spec, "behavior") {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        fill_rules(behavior, "scaleUp", json!([pods, percent]), Some(0));
        fill_rules(behavior, "scaleDown", json!([percent]), None);
    }
}

/// Only the fields Karmada copies are kept: a tolerance is not.
fn fill_rules(behavior: &mut Map<String, Value>, direction: &str, policies: Value, window: Option<i64>) {
    let given = behavior.remove(direction).unwrap_or_default();
    let taken = |key: &str| given.get(key).filter(|value| !value.is_null()).cloned();
    let mut rules = Map::new();
    let window = taken("stabilizationWindowSeconds").or(window.map(Value::from));
    rules.extend(window.map(|window| ("stabilizationWindowSeconds".to_owned(), window)));
    rules.insert("selectPolicy".to_owned(), taken("selectPolicy").unwrap_or_else(|| "Max".into()));
    rules.insert("policies".to_owned(), taken("policies").unwrap_or(policies));
    behavior.insert(direction.to_owned(), Value::Object(rules));
}

/// As a HorizontalPodAutoscaler. Karmada has neither external metrics nor scaling to zero.
pub fn validate(autoscaler: &Object) -> Vec<FieldError> {
    let rules = kinds::strategies::for_kind(&GroupVersionKind::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
    let mut errors = rules.validate_create(autoscaler);
    // Karmada does not require the group of the target; metrics for a scale of zero are checked below.
    errors.retain(|error| !error.path.as_str().ends_with(".apiVersion") && error.path.as_str() != "spec.metrics");
    let report = Report::new();
    let spec = report.field(autoscaler, "spec");
    if spec.field("minReplicas").int() == Some(0) {
        let metrics = autoscaler.items(&["spec", "metrics"]);
        let starts =
            metrics.iter().filter_map(|metric| metric["type"].as_str()).any(|t| SOURCES_WITHOUT_PODS.contains(&t));
        if starts {
            errors.retain(|error| error.path.as_str() != "spec.minReplicas");
        }
    }
    let status = report.field(autoscaler, "status");
    status.field("currentReplicas").non_negative();
    status.field("desiredReplicas").non_negative();
    errors.extend(report.finish());
    errors
}

pub fn validate_cron(cron: &Object) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(cron, "spec");
    let target = spec.field("scaleTargetRef");
    let kind = target.field("kind");
    let scales_autoscaler = target.field("apiVersion").text() == "autoscaling.karmada.io/v1alpha1";
    if scales_autoscaler && kind.text() != "FederatedHPA" {
        kind.invalid(format!("invalid scaleTargetRef kind: {}, only support FederatedHPA", kind.text()));
        return report.finish();
    }
    for part in [kind, target.field("name")] {
        if part.require() {
            part.problems(names::path_segment(part.text()));
        }
    }
    let mut seen = BTreeSet::new();
    for rule in spec.field("rules").items() {
        if !seen.insert(rule.field("name").text()) {
            rule.field("name").duplicate();
        }
        if !cron::is_valid(rule.field("schedule").text()) {
            rule.field("schedule").invalid("invalid cron format");
        }
        let zone = rule.field("timeZone");
        if zone.is_set() && !cron::is_zone(zone.text()) {
            zone.invalid(format!("unknown time zone {}", zone.text()));
        }
        validate_targets(rule, scales_autoscaler, kind.text());
    }
    report.finish()
}

fn validate_targets(rule: Field<'_>, scales_autoscaler: bool, kind: &str) {
    let (min, max, replicas) =
        (rule.field("targetMinReplicas"), rule.field("targetMaxReplicas"), rule.field("targetReplicas"));
    if !scales_autoscaler {
        if !replicas.is_set() {
            replicas.invalid_as("", format!("targetReplicas cannot be nil if you want to scale {kind}"));
        }
        if replicas.int_or(0) < 0 {
            replicas.invalid_as("", "targetReplicas should be larger than or equal to 0");
        }
        return;
    }
    if !min.is_set() && !max.is_set() {
        max.invalid_as(
            "",
            "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA",
        );
    }
    if min.int_or(1) <= 0 {
        min.invalid_as("", "targetMinReplicas should be larger than 0");
    }
    if max.int_or(1) <= 0 {
        max.invalid_as("", "targetMaxReplicas should be larger than 0");
    }
    if min.int_or(1) > max.int_or(i64::from(i32::MAX)) {
        min.invalid_as("", "targetMaxReplicas should be larger than or equal to targetMinReplicas");
    }
}
