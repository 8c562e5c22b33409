//! Compares docs/reference/api.md with the schemas that the control plane serves. `UPDATE=1` writes the page.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use e2e::flotilla::Flotilla;
use serde_json::{Map, Value};

const INTRODUCTION: &str = "# API fields

Generated from the schemas that the control plane serves (`UPDATE=1 cargo test -p e2e --test api_reference`); a test compares it. A field with * is required.
`[]` is a list and `{}` a map. `kubectl explain propagationpolicy.spec.placement` shows the same for a running control plane. `metadata` is that of every
Kubernetes object and is left out.
";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/api.md")
}

fn get(server: &Flotilla, path: &str) -> Value {
    let output = server.kubectl(&["get", "--raw", path]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Renders all kinds of Karmada's groups.
fn render(server: &Flotilla) -> String {
    let index = get(server, "/openapi/v3");
    let paths = index["paths"].as_object().expect("paths").keys().filter(|path| path.contains("karmada.io/"));
    let mut text = INTRODUCTION.to_owned();
    for path in paths {
        let document = get(server, &format!("/openapi/v3/{path}"));
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let version = path.trim_start_matches("apis/");
        for (name, schema) in schemas {
            let kind = name.rsplit('.').next().unwrap_or(name);
            // Only kinds of this group; lists repeat them.
            if !name.starts_with("io.karmada.") || kind.ends_with("List") || schema["properties"]["kind"].is_null() {
                continue;
            }
            write!(text, "\n## {kind} ({version})\n\n{}\n", describe(schema)).expect("written");
            text += "\n| field | type | description |\n|---|---|---|\n";
            rows(schemas, schema, "", &mut text);
        }
    }
    text
}

fn describe(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ")
}

/// Writes a row per field, with those of nested objects after their parent.
fn rows(schemas: &Map<String, Value>, schema: &Value, parent: &str, text: &mut String) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if parent.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let path = format!("{parent}{name}");
        let star = if required.contains(&name.as_str()) { "*" } else { "" };
        let (kind, suffix, inner) = shape(schemas, field);
        writeln!(text, "| `{path}{suffix}`{star} | {kind} | {} |", sentence(field)).expect("written");
        rows(schemas, inner, &format!("{path}{suffix}."), text);
    }
}

/// Returns the type of a field, its suffix as a list or map, and the schema with its own fields.
fn shape<'a>(schemas: &'a Map<String, Value>, field: &'a Value) -> (String, &'static str, &'a Value) {
    if let Some(name) = reference(field) {
        let short = name.rsplit('.').next().unwrap_or(name).to_owned();
        let own = schemas.get(name).filter(|_| name.starts_with("io.karmada."));
        return (short, "", own.unwrap_or(&Value::Null));
    }
    if !field["items"].is_null() {
        let (kind, _, inner) = shape(schemas, &field["items"]);
        return (format!("{kind}[]"), "[]", inner);
    }
    if field["additionalProperties"].is_object() {
        let (kind, _, inner) = shape(schemas, &field["additionalProperties"]);
        return (format!("map of {kind}"), "{}", inner);
    }
    let format = field["format"].as_str().filter(|format| *format != "int32" && *format != "int64");
    let kind = format.or(field["type"].as_str()).unwrap_or("any");
    (kind.to_owned(), "", field)
}

fn reference(field: &Value) -> Option<&str> {
    let direct = field["$ref"].as_str().or_else(|| field["allOf"][0]["$ref"].as_str());
    direct?.strip_prefix("#/components/schemas/")
}

/// Returns the description with the allowed values and the default.
fn sentence(field: &Value) -> String {
    let mut text = describe(field);
    let list = |values: &[Value]| {
        let words = values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default()));
        words.collect::<Vec<_>>().join(", ")
    };
    if let Some(values) = field["enum"].as_array() {
        text = format!("{text} One of {}.", list(values));
    }
    // An empty object or list says nothing.
    let default = &field["default"];
    if default.is_string() || default.is_number() || default.is_boolean() {
        text = format!("{text} Default: `{}`.", default.to_string().trim_matches('"'));
    }
    text.trim().to_owned()
}

#[test]
fn the_reference_of_api_fields_is_current() {
    let server = Flotilla::start();
    let expected = render(&server);
    for field in ["`spec.placement.spreadConstraints[].maxGroups`", "## Cluster (cluster.karmada.io/v1alpha1)"] {
        assert!(expected.contains(field), "{field} is missing");
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(page(), &expected).expect("written");
    }
    let found = std::fs::read_to_string(page()).unwrap_or_default();
    let difference = expected.lines().zip(found.lines()).find(|(new, old)| new != old);
    assert!(
        expected == found,
        "docs/reference/api.md is outdated at {difference:?}; run `UPDATE=1 cargo test -p e2e --test api_reference`"
    );
}
