//! Writes the OpenAPI v2 document.

use std::collections::BTreeMap;

use base64::Engine;
use ring::digest;
use serde_json::{Map, Value, json};

use super::definitions::each_schema;
use super::parameters::{Parameter, Place};
use super::path_item::{Answer, Operation, PathItem, RequestBody, status_text};

const DEFINITIONS: &str = "#/definitions/";

pub fn document(items: &[PathItem], definitions: BTreeMap<String, Value>) -> Value {
    let mut shared = SharedParameters::default();
    let paths: Map<String, Value> = items.iter().map(|item| (item.path.clone(), path(item, &mut shared))).collect();
    let definitions: Map<String, Value> = definitions
        .into_iter()
        .map(|(name, mut schema)| {
            each_schema(&mut schema, &mut simplify);
            (name, schema)
        })
        .collect();
    json!({
        "swagger": "2.0",
        "info": super::info(),
        "paths": paths,
        "definitions": definitions,
        "parameters": shared.named,
        "securityDefinitions": super::security_schemes(),
        "security": [{ "BearerToken": [] }],
    })
}

/// Parameters are written once and referred to; their names carry a hash, so that twins with other texts can live.
#[derive(Default)]
struct SharedParameters {
    named: Map<String, Value>,
}

impl SharedParameters {
    fn refer(&mut self, name: &str, value: Value) -> Value {
        let digest = digest::digest(&digest::SHA256, value.to_string().as_bytes());
        let suffix = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&digest.as_ref()[..6]);
        let key = format!("{name}-{suffix}");
        let reference = json!({ "$ref": format!("#/parameters/{key}") });
        self.named.entry(key).or_insert(value);
        reference
    }

    fn parameter(&mut self, parameter: &Parameter) -> Value {
        let value = parameter.to_v2();
        // The text of a name tells its kind, so it is hardly ever shared.
        if parameter.place == Place::Path && parameter.name == "name" {
            return value;
        }
        self.refer(parameter.name, value)
    }
}

fn path(item: &PathItem, shared: &mut SharedParameters) -> Value {
    let on_path = item.shared_parameters();
    let mut fields = Map::new();
    for operation in &item.operations {
        let mut parameters: Vec<Value> = operation.body.iter().map(|body| body_parameter(body, shared)).collect();
        parameters.extend(operation.own_parameters(&on_path).iter().map(|parameter| shared.parameter(parameter)));
        fields.insert(operation.method.to_owned(), operation_fields(operation, parameters));
    }
    if !on_path.is_empty() {
        fields.insert("parameters".to_owned(), on_path.iter().map(|parameter| shared.parameter(parameter)).collect());
    }
    Value::Object(fields)
}

fn body_parameter(body: &RequestBody, shared: &mut SharedParameters) -> Value {
    let mut value = json!({ "name": "body", "in": "body", "schema": reference(&body.definition) });
    if body.required {
        value["required"] = json!(true);
    }
    let everywhere = body.definition.ends_with(".DeleteOptions") || body.definition.ends_with(".Patch");
    if everywhere { shared.refer("body", value) } else { value }
}

fn operation_fields(operation: &Operation, parameters: Vec<Value>) -> Value {
    let mut fields = operation.common_fields();
    fields["schemes"] = json!(["https"]);
    fields["produces"] = json!(operation.produces);
    if !operation.consumes.is_empty() {
        fields["consumes"] = json!(operation.consumes);
    }
    if !parameters.is_empty() {
        fields["parameters"] = Value::Array(parameters);
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.responses {
        let schema = match answer {
            Answer::Definition(name) => reference(name),
            Answer::Text => json!({ "type": "string" }),
        };
        responses.insert(code.to_string(), json!({ "description": status_text(*code), "schema": schema }));
    }
    responses.insert("401".to_owned(), json!({ "description": status_text(401) }));
    fields["responses"] = Value::Object(responses);
    fields
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("{DEFINITIONS}{definition}") })
}

/// Spells references out and leaves out defaults, which v2 never showed.
fn simplify(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    map.remove("default");
    if let Some(Value::String(name)) = map.get_mut("$ref") {
        *name = format!("{DEFINITIONS}{name}");
    }
}
