//! Writes the OpenAPI v2 document.

use base64::Engine;
use ring::digest;
use serde_json::{Map, Value, json};

use super::definitions::each_schema;
use super::object_text::ObjectText;
use super::parameters::{Parameter, ParameterLocation};
use super::path_item::{PathItem, PathOperation, RequestBody, ResponseSpec, status_text};

const DEFINITIONS: &str = "#/definitions/";

/// Accepts the parts of the document as they are built: the whole tree at once would be tens of megabytes.
pub struct Writer<'a> {
    sink: &'a mut dyn Sink,
    shared: SharedParameters,
}

/// An encoding of the document.
pub trait Sink {
    fn path(&mut self, name: &str, item: &Value);
    fn definition(&mut self, name: &str, schema: &Value);
}

impl<'a> Writer<'a> {
    pub fn new(sink: &'a mut dyn Sink) -> Self {
        Self { sink, shared: SharedParameters::default() }
    }

    pub fn path(&mut self, item: &PathItem) {
        let value = path(item, &mut self.shared);
        self.sink.path(&item.path, &value);
    }

    pub fn definition(&mut self, name: &str, mut schema: Value) {
        each_schema(&mut schema, &mut simplify);
        self.sink.definition(name, &schema);
    }

    /// Everything except paths and definitions.
    pub fn finish(self) -> Value {
        json!({
            "swagger": "2.0",
            "info": super::info(),
            "parameters": self.shared.named,
            "securityDefinitions": super::security_schemes(),
            "security": [{ "BearerToken": [] }],
        })
    }
}

/// The document as JSON text.
#[derive(Default)]
pub struct JsonSink {
    paths: ObjectText,
    definitions: ObjectText,
}

impl Sink for JsonSink {
    fn path(&mut self, name: &str, item: &Value) {
        self.paths.member(name, item);
    }

    fn definition(&mut self, name: &str, schema: &Value) {
        self.definitions.member(name, schema);
    }
}

impl JsonSink {
    pub fn finish(self, rest: &Value) -> Vec<u8> {
        let mut document = ObjectText::default();
        for (name, value) in rest.as_object().into_iter().flatten() {
            document.member(name, value);
        }
        document.text_member("paths", &self.paths.finish());
        document.text_member("definitions", &self.definitions.finish());
        document.finish()
    }
}

/// Parameters are written once and referenced; their names include a hash, so that variants with other texts can
/// coexist.
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
        // The description of a name mentions its kind, so it is rarely shared.
        if parameter.place == ParameterLocation::Path && parameter.name == "name" {
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

fn operation_fields(operation: &PathOperation, parameters: Vec<Value>) -> Value {
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
            ResponseSpec::Definition(name) => reference(name),
            ResponseSpec::Text => json!({ "type": "string" }),
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

/// Expands references and removes defaults, which v2 never shows.
fn simplify(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    map.remove("default");
    if let Some(Value::String(name)) = map.get_mut("$ref") {
        *name = format!("{DEFINITIONS}{name}");
    }
}
