//! `metav1.Condition` lists, shared by newer kinds.

use std::collections::BTreeSet;

use object::names;
use regex::Regex;

use crate::strategies::fields::Field;

const REASON_PATTERN: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

pub(super) fn validate(conditions: Field<'_>) {
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let ty = condition.field("type");
        ty.problems_as(ty.text(), names::qualified_name(ty.text()));
        if !seen.insert(ty.text()) {
            ty.duplicate();
        }
        condition.field("status").one_of(&["False", "True", "Unknown"]);
        let generation = condition.field("observedGeneration");
        if generation.int().is_some_and(|n| n < 0) {
            generation.invalid("must be greater than or equal to zero");
        }
        condition.field("lastTransitionTime").require();
        validate_reason(condition.field("reason"));
        if condition.field("message").len() > MESSAGE_BYTES_MAX {
            condition.field("message").too_long(MESSAGE_BYTES_MAX);
        }
    }
}

fn validate_reason(reason: Field<'_>) {
    let Ok(pattern) = Regex::new(&format!("^{REASON_PATTERN}$")) else { return };
    if !reason.require() {
        return;
    }
    if !pattern.is_match(reason.text()) {
        let rule = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
        reason.invalid(names::regex_message(
            rule,
            REASON_PATTERN,
            &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
        ));
    } else if reason.len() > REASON_BYTES_MAX {
        reason.too_long(REASON_BYTES_MAX);
    }
}
