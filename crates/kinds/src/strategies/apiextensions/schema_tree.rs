//! Traversal of the schemas of a definition.

use object::Object;
use serde_json::Value;

pub(super) fn type_of(schema: &Value) -> &str {
    schema["type"].as_str().unwrap_or_default()
}

pub(super) fn flag(schema: &Value, key: &str) -> bool {
    schema[key].as_bool().unwrap_or(false)
}

/// Every schema of a definition, in either form.
pub(super) fn schemas(definition: &Object) -> impl Iterator<Item = &Value> {
    let in_spec = definition.get(&["spec", "validation", "openAPIV3Schema"]);
    let in_versions = definition.items(&["spec", "versions"]).iter();
    in_spec.into_iter().chain(in_versions.filter_map(|version| version["schema"].get("openAPIV3Schema")))
}

/// Reports whether the schema or any below it satisfies the predicate.
pub(super) fn any(schema: &Value, predicate: &dyn Fn(&Value) -> bool) -> bool {
    predicate(schema) || children(schema).into_iter().any(|child| any(child, predicate))
}

/// The schemas one level below.
pub(super) fn children(schema: &Value) -> Vec<&Value> {
    let mut children = Vec::new();
    for key in ["properties", "patternProperties", "definitions", "dependencies"] {
        children.extend(schema[key].as_object().into_iter().flat_map(|map| map.values()).filter(|v| v.is_object()));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        children.extend(schema[key].as_array().into_iter().flatten());
    }
    for key in ["not", "additionalProperties", "additionalItems"] {
        children.extend(schema.get(key).filter(|v| v.is_object()));
    }
    match &schema["items"] {
        Value::Array(items) => children.extend(items),
        items @ Value::Object(_) => children.push(items),
        _ => {}
    }
    children
}

/// String formats the server checks, without dashes.
const STRING_FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Formats the server ignores, each with a warning.
pub(super) fn unrecognized_formats(definition: &Object) -> Vec<String> {
    let mut found = Vec::new();
    schemas(definition).for_each(|schema| collect_formats(schema, &mut found));
    found
}

fn collect_formats(schema: &Value, found: &mut Vec<String>) {
    let format = schema["format"].as_str().unwrap_or_default();
    let known = match type_of(schema) {
        _ if format.is_empty() => true,
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !known {
        found.push(format.to_owned());
    }
    children(schema).into_iter().for_each(|child| collect_formats(child, found));
}

/// Features that a structural schema cannot have.
pub(super) fn is_convertible(schema: &Value) -> bool {
    let set = |key: &str| match &schema[key] {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty() || key == "additionalItems",
        _ => true,
    };
    let unsupported = ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    let clean = !unsupported.iter().any(|key| set(key))
        && !schema["items"].is_array()
        && schema["x-kubernetes-preserve-unknown-fields"] != Value::Bool(false);
    clean && children(schema).into_iter().all(is_convertible)
}
