//! Generates OpenAPI documents: 2.0, which most tools read, and 3.1.

use std::collections::BTreeSet;

use prost_reflect::{FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{Api, HttpRoute, PACKAGE, Rpc};

#[derive(Clone, Copy, PartialEq)]
enum Version {
    V2,
    V3,
}

const TITLE: &str = "Flotilla manager";
const ERROR: &str = "Error";

pub fn v2(api: &Api) -> String {
    let (paths, schemas) = render(api, Version::V2);
    pretty(&json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": "v1alpha1"},
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "securityDefinitions": {"bearer": {"type": "apiKey", "in": "header", "name": "Authorization"}},
        "security": [{"bearer": []}],
        "paths": paths,
        "definitions": schemas,
    }))
}

pub fn v3(api: &Api) -> String {
    let (paths, schemas) = render(api, Version::V3);
    pretty(&json!({
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": "v1alpha1"},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }))
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

fn render(api: &Api, version: Version) -> (Map<String, Value>, Map<String, Value>) {
    let (mut paths, mut open, mut done) = (Map::new(), Vec::new(), BTreeSet::new());
    for rpc in &api.methods {
        for (number, route) in rpc.routes.iter().enumerate() {
            let path = paths.entry(shown_path(&route.path)).or_insert_with(|| json!({}));
            path[route.verb.to_lowercase()] = operation(rpc, route, number, version, &mut open);
        }
    }
    let mut schemas = Map::new();
    schemas.insert(ERROR.to_owned(), error_schema());
    while let Some(message) = open.pop() {
        if done.insert(message.full_name().to_owned()) {
            let schema = message_schema(&message, version, &mut open);
            schemas.insert(short(message.full_name()), schema);
        }
    }
    (paths, schemas)
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error.",
        "properties": {
            "code": {"type": "integer", "format": "int32", "description": "The code of gRPC."},
            "message": {"type": "string"},
            "details": {"type": "array", "items": {"type": "object"}},
        },
    })
}

/// `{instance.name}` as a parameter of the same name.
fn shown_path(path: &str) -> String {
    path.to_owned()
}

fn short(full_name: &str) -> String {
    full_name.strip_prefix(PACKAGE).unwrap_or(full_name).trim_start_matches('.').replace('.', "_")
}

fn reference(name: &str, version: Version) -> Value {
    match version {
        Version::V2 => json!({"$ref": format!("#/definitions/{name}")}),
        Version::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}

fn operation(
    rpc: &Rpc,
    route: &HttpRoute,
    number: usize,
    version: Version,
    open: &mut Vec<MessageDescriptor>,
) -> Value {
    let method = &rpc.method;
    let service = method.parent_service().name().to_owned();
    let suffix = if number == 0 { String::new() } else { format!("_{number}") };
    let mut parameters = Vec::new();
    let mut bound = BTreeSet::new();
    for part in route.path.split('{').skip(1) {
        let name = part.split('}').next().unwrap_or_default();
        bound.insert(name.to_owned());
        parameters.push(parameter(name, "path", true, json!({"type": "string"}), "", version));
    }
    if route.body != "*" {
        query_parameters(&method.input(), "", route, &bound, version, &mut parameters);
    }
    let mut operation = json!({
        "operationId": format!("{service}_{}{suffix}", method.name()),
        "summary": comment(&method.parent_file(), method.path()),
        "tags": [service],
        "x-flotilla-permission": rpc.permission,
        "responses": responses(rpc, version, open),
    });
    if !route.body.is_empty() {
        let field = method.input().get_field_by_name(&route.body);
        let (media, schema) = match &field {
            None => ("application/json", message_reference(&method.input(), version, open)),
            Some(field) => body_schema(field, version, open),
        };
        match version {
            Version::V2 => parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema})),
            Version::V3 => {
                operation["requestBody"] = json!({"required": true, "content": {media: {"schema": schema}}});
            }
        }
    }
    operation["parameters"] = parameters.into();
    operation
}

fn body_schema(field: &FieldDescriptor, version: Version, open: &mut Vec<MessageDescriptor>) -> (&'static str, Value) {
    match field.kind() {
        Kind::Message(message) if message.full_name() == "google.api.HttpBody" => match version {
            Version::V2 => ("*/*", json!({"type": "string", "format": "binary"})),
            Version::V3 => ("*/*", json!({})),
        },
        _ => ("application/json", field_schema(field, version, open)),
    }
}

fn parameter(name: &str, place: &str, required: bool, schema: Value, text: &str, version: Version) -> Value {
    let mut parameter = json!({"name": name, "in": place, "required": required});
    match (version, schema) {
        (Version::V2, Value::Object(fields)) => {
            for (key, value) in fields {
                parameter[key] = value;
            }
        }
        (_, schema) => parameter["schema"] = schema,
    }
    if !text.is_empty() {
        parameter["description"] = text.into();
    }
    parameter
}

fn query_parameters(
    message: &MessageDescriptor,
    prefix: &str,
    route: &HttpRoute,
    bound: &BTreeSet<String>,
    version: Version,
    out: &mut Vec<Value>,
) {
    for field in message.fields() {
        let name = format!("{prefix}{}", field.name());
        if bound.contains(&name) || name == route.body || field.is_map() {
            continue;
        }
        let text = comment(&field.parent_message().parent_file(), field.path());
        let name = format!("{prefix}{}", field.json_name());
        match field.kind() {
            Kind::Message(inner) if !is_text(&inner) => {
                if inner.full_name().starts_with(PACKAGE) && !field.is_list() {
                    query_parameters(&inner, &format!("{name}."), route, bound, version, out);
                }
            }
            _ => {
                let schema = field_schema(&field, version, &mut Vec::new());
                out.push(parameter(&name, "query", false, schema, &text, version));
            }
        }
    }
}

fn is_text(message: &MessageDescriptor) -> bool {
    matches!(message.full_name(), "google.protobuf.Timestamp" | "google.protobuf.FieldMask")
}

fn responses(rpc: &Rpc, version: Version, open: &mut Vec<MessageDescriptor>) -> Value {
    let output = rpc.method.output();
    let (media, schema) = match output.full_name() {
        "google.api.HttpBody" => ("*/*", json!({})),
        _ if rpc.method.is_server_streaming() => {
            let result = message_reference(&output, version, open);
            let error = reference(ERROR, version);
            ("application/x-ndjson", json!({"type": "object", "properties": {"result": result, "error": error}}))
        }
        _ => ("application/json", message_reference(&output, version, open)),
    };
    let error = reference(ERROR, version);
    match version {
        Version::V2 => json!({
            "200": {"description": "The result.", "schema": schema},
            "default": {"description": "An error.", "schema": error},
        }),
        Version::V3 => json!({
            "200": {"description": "The result.", "content": {media: {"schema": schema}}},
            "default": {"description": "An error.", "content": {"application/json": {"schema": error}}},
        }),
    }
}

fn message_reference(message: &MessageDescriptor, version: Version, open: &mut Vec<MessageDescriptor>) -> Value {
    match message.full_name() {
        "google.protobuf.Empty" | "google.protobuf.Struct" => json!({"type": "object"}),
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.FieldMask" => json!({"type": "string"}),
        "google.api.HttpBody" => json!({"type": "string", "format": "binary"}),
        name => {
            open.push(message.clone());
            reference(&short(name), version)
        }
    }
}

fn message_schema(message: &MessageDescriptor, version: Version, open: &mut Vec<MessageDescriptor>) -> Value {
    let mut properties = Map::new();
    for field in message.fields() {
        let mut schema = field_schema(&field, version, open);
        let text = comment(&message.parent_file(), field.path());
        // Definitions in 2.0 ignore what stands next to a reference.
        if !text.is_empty() && (version == Version::V3 || schema.get("$ref").is_none()) {
            schema["description"] = text.into();
        }
        properties.insert(field.json_name().to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    let text = comment(&message.parent_file(), message.path());
    if !text.is_empty() {
        schema["description"] = text.into();
    }
    schema
}

fn field_schema(field: &FieldDescriptor, version: Version, open: &mut Vec<MessageDescriptor>) -> Value {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return json!({}) };
        let value = kind_schema(&entry.map_entry_value_field().kind(), version, open);
        return json!({"type": "object", "additionalProperties": value});
    }
    let schema = kind_schema(&field.kind(), version, open);
    match field.is_list() {
        true => json!({"type": "array", "items": schema}),
        false => schema,
    }
}

fn kind_schema(kind: &Kind, version: Version, open: &mut Vec<MessageDescriptor>) -> Value {
    match kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Int32 | Kind::Uint32 => json!({"type": "integer", "format": "int32"}),
        Kind::Int64 => json!({"type": "string", "format": "int64"}),
        Kind::Double | Kind::Float => json!({"type": "number", "format": "double"}),
        Kind::Bytes => json!({"type": "string", "format": "byte"}),
        Kind::Enum(found) => {
            let names: Vec<String> = found.values().map(|value| value.name().to_owned()).collect();
            json!({"type": "string", "enum": names})
        }
        Kind::Message(message) => message_reference(message, version, open),
        _ => json!({"type": "string"}),
    }
}

/// The comment before a definition.
pub fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let found = info.and_then(|info| info.location.iter().find(|location| location.path == path));
    let text = found.map(|location| location.leading_comments().trim().replace("\n ", " ")).unwrap_or_default();
    text.replace('\n', " ")
}
