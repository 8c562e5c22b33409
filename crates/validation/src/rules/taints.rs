//! ClusterTaintPolicy.

use kinds::strategies::fields::Report;
use object::{FieldError, Object};

pub fn validate(policy: &Object, allow_no_execute: bool) -> Vec<FieldError> {
    let report = Report::new();
    let taints: Vec<_> = report.field(policy, "spec").field("taints").items().collect();
    for (index, taint) in taints.iter().enumerate() {
        let (key, effect) = (taint.field("key").text(), taint.field("effect").text());
        if effect == "NoExecute" && !allow_no_execute {
            taint.forbidden(
                "Configuring taint with NoExecute effect is not allowed, this capability must be explicitly enabled by administrators through command-line flags",
            );
        }
        let twins = &taints[index + 1..];
        if twins.iter().any(|twin| twin.field("key").text() == key && twin.field("effect").text() == effect) {
            taint.duplicate_as(format!("Duplicate taint with the same key({key}) and effect({effect}) is not allowed"));
        }
    }
    report.finish()
}
