//! Priority classes.

use std::sync::Arc;

use object::{FieldError, FieldPath, Object};

use crate::strategies::defaults::{set_absent, set_empty_str};
use crate::strategies::fields::Report;
use crate::strategy::Strategy;

const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "PriorityClass" => Some(Arc::new(PriorityClass)),
        _ => None,
    }
}

struct PriorityClass;

impl Strategy for PriorityClass {
    fn default(&self, class: &mut Object) {
        let map = class.as_map_mut();
        set_empty_str(map, "preemptionPolicy", "PreemptLowerPriority");
        set_absent(map, "value", 0);
        if map.get("globalDefault") == Some(&serde_json::Value::Bool(false)) {
            map.remove("globalDefault");
        }
    }

    fn validate_create(&self, class: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let value = class.i64_at(&["value"]).unwrap_or(0);
        if class.name().starts_with(SYSTEM_PREFIX) {
            if let Err(problem) = check_system_class(class, value) {
                report.push(FieldError::forbidden(
                    FieldPath::new("metadata.name"),
                    format!("priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"),
                ));
            }
        } else if value > USER_PRIORITY_MAX {
            report
                .field(class, "value")
                .forbidden(format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"));
        }
        let policy = report.field(class, "preemptionPolicy");
        match policy.text() {
            "PreemptLowerPriority" | "Never" => {}
            "" => policy.required(""),
            _ => policy.not_supported(&["PreemptLowerPriority", "Never"]),
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        if new.i64_at(&["value"]) != old.i64_at(&["value"]) {
            report.field(new, "value").forbidden("may not be changed in an update.");
        }
        report.field(new, "preemptionPolicy").immutable(old.get(&["preemptionPolicy"]));
        report.finish()
    }
}

fn check_system_class(class: &Object, value: i64) -> Result<(), String> {
    let name = class.name();
    let Some((_, wanted)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Err(format!("{name} is not a known system priority class"));
    };
    if value != *wanted {
        return Err(format!("value of {name} PriorityClass must be {wanted}"));
    }
    if class.bool_at(&["globalDefault"]) == Some(true) {
        return Err(format!("globalDefault of {name} PriorityClass must be false"));
    }
    Ok(())
}
