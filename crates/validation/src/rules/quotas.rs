//! FederatedResourceQuota.

use kinds::strategies::amount::Amount;
use kinds::strategies::fields::{Field, Report};
use kinds::strategies::pod_spec::resources;
use object::{FieldError, Object};
use serde_json::Value;

use crate::cluster::name_problems;

/// The name becomes the value of a label.
const NAME_MAX: usize = 63;

pub fn validate(quota: &Object) -> Vec<FieldError> {
    let report = Report::new();
    if quota.name().len() > NAME_MAX {
        let name = report.field(quota, "metadata").field("name");
        name.invalid(format!("must be no more than {NAME_MAX} characters"));
    }
    let spec = report.field(quota, "spec");
    let (overall, assignments) = (spec.field("overall"), spec.field("staticAssignments"));
    validate_list(overall);
    for assignment in assignments.items() {
        validate_cluster(assignment.field("clusterName"));
        validate_list(assignment.field("hard"));
    }
    validate_shares(overall, assignments);
    let status = report.field(quota, "status");
    validate_list(status.field("overall"));
    validate_list(status.field("overallUsed"));
    for item in status.field("aggregatedStatus").items() {
        validate_cluster(item.field("clusterName"));
        validate_list(item.field("hard"));
        validate_list(item.field("used"));
    }
    report.finish()
}

/// Members together get no more than there is, and nothing that is not limited overall.
fn validate_shares<'a>(overall: Field<'a>, assignments: Field<'a>) {
    let amount = |field: Field<'_>| field.value().and_then(Amount::of).unwrap_or(Amount::ZERO);
    for (name, limit) in overall.entries() {
        let shares = assignments.items().map(|assignment| amount(assignment.field("hard").key(name)));
        let total = shares.fold(Amount::ZERO, Amount::plus);
        if amount(limit) < total {
            limit.invalid_as(shown(limit), "overall is less than assignments");
        }
    }
    for assignment in assignments.items() {
        for (name, _) in assignment.field("hard").entries() {
            if !overall.key(name).is_set() {
                let at = assignment.field("hard").key(name);
                at.invalid_as(name, "assignment resourceName is not exist in overall");
            }
        }
    }
}

fn shown(amount: Field<'_>) -> Value {
    amount.value().and_then(Amount::of).map(|amount| amount.to_string()).unwrap_or_default().into()
}

fn validate_cluster(name: Field<'_>) {
    let problems = name_problems(name.text());
    if !problems.is_empty() {
        name.invalid_as(name.text(), problems.join(","));
    }
}

fn validate_list(list: Field<'_>) {
    for (name, amount) in list.entries() {
        resources::validate_name(amount, name);
        if !name.contains('/') && !resources::is_standard_quota(name) {
            amount.invalid_as(name, "must be a standard resource for quota");
        }
        resources::validate_amount(amount, name);
    }
}
