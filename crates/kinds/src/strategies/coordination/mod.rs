//! Leases.

use std::sync::Arc;

use object::{FieldError, Object};

use crate::strategies::defaults::show_empty;
use crate::strategies::fields::Report;
use crate::strategy::{Strategy, WriteContext};

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "Lease" => Some(Arc::new(Lease)),
        _ => None,
    }
}

struct Lease;

/// The fields of coordinated leader election, which this version disables by default.
const COORDINATED: [&str; 2] = ["strategy", "preferredHolder"];

impl Strategy for Lease {
    fn default(&self, lease: &mut Object) {
        show_empty(lease, "spec");
    }

    fn prepare_create(&self, lease: &mut Object, _ctx: &WriteContext) {
        for field in COORDINATED {
            lease.remove(&["spec", field]);
        }
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        for field in COORDINATED.into_iter().filter(|field| old.get(&["spec", field]).is_none()) {
            new.remove(&["spec", field]);
        }
    }

    fn validate_create(&self, lease: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(lease, "spec");
        spec.field("leaseDurationSeconds").positive();
        spec.field("leaseTransitions").non_negative();
        if !spec.field("preferredHolder").is_empty() && spec.field("strategy").is_empty() {
            spec.field("preferredHolder").forbidden("may only be specified if `strategy` is defined");
        }
        report.finish()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
