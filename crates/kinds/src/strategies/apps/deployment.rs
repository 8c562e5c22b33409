//! Deployments.

use object::{FieldError, Object};
use serde_json::json;

use super::{count_of, refuse_strategy, rolling_update, validate_selector, validate_selects};
use crate::strategies::core::controller_warnings;
use crate::strategies::core::{validate_always_restarts, validate_collisions, validate_replica_counts};
use crate::strategies::defaults::{map_or_new, set_absent};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{self, Setting};
use crate::strategy::{Strategy, WriteContext};

pub struct Deployment;

impl Strategy for Deployment {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_absent(spec, "replicas", 1);
        set_absent(spec, "revisionHistoryLimit", 10);
        set_absent(spec, "progressDeadlineSeconds", 600);
        if let Some(rolling) = rolling_update(spec, "strategy") {
            set_absent(rolling, "maxUnavailable", "25%");
            set_absent(rolling, "maxSurge", "25%");
        }
        pod_spec::default_template(spec, "template");
        set_absent(object.as_map_mut(), "status", json!({}));
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({}));
    }

    /// Annotations count as well: one may trigger a rollout.
    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        let annotations = ["metadata", "annotations"];
        if !same(new.get(&annotations), old.get(&annotations)) && same(new.get(&["spec"]), old.get(&["spec"])) {
            new.set_generation(old.generation() + 1);
        }
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        super::validate_update(new, old, validate_spec)
    }

    fn prepare_status(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        match old.get(&["metadata", "labels"]) {
            Some(labels) => new.set(&["metadata", "labels"], labels.clone()),
            None => {
                new.remove(&["metadata", "labels"]);
            }
        }
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        status.field("unavailableReplicas").non_negative();
        status.field("terminatingReplicas").non_negative();
        validate_replica_counts(status, &["updatedReplicas", "readyReplicas", "availableReplicas"]);
        validate_collisions(status.field("collisionCount"), old);
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        controller_warnings(new, old)
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_spec(spec: Field<'_>) {
    spec.field("replicas").non_negative();
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    validate_selector(selector, "deployment");
    if validate_selects(selector, template, "invalid label selector") {
        pod_spec::validate_template(template, Setting::default());
        validate_always_restarts(template, "ReplicaSet");
    }
    validate_strategy(spec.field("strategy"));
    spec.field("minReadySeconds").non_negative();
    spec.field("revisionHistoryLimit").non_negative();
    let deadline = spec.field("progressDeadlineSeconds");
    deadline.non_negative();
    if deadline.int().is_some_and(|d| d <= spec.field("minReadySeconds").int_or(0)) {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

fn validate_strategy(strategy: Field<'_>) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => validate_rolling(rolling),
        _ => refuse_strategy(strategy, "SDeploymentStrategy", &["Recreate", "RollingUpdate"]),
    }
}

fn validate_rolling(rolling: Field<'_>) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    unavailable.positive_int_or_percent();
    surge.positive_int_or_percent();
    if count_of(unavailable) == 0 && count_of(surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    unavailable.at_most_hundred_percent();
}
