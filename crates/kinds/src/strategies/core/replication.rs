//! ReplicationControllers and PodTemplates.

use object::{FieldError, Object};
use serde_json::Value;

use crate::strategies::defaults::{map_at, map_or_new, set_absent, show_empty};
use crate::strategies::fields::{Field, Report};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{self, Setting, warnings};
use crate::strategy::{Strategy, WriteContext};

pub struct ReplicationController;

impl Strategy for ReplicationController {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_absent(spec, "replicas", 1);
        if spec.get("template").is_some_and(Value::is_object) {
            pod_spec::default_template(spec, "template");
        }
        let labels = map_at(spec, "template").and_then(|t| t.get("metadata")?.get("labels").cloned());
        let Some(labels) = labels.filter(Value::is_object) else { return };
        if spec.get("selector").and_then(Value::as_object).is_none_or(|s| s.is_empty()) {
            spec.insert("selector".into(), labels.clone());
        }
        if object.labels().next().is_none() {
            object.set(&["metadata", "labels"], labels);
        }
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], serde_json::json!({"replicas": 0}));
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_controller(report.field(object, "spec"));
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        validate_replica_counts(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        controller_warnings(new, old)
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

fn validate_controller(spec: Field<'_>) {
    spec.field("minReadySeconds").non_negative();
    spec.field("selector").require();
    let replicas = spec.field("replicas");
    if replicas.is_set() {
        replicas.non_negative();
    } else {
        replicas.required("");
    }
    let template = spec.field("template");
    if !template.is_set() {
        return template.required("");
    }
    let labels = template.path(&["metadata", "labels"]);
    let mut wanted = spec.field("selector").entries();
    if wanted.any(|(key, value)| labels.value().and_then(|l| l.get(key)) != value.value()) {
        labels.invalid_as(labels.value().cloned().unwrap_or_default(), "`selector` does not match template `labels`");
    }
    pod_spec::validate_template(template, Setting::default());
    validate_always_restarts(template, "ReplicationController");
}

/// Pods of a replicating controller must always restart and have no deadline.
pub fn validate_always_restarts(template: Field<'_>, kind: &str) {
    let spec = template.field("spec");
    if spec.field("restartPolicy").text() != "Always" {
        spec.field("restartPolicy").not_supported(&["Always"]);
    }
    if spec.field("activeDeadlineSeconds").is_set() {
        spec.field("activeDeadlineSeconds").forbidden(format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// Replica counts: none negative, none above the total, available at most the ready ones.
pub fn validate_replica_counts(status: Field<'_>, parts: &[&'static str]) {
    let count = |name: &'static str| status.field(name).int_or(0);
    status.field("replicas").non_negative();
    for part in parts {
        status.field(part).non_negative();
    }
    status.field("observedGeneration").non_negative();
    for part in parts {
        if count(part) > count("replicas") {
            status.field(part).invalid("cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        status.field("availableReplicas").invalid("cannot be greater than readyReplicas");
    }
}

/// The number of name collisions; it never decreases.
pub fn validate_collisions(count: Field<'_>, old: &Object) {
    count.non_negative();
    let before = old.i64_at(&["status", "collisionCount"]);
    if before.is_some_and(|before| count.int_or(i64::MIN) < before) {
        count.invalid_as(count.int_or(0), "cannot be decremented");
    }
}

/// Warnings for kinds whose name becomes part of pod names and whose template is at `spec.template`.
pub fn controller_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let mut out = Vec::new();
    match old {
        None => out.extend(warnings::hostname_warning(new.name(), "Pod names and hostnames")),
        Some(old) if old.get(&["spec"]) == new.get(&["spec"]) => return out,
        Some(_) => {}
    }
    out.extend(warnings::of_template("spec.template", new.get(&["spec", "template"])));
    out
}

pub struct PodTemplate;

impl Strategy for PodTemplate {
    fn default(&self, object: &mut Object) {
        show_empty(object, "template");
        pod_spec::default_template(object.as_map_mut(), "template");
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        pod_spec::validate_template(report.field(object, "template"), Setting::default());
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        warnings::of_template("template", new.get(&["template"]))
    }

    fn counts_generation(&self) -> bool {
        true
    }
}
