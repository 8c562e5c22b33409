//! Pod failure policies of Jobs.

use std::collections::BTreeSet;

use object::{FieldError, FieldErrorKind};

use crate::strategies::fields::Field;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;

pub fn validate(spec: Field<'_>) {
    let rules = spec.field("podFailurePolicy").field("rules");
    if rules.len() > RULES_MAX {
        rules.too_many(rules.len(), RULES_MAX);
    }
    let pod = spec.path(&["template", "spec"]);
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.field(list).items())
        .map(|container| container.field("name").text())
        .collect();
    for rule in rules.items() {
        validate_rule(rule, spec.field("backoffLimitPerIndex").is_set(), &containers);
    }
}

fn validate_rule(rule: Field<'_>, counts_per_index: bool, containers: &BTreeSet<&str>) {
    let action = rule.field("action");
    match action.text() {
        "" => action.required(&valid_values(&ACTIONS)),
        "FailIndex" if !counts_per_index => action.invalid("requires the backoffLimitPerIndex to be set"),
        _ => action.one_of(&ACTIONS),
    }
    let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
    if codes.is_set() {
        validate_codes(codes, containers);
    }
    if conditions.len() > PATTERNS_MAX {
        conditions.too_many(conditions.len(), PATTERNS_MAX);
    }
    for pattern in conditions.items() {
        pattern
            .field("type")
            .problems_as(pattern.field("type").text(), object::names::qualified_name(pattern.field("type").text()));
        let status = pattern.field("status");
        if status.require_because(&valid_values(&STATUSES)) {
            status.one_of(&STATUSES);
        }
    }
    match (codes.is_set(), conditions.is_empty()) {
        (true, false) => invalid(rule, "specifying both OnExitCodes and OnPodConditions is not supported"),
        (false, true) => invalid(rule, "specifying one of OnExitCodes and OnPodConditions is required"),
        _ => {}
    }
}

/// An error without a value.
pub fn invalid(field: Field<'_>, detail: &str) {
    field.push(FieldError {
        kind: FieldErrorKind::Invalid,
        path: field.field_path(),
        value: None,
        detail: detail.to_owned(),
    });
}

fn valid_values(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn validate_codes(codes: Field<'_>, containers: &BTreeSet<&str>) {
    let (operator, container, values) = (codes.field("operator"), codes.field("containerName"), codes.field("values"));
    if operator.require_because(&valid_values(&OPERATORS)) {
        operator.one_of(&OPERATORS);
    }
    if container.is_set() && !containers.contains(container.text()) {
        container.invalid("must be one of the container or initContainer names in the pod template");
    }
    if values.is_empty() {
        values.invalid_as(values.value().cloned().unwrap_or_default(), "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        values.too_many(values.len(), EXIT_CODES_MAX);
    }
    let (mut seen, mut last, mut ordered) = (BTreeSet::new(), i64::MIN, true);
    for value in values.items() {
        let code = value.int_or(0);
        if operator.text() == "In" && code == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            value.duplicate();
        }
        ordered &= last <= code;
        last = code;
    }
    if !ordered {
        values.invalid("must be ordered");
    }
}
