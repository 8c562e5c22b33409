//! DaemonSets.

use object::{FieldError, Object};
use serde_json::json;

use super::{count_of, refuse_strategy, rolling_update, selects};
use crate::strategies::core::{validate_always_restarts, validate_collisions};
use crate::strategies::defaults::{map_or_new, set_absent};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{self, Setting, warnings};
use crate::strategy::{Strategy, WriteContext};

/// An annotation in this version; formerly a field.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub struct DaemonSet;

impl Strategy for DaemonSet {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_absent(spec, "revisionHistoryLimit", 10);
        if let Some(rolling) = rolling_update(spec, "updateStrategy") {
            set_absent(rolling, "maxUnavailable", 1);
            set_absent(rolling, "maxSurge", 0);
        }
        pod_spec::default_template(spec, "template");
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(
            &["status"],
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        );
        let generation = template_generation(object).max(1);
        object.set_annotation(TEMPLATE_GENERATION, &generation.to_string());
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        let template = ["spec", "template"];
        let changed = !same(new.get(&template), old.get(&template));
        let generation = template_generation(old) + i64::from(changed);
        new.set_annotation(TEMPLATE_GENERATION, &generation.to_string());
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        let spec = report.field(new, "spec");
        spec.field("selector").immutable_selector(old.get(&["spec", "selector"]));
        validate_spec(spec);
        report.finish()
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        for count in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
        ] {
            status.field(count).non_negative();
        }
        validate_collisions(status.field("collisionCount"), old);
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        let template = ["spec", "template"];
        if old.is_some_and(|old| same(old.get(&template), new.get(&template))) {
            return Vec::new();
        }
        warnings::of_template("spec.template", new.get(&template))
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn template_generation(object: &Object) -> i64 {
    object.annotation(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn validate_spec(spec: Field<'_>) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    selector.label_selector();
    let labels = template.path(&["metadata", "labels"]);
    // A missing selector selects nothing, so it does not match either.
    let matches = if selector.is_set() { selects(selector, labels) } else { Some(false) };
    if matches == Some(false) {
        labels.invalid_as(labels.value().cloned().unwrap_or_default(), "`selector` does not match template `labels`");
    }
    if selector.is_set() && selector.is_empty_selector() {
        selector.invalid_internal("SLabelSelector", "empty selector is invalid for daemonset");
    }
    pod_spec::validate_template(template, Setting::default());
    validate_always_restarts(template, "DaemonSet");
    spec.field("minReadySeconds").non_negative();
    validate_strategy(spec.field("updateStrategy"));
    spec.field("revisionHistoryLimit").non_negative();
}

fn validate_strategy(strategy: Field<'_>) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => validate_rolling(rolling),
        _ => refuse_strategy(strategy, "SDaemonSetUpdateStrategy", &["RollingUpdate", "OnDelete"]),
    }
}

fn validate_rolling(rolling: Field<'_>) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    for field in [unavailable, surge] {
        field.positive_int_or_percent();
    }
    for field in [unavailable, surge] {
        field.at_most_hundred_percent();
    }
    match (count_of(unavailable) != 0, count_of(surge) != 0) {
        (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
        (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}
