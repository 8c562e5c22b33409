//! Runtime classes.

use std::collections::BTreeSet;
use std::sync::Arc;

use object::{FieldError, Object};

use crate::strategies::amount::canonicalize_list;
use crate::strategies::defaults::map_at;
use crate::strategies::fields::{Field, Report};
use crate::strategies::pod_spec::scheduling;
use crate::strategy::Strategy;

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "RuntimeClass" => Some(Arc::new(RuntimeClass)),
        _ => None,
    }
}

struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn default(&self, class: &mut Object) {
        if let Some(overhead) = map_at(class.as_map_mut(), "overhead") {
            canonicalize_list(overhead, "podFixed");
        }
    }

    fn validate_create(&self, class: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let handler = report.field(class, "handler");
        if handler.require() {
            handler.dns1123_label();
        }
        let overhead = report.field(class, "overhead");
        for (resource, _) in overhead.field("podFixed").entries() {
            let amount = overhead.field("limits").key(resource).with(class.get(&["overhead", "podFixed", resource]));
            amount.non_negative_amount();
        }
        let scheduling = report.field(class, "scheduling");
        scheduling.field("nodeSelector").labels();
        validate_tolerations(scheduling.field("tolerations"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        report.field(new, "handler").immutable(old.get(&["handler"]));
        report.finish()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// As for pods, without duplicates.
fn validate_tolerations(tolerations: Field<'_>) {
    scheduling::validate_tolerations(tolerations);
    let mut seen = BTreeSet::new();
    for toleration in tolerations.items() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|name| toleration.field(name).text())) {
            toleration.duplicate();
        }
    }
}
