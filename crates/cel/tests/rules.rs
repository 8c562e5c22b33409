//! Rules in schemas, with the results of kube-apiserver 1.36.4's libraries for schemas and objects.
//!
//! `testdata/rules.jsonl`: a schema and objects with the errors and the cost of validating them.
//! `testdata/schemas.jsonl`: a schema with the errors of writing it into a CRD.

use cel::rules::CompiledRules;
use cel::{Budget, VALIDATION_COST_BUDGET};
use object::{FieldError, FieldPath};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

fn cases(file: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    let text = fs::read_to_string(path).expect("the cases are there");
    text.lines().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect()
}

/// Upstream walks maps in random order, so errors are compared as sets.
fn sorted(mut errors: Vec<String>) -> Vec<String> {
    errors.sort();
    errors
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn recorded(case: &Json) -> Vec<String> {
    let errors = case["errors"].as_array().expect("a case has errors");
    errors.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}

fn check(name: &str, rules: &CompiledRules, case: &Json) -> Vec<String> {
    let mut budget = Budget::for_validation();
    let found = rules.validate(&FieldPath::root(), &case["new"], case.get("old"), &mut budget);
    let (found, wanted) = (sorted(texts(&found.errors)), sorted(recorded(case)));
    let used = VALIDATION_COST_BUDGET - budget.remaining();
    let mut failures = Vec::new();
    if found != wanted {
        failures.push(format!("{name}: {}\n  wanted {wanted:#?}\n  found {found:#?}", case["new"]));
    } else if Some(used) != case["used"].as_i64() {
        failures.push(format!("{name}: {}\n  wanted cost {} found {used}", case["new"], case["used"]));
    }
    failures
}

#[test]
fn objects_are_validated_as_recorded() {
    let mut failures = Vec::new();
    for group in cases("rules.jsonl") {
        let name = group["name"].as_str().unwrap_or_default();
        let (rules, _) = CompiledRules::compile(&group["schema"], &FieldPath::root());
        for case in group["cases"].as_array().into_iter().flatten() {
            failures.extend(check(name, &rules, case));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn rules_share_one_budget() {
    let rule = json!([{"rule": "self.all(x, x >= 0)"}]);
    let list = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rule});
    let schema = json!({"type": "object", "properties": {"a": list, "b": list, "c": list}});
    let (rules, _) = CompiledRules::compile(&schema, &FieldPath::root());
    let object = json!({"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]});
    let mut budget = Budget::new(30);
    let found = rules.validate(&FieldPath::root(), &object, None, &mut budget);
    let complaint = "b: Invalid value: \"array\": validation failed due to running out of cost budget, \
                     no further validation rules will be run";
    assert_eq!(texts(&found.errors), [complaint]);
    assert!(budget.remaining() < 0);
}

#[test]
fn broken_rules_on_unchanged_data_are_warnings() {
    let rule = json!([{"rule": "self > 1"}]);
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": rule},
        "b": {"type": "integer"},
    }});
    let (rules, _) = CompiledRules::compile(&schema, &FieldPath::root());
    let (old, new) = (json!({"a": 0, "b": 1}), json!({"a": 0, "b": 2}));
    let found = rules.validate(&FieldPath::root(), &new, Some(&old), &mut Budget::for_validation());
    assert!(found.errors.is_empty());
    assert_eq!(found.warnings, ["a: Invalid value: 0: failed rule: self > 1"]);
}

#[test]
fn schemas_are_validated_as_recorded() {
    let mut failures = Vec::new();
    for case in cases("schemas.jsonl") {
        let path = FieldPath::new("spec.versions[0].schema.openAPIV3Schema");
        let (_, errors) = CompiledRules::compile(&case["schema"], &path);
        let (found, wanted) = (sorted(texts(&errors)), sorted(recorded(&case)));
        if found != wanted {
            let missing: Vec<&String> = wanted.iter().filter(|error| !found.contains(error)).collect();
            let extra: Vec<&String> = found.iter().filter(|error| !wanted.contains(error)).collect();
            failures.push(format!("{}\n  missing {missing:#?}\n  extra {extra:#?}", case["name"]));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
