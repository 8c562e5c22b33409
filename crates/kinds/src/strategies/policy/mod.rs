//! Disruption budgets and evictions.

use std::sync::Arc;

use object::{FieldError, Object};
use serde_json::{Value, json};

use crate::strategies::conditions;
use crate::strategies::defaults::{map_or_new, set_absent, show_empty};
use crate::strategies::fields::Report;
use crate::strategy::{Strategy, WriteContext};

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "PodDisruptionBudget" => Some(Arc::new(DisruptionBudget)),
        _ => None,
    }
}

struct DisruptionBudget;

const COUNTS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

impl Strategy for DisruptionBudget {
    fn default(&self, budget: &mut Object) {
        show_empty(budget, "spec");
        if let Some(status) = map_or_new(budget.as_map_mut(), "status") {
            COUNTS.iter().for_each(|count| set_absent(status, count, 0));
        }
    }

    fn prepare_create(&self, budget: &mut Object, _ctx: &WriteContext) {
        budget.set(&["status"], json!({}));
        self.default(budget);
    }

    fn validate_create(&self, budget: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(budget, "spec");
        let (fewest, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
        if fewest.is_set() && most.is_set() {
            let shown = shown_spec(spec.value().unwrap_or(&Value::Null));
            spec.invalid_shown(&shown, "minAvailable and maxUnavailable cannot be both set");
        }
        for bound in [fewest, most] {
            bound.positive_int_or_percent();
            bound.at_most_hundred_percent();
        }
        spec.field("selector").label_selector();
        spec.field("unhealthyPodEvictionPolicy").optional_one_of(&["AlwaysAllow", "IfHealthyBudget"]);
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        conditions::validate(status.field("conditions"));
        COUNTS.iter().for_each(|count| status.field(count).non_negative());
        report.finish()
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// The spec as shown in a message: the server's struct with all its fields.
fn shown_spec(spec: &Value) -> String {
    let or_null = |key: &str| spec.get(key).cloned().unwrap_or(Value::Null);
    format!(
        "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
        or_null("minAvailable"),
        or_null("selector"),
        or_null("maxUnavailable"),
        or_null("unhealthyPodEvictionPolicy")
    )
}
