//! OverridePolicy and ClusterOverridePolicy.

use kinds::strategies::fields::{Field, Report};
use object::{FieldError, Object};
use serde_json::Value;

use super::placement::{field_selector, refuse_foreign_namespaces};

/// The message of Go's JSON pointer parser, which has two lines.
const NOT_A_POINTER: &str = "JSON pointer must be empty or start with a \"/\nJSON pointer error";
/// The overriders of the deprecated form that Karmada looks at; it has never looked at `fieldOverrider`.
const DEPRECATED: [&str; 6] =
    ["plaintext", "imageOverrider", "commandOverrider", "argsOverrider", "labelsOverrider", "annotationsOverrider"];

pub fn validate(policy: &Object, namespace: &str) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(policy, "spec");
    let (target, overriders, rules) =
        (spec.field("targetCluster"), spec.field("overriders"), spec.field("overrideRules"));
    field_selector(target);
    if target.is_set() && rules.is_set() {
        target.invalid("overrideRules and targetCluster can't co-exist");
    }
    if rules.is_set() && DEPRECATED.iter().any(|name| !overriders.field(name).is_empty()) {
        overriders.invalid("overrideRules and overriders can't co-exist");
    }
    for rule in rules.items() {
        validate_rule(rule);
    }
    refuse_foreign_namespaces(spec.field("resourceSelectors"), namespace);
    report.finish()
}

fn validate_rule(rule: Field<'_>) {
    let overriders = rule.field("overriders");
    for overrider in overriders.field("annotationsOverrider").items() {
        overrider.field("value").annotations();
    }
    for overrider in overriders.field("labelsOverrider").items() {
        overrider.field("value").labels();
    }
    for overrider in overriders.field("imageOverrider").items() {
        if overrider.field("predicate").is_set() {
            validate_pointer(overrider.path(&["predicate", "path"]));
        }
    }
    for overrider in overriders.field("fieldOverrider").items() {
        let (json, yaml) = (overrider.field("json"), overrider.field("yaml"));
        if !json.is_empty() && !yaml.is_empty() {
            overrider.invalid("FieldOverrider has both YAML and JSON set. Only one is allowed");
        }
        if json.is_empty() && yaml.is_empty() {
            overrider.required("FieldOverrider must have either JSON or YAML set");
        }
        validate_pointer(overrider.field("fieldPath"));
        for patch in json.items().chain(yaml.items()) {
            validate_patch(patch);
        }
    }
    field_selector(rule.field("targetCluster"));
}

fn validate_patch(patch: Field<'_>) {
    validate_pointer(patch.field("subPath"));
    let value = patch.field("value");
    match patch.field("operator").text() {
        "add" | "replace" if !value.is_set() => {
            value.invalid_as(Value::Null, "value is required for add or replace operation");
        }
        "remove" if value.is_set() => value.invalid("value is not allowed for remove operation"),
        _ => {}
    }
}

fn validate_pointer(pointer: Field<'_>) {
    if !pointer.text().is_empty() && !pointer.text().starts_with('/') {
        pointer.invalid(NOT_A_POINTER);
    }
}
