//! Writes OpenAPI v3 documents.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definitions::each_schema;
use super::path_item::{Answer, Operation, PathItem, RequestBody, status_text};

const SCHEMAS: &str = "#/components/schemas/";

/// Who a document is from: the server itself, or the part that serves custom kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Builtin,
    Custom,
}

pub fn document(origin: Origin, items: &[PathItem], definitions: BTreeMap<String, Value>) -> Value {
    let paths: Map<String, Value> = items.iter().map(|item| (item.path.clone(), path(item))).collect();
    let mut components = Map::new();
    if !definitions.is_empty() {
        let schemas: Map<String, Value> =
            definitions.into_iter().map(|(name, schema)| definition(name, schema)).collect();
        components.insert("schemas".to_owned(), Value::Object(schemas));
    }
    let info = match origin {
        Origin::Builtin => {
            components.insert("securitySchemes".to_owned(), super::security_schemes());
            super::info()
        }
        Origin::Custom => json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" }),
    };
    json!({ "openapi": "3.0.0", "info": info, "paths": paths, "components": components })
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

fn operation_fields(operation: &Operation, parameters: Vec<Value>) -> Value {
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
            Answer::Definition(name) => reference(name),
            Answer::Text => json!({ "type": "string" }),
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

fn definition(name: String, mut schema: Value) -> (String, Value) {
    let types = match name.as_str() {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => ["string", "number"],
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => ["integer", "string"],
        _ => {
            each_schema(&mut schema, &mut wrap_reference);
            return (name, schema);
        }
    };
    if let Some(map) = schema.as_object_mut() {
        map.remove("type");
        map.insert("oneOf".to_owned(), types.iter().map(|ty| json!({ "type": ty })).collect());
    }
    (name, schema)
}

/// A reference may not have neighbours in OpenAPI v3, so one that does becomes a list of one.
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
