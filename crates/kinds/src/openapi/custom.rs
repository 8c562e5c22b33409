//! Schemas of custom kinds as published: with the fields every object has, and trimmed to what OpenAPI v2 can say.

use serde_json::{Map, Value, json};

use crate::kind::Kind;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schema for `/openapi/v3`, with references as bare names.
pub fn v3_schema(kind: &Kind, raw: Option<&Value>) -> Value {
    let Some(raw) = raw else { return opaque(kind) };
    let mut schema = raw.clone();
    unfold(&mut schema);
    add_object_fields(&mut schema);
    add_embedded_fields(&mut schema);
    mark(&mut schema, kind);
    schema
}

/// The schema for `/openapi/v2`. A kind that keeps unknown fields at its root says nothing there: clients that read v2
/// would take the listed fields for all there are.
pub fn v2_schema(kind: &Kind, raw: Option<&Value>) -> Value {
    match raw {
        Some(raw) if !flag(raw, "x-kubernetes-preserve-unknown-fields") => {
            let mut schema = raw.clone();
            simplify(&mut schema);
            add_object_fields(&mut schema);
            add_embedded_fields_v2(&mut schema);
            mark(&mut schema, kind);
            schema
        }
        _ => opaque(kind),
    }
}

pub fn list_schema(kind: &Kind) -> Value {
    json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.gvk.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": api_version_field(),
            "kind": kind_field(),
            "metadata": { "description": "Resource version and paging of the list.", "$ref": format!("{META}.ListMeta") },
            "items": {
                "description": format!("The {} of the list.", kind.plural),
                "type": "array",
                "items": { "$ref": kind.definition },
            },
        },
        "x-kubernetes-group-version-kind":
            [{ "group": kind.gvk.group, "version": kind.gvk.version, "kind": kind.list_kind }],
    })
}

/// The name custom kinds are published under: the group's labels backwards, then version and kind.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let mut labels: Vec<&str> = group.split('.').rev().collect();
    labels.extend([version, kind]);
    labels.join(".")
}

fn opaque(kind: &Kind) -> Value {
    let mut schema = json!({ "type": "object" });
    mark(&mut schema, kind);
    schema
}

fn mark(schema: &mut Value, kind: &Kind) {
    schema["x-kubernetes-group-version-kind"] =
        json!([{ "group": kind.gvk.group, "version": kind.gvk.version, "kind": kind.gvk.kind }]);
}

fn api_version_field() -> Value {
    json!({ "description": "The group and version this object is written in, such as apps/v1.", "type": "string" })
}

fn kind_field() -> Value {
    json!({ "description": "What this object is, in CamelCase.", "type": "string" })
}

fn metadata_field() -> Value {
    json!({ "description": "Name, namespace, labels, annotations and what the server keeps about the object.", "$ref": format!("{META}.ObjectMeta") })
}

fn add_object_fields(schema: &mut Value) {
    let Some(properties) = properties_of(schema) else { return };
    properties.insert("apiVersion".to_owned(), api_version_field());
    properties.insert("kind".to_owned(), kind_field());
    properties.insert("metadata".to_owned(), metadata_field());
}

/// The properties of a schema, made where there are none.
fn properties_of(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.as_object_mut()?.entry("properties").or_insert_with(|| json!({})).as_object_mut()
}

fn add_embedded_fields(schema: &mut Value) {
    each_child(schema, &mut add_embedded_fields);
    if flag(schema, "x-kubernetes-embedded-resource") {
        add_object_fields(schema);
        require_type(schema);
    }
}

fn add_embedded_fields_v2(schema: &mut Value) {
    each_child(schema, &mut add_embedded_fields_v2);
    if flag(schema, "x-kubernetes-embedded-resource") && !flag(schema, "x-kubernetes-preserve-unknown-fields") {
        add_object_fields(schema);
        require_type(schema);
    }
}

fn require_type(schema: &mut Value) {
    let mut required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    for field in ["kind", "apiVersion"] {
        if !required.iter().any(|name| name == field) {
            required.push(json!(field));
        }
    }
    schema["required"] = Value::Array(required);
}

/// Spells out what `x-kubernetes-int-or-string` means, for readers that know only OpenAPI.
fn unfold(schema: &mut Value) {
    each_child(schema, &mut unfold);
    let spelled_out = schema.get("anyOf").is_some() || schema.get("allOf").is_some();
    if flag(schema, "x-kubernetes-int-or-string") && !spelled_out {
        schema["anyOf"] = json!([{ "type": "integer" }, { "type": "string" }]);
    }
}

/// Leaves out what OpenAPI v2 lacks (junctors, nullable) and what clients of v2 stumble over: lists without items, and
/// fields listed beside unknown ones that are kept.
fn simplify(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        for word in ["allOf", "anyOf", "oneOf", "not", "default"] {
            map.remove(word);
        }
        let keeps_unknown = map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let nullable = map.remove("nullable") == Some(Value::Bool(true));
        if nullable {
            map.remove("type");
        }
        if nullable || keeps_unknown {
            map.remove("items");
            map.remove("properties");
        }
        let untyped = match map.get("type").and_then(Value::as_str) {
            Some("array") => !map.contains_key("items"),
            Some("object") => keeps_unknown,
            _ => false,
        };
        if untyped {
            map.remove("type");
        }
        drop_nullable_from_required(map);
    }
    each_child(schema, &mut simplify);
}

fn drop_nullable_from_required(map: &mut Map<String, Value>) {
    let nullable: Vec<String> = map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, property)| flag(property, "nullable"))
        .map(|(name, _)| name.clone())
        .collect();
    let emptied = match map.get_mut("required") {
        Some(Value::Array(required)) => {
            required.retain(|name| !name.as_str().is_some_and(|name| nullable.iter().any(|other| other == name)));
            required.is_empty()
        }
        _ => false,
    };
    if emptied {
        map.remove("required");
    }
}

fn each_child(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Some(map) = schema.as_object_mut() else { return };
    for (_, property) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        visit(property);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner @ Value::Object(_)) = map.get_mut(word) {
            visit(inner);
        }
    }
}

fn flag(schema: &Value, word: &str) -> bool {
    schema.get(word).and_then(Value::as_bool).unwrap_or(false)
}
