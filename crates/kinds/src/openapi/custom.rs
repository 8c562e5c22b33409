//! Published schemas of custom kinds: with the common fields of all objects, and reduced to OpenAPI v2 where needed.

use serde_json::{Map, Value, json};

use crate::kind::Kind;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The common fields of all objects, as described for built-in kinds.
pub struct ObjectFields {
    api_version: Value,
    kind: Value,
    metadata: Value,
}

impl ObjectFields {
    /// Takes them from a built-in kind.
    pub fn of(described: &Map<String, Value>) -> Self {
        let field = |name: &str| described["io.k8s.api.core.v1.ConfigMap"]["properties"][name].clone();
        let mut metadata = field("metadata");
        if let Some(words) = metadata.as_object_mut() {
            words.remove("default");
        }
        Self { api_version: field("apiVersion"), kind: field("kind"), metadata }
    }

    fn add_to(&self, schema: &mut Value) {
        let Some(map) = schema.as_object_mut() else { return };
        let Some(properties) = map.entry("properties").or_insert_with(|| json!({})).as_object_mut() else { return };
        properties.insert("apiVersion".to_owned(), self.api_version.clone());
        properties.insert("kind".to_owned(), self.kind.clone());
        properties.insert("metadata".to_owned(), self.metadata.clone());
    }

    /// Embedded objects have the common fields too. In v2 those that keep unknown fields are left unchanged: v2
    /// clients would treat the listed fields as complete.
    fn add_to_embedded(&self, schema: &mut Value, with_unknown_fields: bool) {
        each_child(schema, &mut |child| self.add_to_embedded(child, with_unknown_fields));
        let open = flag(schema, "x-kubernetes-preserve-unknown-fields");
        if flag(schema, "x-kubernetes-embedded-resource") && (with_unknown_fields || !open) {
            self.add_to(schema);
            require_type(schema);
        }
    }
}

/// The schema for `/openapi/v3`, with references as bare names.
pub fn v3_schema(fields: &ObjectFields, kind: &Kind, raw: Option<&Value>) -> Value {
    let Some(raw) = raw else { return opaque(kind) };
    let mut schema = raw.clone();
    unfold(&mut schema);
    fields.add_to(&mut schema);
    fields.add_to_embedded(&mut schema, true);
    mark(&mut schema, kind);
    schema
}

/// The schema for `/openapi/v2`. Empty for a kind that keeps unknown fields at its root: v2 clients would treat the
/// listed fields as complete.
pub fn v2_schema(fields: &ObjectFields, kind: &Kind, raw: Option<&Value>) -> Value {
    match raw {
        Some(raw) if !flag(raw, "x-kubernetes-preserve-unknown-fields") => {
            let mut schema = raw.clone();
            simplify(&mut schema);
            fields.add_to(&mut schema);
            fields.add_to_embedded(&mut schema, false);
            mark(&mut schema, kind);
            schema
        }
        _ => opaque(kind),
    }
}

pub fn list_schema(fields: &ObjectFields, kind: &Kind) -> Value {
    let mut schema = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.gvk.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": fields.api_version,
            "kind": fields.kind,
            "metadata": { "description": "Resource version and paging of the list.", "$ref": format!("{META}.ListMeta") },
            "items": {
                "description": format!("The {} of the list.", kind.plural),
                "type": "array",
                "items": { "$ref": kind.definition },
            },
        },
        "x-kubernetes-group-version-kind":
            [{ "group": kind.gvk.group, "version": kind.gvk.version, "kind": kind.list_kind }],
    });
    if let Some(selectable) = selectable_fields(kind) {
        schema["x-kubernetes-selectable-fields"] = selectable;
    }
    schema
}

/// The published name of a custom kind: the group's labels reversed, then version and kind.
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
    if let Some(selectable) = selectable_fields(kind) {
        schema["x-kubernetes-selectable-fields"] = selectable;
    }
}

/// The selectable fields of a custom kind, in addition to the common ones.
pub fn selectable_fields(kind: &Kind) -> Option<Value> {
    let own = kind.selectable_fields.iter().filter(|field| !field.name.starts_with("metadata."));
    let own: Vec<Value> = own.map(|field| json!({ "fieldPath": field.name.trim_start_matches('.') })).collect();
    (!own.is_empty()).then_some(Value::Array(own))
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

/// Expands `x-kubernetes-int-or-string`, for clients that only support OpenAPI.
fn unfold(schema: &mut Value) {
    each_child(schema, &mut unfold);
    let spelled_out = schema.get("anyOf").is_some() || schema.get("allOf").is_some();
    if flag(schema, "x-kubernetes-int-or-string") && !spelled_out {
        schema["anyOf"] = json!([{ "type": "integer" }, { "type": "string" }]);
    }
}

/// Removes keywords that OpenAPI v2 lacks (junctors, nullable) and schemas that break v2 clients: lists without
/// items, and fields listed next to preserved unknown ones.
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
