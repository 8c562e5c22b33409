//! Events of the core group.

use object::{FieldError, FieldPath, Object, names};
use serde_json::Value;

use crate::strategies::defaults::{set_absent, set_empty_str, show_empty};
use crate::strategies::fields::{Field, Report};
use crate::strategy::Strategy;

pub struct Event;

impl Strategy for Event {
    fn default(&self, object: &mut Object) {
        show_empty(object, "source");
        let map = object.as_map_mut();
        for time in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            set_absent(map, time, Value::Null);
        }
        for word in ["reportingComponent", "reportingInstance"] {
            set_empty_str(map, word, "");
        }
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let involved = report.field(object, "involvedObject").field("namespace");
        let namespace = object.namespace();
        const MISMATCH: &str = "does not match event.namespace";
        if object.str_at(&["eventTime"]).is_empty() {
            let matches = match involved.text() {
                "" => matches!(namespace, "" | "default"),
                other => other == namespace,
            };
            if !matches {
                involved.invalid_as(involved.text(), MISMATCH);
            }
        } else {
            if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
                involved.invalid_as("", MISMATCH);
            }
            validate_modern(&report, object);
        }
        for problem in names::dns1123_subdomain(namespace) {
            report.push(FieldError::invalid(FieldPath::new("namespace"), namespace, problem));
        }
        report.finish()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

fn validate_modern<'a>(report: &'a Report<'a>, object: &'a Object) {
    let at_most = |field: Field<'a>, bytes_max: usize| {
        if field.len() > bytes_max {
            field.invalid_as("", format!("can have at most {bytes_max} characters"));
        }
    };
    let component = report.field(object, "reportingComponent");
    component.require();
    component.problems_as(component.text(), names::qualified_name(component.text()));
    for (name, bytes_max) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let field = report.field(object, name);
        field.require();
        at_most(field, bytes_max);
    }
    at_most(report.field(object, "message"), 1024);
}
