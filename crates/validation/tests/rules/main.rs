//! Checks what is accepted, changed and refused, by kind, from the tables in `testdata/rules`: here and in Karmada.
//!
//! A case goes the way a request goes: schema defaults, then what admission changes, then the schema, then the rules.
#![allow(clippy::print_stderr)] // A skipped test says why.

mod cases;
mod karmada;

use kinds::Kind;
use object::{FieldPath, Object, schema};
use serde_json::Value;
use validation::rules::{self, RuleSettings, Write};

use cases::{Case, assert_part, cases, content};

#[test]
fn objects_are_accepted_changed_and_refused_as_the_tables_say() {
    let cases = cases();
    assert!(cases.len() > 100, "only {} cases", cases.len());
    for (kind, case) in &cases {
        check(kind, case);
    }
}

fn check(kind: &Kind, case: &Case) {
    let place = format!("{}: {}", kind.plural, case.name);
    let resource = kind.group_resource();
    let namespace = if kind.namespaced { "default" } else { "" };
    let old = case.old.as_ref().map(|old| {
        let mut old = shaped(kind, case, old);
        rules::mutate(&Write { resource: &resource, namespace, old: None }, &mut old, &id).expect("changed");
        old
    });
    let write = Write { resource: &resource, namespace, old: old.as_ref() };
    let mut object = shaped(kind, case, &case.object);
    if let Some(old) = &old {
        // A client sends back the labels it read, unless the case is about other ones.
        for (key, value) in old.labels().filter(|(key, _)| case.metadata["labels"].get(key).is_none()) {
            object.set_label(key, value);
        }
    }
    if let Err(denial) = rules::mutate(&write, &mut object, &id) {
        return assert_eq!(Some(denial.message), case.denied, "{place}");
    }
    let errors = schema::validate(&kind.schema, &object.to_value(), &FieldPath::root());
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, case.invalid.clone().unwrap_or_default(), "{place}");
    if !errors.is_empty() {
        return;
    }
    let settings = RuleSettings {
        allow_no_execute_taints: case.allow_no_execute_taints,
        multiple_pod_templates: case.multiple_pod_templates,
        multi_cluster_service: true,
    };
    let denied = rules::validate(&write, &object, &settings).err().map(|denial| denial.message);
    assert_eq!(denied, case.denied, "{place}");
    assert_eq!(rules::warnings(&write, &object), case.warnings, "{place}");
    match &case.becomes {
        Some(expected) => assert_part(&object.to_value(), expected, &place),
        None => assert!(case.denied.is_some(), "{place}: nothing is expected"),
    }
}

fn id() -> String {
    "the-id".to_owned()
}

fn shaped(kind: &Kind, case: &Case, object: &Value) -> Object {
    let mut value = content(kind, case, object);
    schema::apply_defaults(&kind.schema, &mut value);
    Object::from_value(value).expect("an object")
}
