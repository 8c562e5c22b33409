//! ControllerRevisions: immutable snapshots of templates.

use object::{FieldError, Object};
use serde_json::Value;

use crate::strategies::fields::{Field, IMMUTABLE, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategy::Strategy;

pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        report.field(object, "revision").non_negative();
        validate_data(report.field(object, "data"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        report.field(new, "revision").non_negative();
        let data = report.field(new, "data");
        if !same(data.value(), old.get(&["data"])) {
            data.invalid_as(data.value().cloned().unwrap_or_default(), IMMUTABLE);
        }
        report.finish()
    }
}

fn validate_data(data: Field<'_>) {
    match data.value() {
        None => data.required("data is mandatory"),
        Some(Value::Object(_)) => {}
        Some(_) => data.required("data must be a valid JSON object"),
    }
}
