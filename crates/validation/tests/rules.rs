//! What is accepted, changed and refused, kind by kind, from the tables in `testdata/rules`.
//!
//! A case goes the way a request goes: schema defaults, then what admission changes, then the schema, then the rules.

use std::path::Path;

use api::features::Features;
use kinds::Kind;
use object::{FieldPath, Object, schema};
use serde::Deserialize;
use serde_json::{Value, json};
use validation::rules::{self, Settings, Write};

/// One case: an object and what becomes of it. Exactly one of `becomes`, `denied` and `invalid` is set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Merged over `metadata` of the object.
    #[serde(default)]
    metadata: Value,
    /// Merged over the object: `spec`, `status` or whatever else it has.
    object: Value,
    /// The object before, for an update; its metadata is the same.
    old: Option<Value>,
    /// A part of the object that is stored.
    becomes: Option<Value>,
    /// What the webhook says.
    denied: Option<String>,
    /// What the schema says.
    invalid: Option<Vec<String>>,
    /// What the writer is told beside success.
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    allow_no_execute_taints: bool,
    #[serde(default)]
    multiple_pod_templates: bool,
}

#[test]
fn objects_are_accepted_changed_and_refused_as_the_tables_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/rules");
    let kinds = validation::kinds(&Features::default());
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the tables") {
        let path = entry.expect("a readable folder").path();
        let plural = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let kind = kinds.iter().find(|kind| kind.plural == plural && kind.storage == kind.gvk).expect("served");
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let cases: Vec<Case> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{plural}: {error}"));
        for case in &cases {
            check(kind, case);
            count += 1;
        }
    }
    assert!(count > 80, "only {count} cases");
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
    rules::mutate(&write, &mut object, &id).unwrap_or_else(|denial| panic!("{place}: {denial:?}"));
    let errors = schema::validate(&kind.schema, &object.to_value(), &FieldPath::root());
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, case.invalid.clone().unwrap_or_default(), "{place}");
    if !errors.is_empty() {
        return;
    }
    let settings = Settings {
        allow_no_execute_taints: case.allow_no_execute_taints,
        multiple_pod_templates: case.multiple_pod_templates,
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

fn shaped(kind: &Kind, case: &Case, content: &Value) -> Object {
    let mut value = json!({
        "apiVersion": kind.gvk.api_version(), "kind": kind.gvk.kind,
        "metadata": { "name": "x" },
    });
    if kind.namespaced {
        value["metadata"]["namespace"] = "default".into();
    }
    for (to, from) in [("metadata", &case.metadata), ("", content)] {
        let target = if to.is_empty() { &mut value } else { &mut value[to] };
        for (key, field) in from.as_object().into_iter().flatten() {
            target[key] = field.clone();
        }
    }
    schema::apply_defaults(&kind.schema, &mut value);
    Object::from_value(value).expect("an object")
}

/// Everything that is expected has to be there; what else there is does not matter. Null means: not there.
fn assert_part(actual: &Value, expected: &Value, place: &str) {
    match expected {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (actual.get(name), field) {
                    (None, Value::Null) => {}
                    (Some(actual), field) => assert_part(actual, field, &format!("{place}: {name}")),
                    (None, _) => panic!("{place}: {name} is missing in {actual}"),
                }
            }
        }
        Value::Array(items) if actual.as_array().is_some_and(|actual| actual.len() == items.len()) => {
            for (index, item) in items.iter().enumerate() {
                assert_part(&actual[index], item, &format!("{place}[{index}]"));
            }
        }
        other => assert_eq!(actual, other, "{place}"),
    }
}
