//! Writes OpenAPI v3 documents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::definitions::each_schema;
use super::object_text::ObjectText;
use super::path_item::{PathItem, PathOperation, RequestBody, ResponseSpec, status_text};

const SCHEMAS: &str = "#/components/schemas/";

/// The origin of a document: the server itself, or the part that serves custom kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Builtin,
    Custom,
}

/// The document's text. Paths are built on demand; `definitions` gets every name they use.
pub fn document(
    origin: Origin,
    items: impl Iterator<Item = PathItem>,
    definitions: impl FnOnce(BTreeSet<String>) -> BTreeMap<String, Value>,
) -> Vec<u8> {
    let (mut paths, mut schemas, mut components) =
        (ObjectText::default(), ObjectText::default(), ObjectText::default());
    let mut named = BTreeSet::new();
    for item in items {
        named.extend(item.definitions().map(str::to_owned));
        paths.member(&item.path, &path(&item));
    }
    for (name, schema) in definitions(named) {
        schemas.member(&name, &definition(&name, schema));
    }
    if !schemas.is_empty() {
        components.text_member("schemas", &schemas.finish());
    }
    let info = match origin {
        Origin::Builtin => {
            components.member("securitySchemes", &super::security_schemes());
            super::info()
        }
        Origin::Custom => json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" }),
    };
    let mut document = ObjectText::default();
    document.member("openapi", &json!("3.0.0"));
    document.member("info", &info);
    document.text_member("paths", &paths.finish());
    document.text_member("components", &components.finish());
    document.finish()
}

fn path(item: &PathItem) -> Value {
    let shared = item.shared_parameters();
    let mut fields: Map<String, Value> = item
        .operations
        .iter()
        .map(|operation| {
            let own: Vec<Value> = operation.own_parameters(&shared).iter().map(|p| p.to_v3()).collect();
            (operation.method.to_owned(), operation_fields(operation, own))
        })
        .collect();
    if !shared.is_empty() {
        fields.insert("parameters".to_owned(), shared.iter().map(|parameter| parameter.to_v3()).collect());
    }
    Value::Object(fields)
}

fn operation_fields(operation: &PathOperation, parameters: Vec<Value>) -> Value {
    let mut fields = operation.common_fields();
    if !parameters.is_empty() {
        fields["parameters"] = Value::Array(parameters);
    }
    if let Some(RequestBody { definition, required }) = &operation.body {
        fields["requestBody"] = json!({ "content": content(&operation.consumes, &reference(definition)) });
        if *required {
            fields["requestBody"]["required"] = json!(true);
        }
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.responses {
        let schema = match answer {
            ResponseSpec::Definition(name) => reference(name),
            ResponseSpec::Text => json!({ "type": "string" }),
        };
        let response = json!({ "description": status_text(*code), "content": content(&operation.produces, &schema) });
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({ "description": status_text(401) }));
    fields["responses"] = Value::Object(responses);
    fields
}

fn content(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|ty| ((*ty).to_owned(), json!({ "schema": schema }))).collect::<Map<_, _>>().into()
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{definition}") })
}

fn definition(name: &str, mut schema: Value) -> Value {
    let types = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => ["string", "number"],
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => ["integer", "string"],
        _ => {
            each_schema(&mut schema, &mut wrap_reference);
            return schema;
        }
    };
    if let Some(map) = schema.as_object_mut() {
        map.remove("type");
        map.insert("oneOf".to_owned(), types.iter().map(|ty| json!({ "type": ty })).collect());
    }
    schema
}

/// A reference may not have siblings in OpenAPI v3, so one that does is wrapped in a list of one.
fn wrap_reference(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    let Some(Value::String(name)) = map.remove("$ref") else { return };
    let target = reference(&name);
    if map.is_empty() {
        *schema = target;
    } else {
        map.insert("allOf".to_owned(), json!([target]));
    }
}
