//! ReplicaSets.

use object::{FieldError, Object};
use serde_json::json;

use super::{validate_selector, validate_selects};
use crate::strategies::core::{controller_warnings, validate_always_restarts, validate_replica_counts};
use crate::strategies::defaults::{map_or_new, set_absent};
use crate::strategies::fields::{Field, Report};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{self, Setting};
use crate::strategy::{Strategy, WriteContext};

pub struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_absent(spec, "replicas", 1);
        pod_spec::default_template(spec, "template");
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({"replicas": 0}));
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

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        status.field("terminatingReplicas").non_negative();
        validate_replica_counts(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
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
    spec.field("minReadySeconds").non_negative();
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    // Kubernetes' message says deployment here too.
    validate_selector(selector, "deployment");
    if validate_selects(selector, template, "invalid label selector") {
        pod_spec::validate_template(template, Setting::default());
        validate_always_restarts(template, "ReplicaSet");
    }
}
