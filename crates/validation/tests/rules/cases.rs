//! Reads the tables, and compares objects with what a table expects of them.

use std::path::Path;

use api::features::Features;
use kinds::Kind;
use serde::Deserialize;
use serde_json::{Value, json};

/// One case: an object and what becomes of it. Exactly one of `becomes`, `denied` and `invalid` is set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// Merged over `metadata` of the object.
    #[serde(default)]
    pub metadata: Value,
    /// Merged over the object: `spec`, `status` or whatever else it has.
    pub object: Value,
    /// The object before, for an update; its metadata is the same.
    pub old: Option<Value>,
    /// A part of the object that is stored.
    pub becomes: Option<Value>,
    /// The message of the webhook.
    pub denied: Option<String>,
    /// The errors from the schema.
    pub invalid: Option<Vec<String>>,
    /// The warnings returned with a success.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Why Karmada answers something else, where it does.
    pub differs: Option<String>,
    #[serde(default)]
    pub allow_no_execute_taints: bool,
    #[serde(default)]
    pub multiple_pod_templates: bool,
}

pub fn cases() -> Vec<(Kind, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/rules");
    let kinds = validation::kinds(&Features::default());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the tables") {
        let path = entry.expect("a readable folder").path();
        let plural = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let kind = kinds.iter().find(|kind| kind.plural == plural && kind.storage == kind.gvk).expect("served");
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let cases: Vec<Case> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{plural}: {error}"));
        found.extend(cases.into_iter().map(|case| (kind.clone(), case)));
    }
    found
}

/// The object of a case as a client would send it.
pub fn content(kind: &Kind, case: &Case, object: &Value) -> Value {
    let mut value = json!({
        "apiVersion": kind.gvk.api_version(), "kind": kind.gvk.kind,
        "metadata": { "name": "x" },
    });
    if kind.namespaced {
        value["metadata"]["namespace"] = "default".into();
    }
    for (key, field) in case.metadata.as_object().into_iter().flatten() {
        value["metadata"][key] = field.clone();
    }
    for (key, field) in object.as_object().into_iter().flatten() {
        value[key] = field.clone();
    }
    value
}

/// Everything that is expected has to be there; what else there is does not matter. Null means: not there.
pub fn assert_part(actual: &Value, expected: &Value, place: &str) {
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
