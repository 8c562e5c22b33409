//! Encodes the OpenAPI v2 document as protobuf (gnostic's `openapi.v2.Document`), which client-go requests.
//!
//! Table-driven: a message is a list of JSON keywords with their field numbers, taken from OpenAPIv2.proto.

use serde_json::Value;

use super::v2::Sink;

/// The encoding of a JSON keyword's value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Flag,
    Integer,
    Double,
    /// Anything, as YAML text in an `Any`.
    Any,
    Anys,
    Message(fn(&Value) -> Vec<u8>),
    Messages(fn(&Value) -> Vec<u8>),
}

type Fields = &'static [(&'static str, u32, Form)];

use Form::{Any, Anys, Double, Flag, Integer, Message, Messages, Text, Texts};

/// The document as protobuf, its large parts encoded incrementally.
#[derive(Default)]
pub struct ProtoSink {
    paths: Vec<u8>,
    definitions: Vec<u8>,
}

impl Sink for ProtoSink {
    fn path(&mut self, name: &str, item: &Value) {
        write_bytes(&mut self.paths, 2, &pair(name, &path_item(item)));
    }

    fn definition(&mut self, name: &str, value: &Value) {
        write_bytes(&mut self.definitions, 1, &pair(name, &schema(value)));
    }
}

impl ProtoSink {
    pub fn finish(self, rest: &Value) -> Vec<u8> {
        const FIELDS: Fields = &[
            ("swagger", 1, Text),
            ("info", 2, Message(info)),
            ("parameters", 10, Message(|v| named(v, 1, parameter))),
            ("security", 12, Messages(|v| named(v, 1, texts_message))),
            ("securityDefinitions", 13, Message(|v| named(v, 1, |v| wrapped(2, &api_key(v))))),
        ];
        let mut out = message(rest, FIELDS, Some(16));
        write_bytes(&mut out, 8, &self.paths);
        write_bytes(&mut out, 9, &self.definitions);
        out
    }
}

fn info(value: &Value) -> Vec<u8> {
    message(value, &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], Some(7))
}

fn path_item(value: &Value) -> Vec<u8> {
    const FIELDS: Fields = &[
        ("get", 2, Message(operation)),
        ("put", 3, Message(operation)),
        ("post", 4, Message(operation)),
        ("delete", 5, Message(operation)),
        ("options", 6, Message(operation)),
        ("head", 7, Message(operation)),
        ("patch", 8, Message(operation)),
        ("parameters", 9, Messages(parameters_item)),
    ];
    message(value, FIELDS, Some(10))
}

fn operation(value: &Value) -> Vec<u8> {
    const FIELDS: Fields = &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Messages(parameters_item)),
        ("responses", 9, Message(|v| named(v, 1, |v| wrapped(1, &response(v))))),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
    ];
    message(value, FIELDS, Some(13))
}

fn response(value: &Value) -> Vec<u8> {
    message(value, &[("description", 1, Text), ("schema", 2, Message(|v| wrapped(1, &schema(v))))], Some(5))
}

fn parameters_item(value: &Value) -> Vec<u8> {
    match value.get("$ref") {
        Some(_) => wrapped(2, &message(value, &[("$ref", 1, Text), ("description", 2, Text)], None)),
        None => wrapped(1, &parameter(value)),
    }
}

fn parameter(value: &Value) -> Vec<u8> {
    const BODY: Fields = &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Message(schema)),
    ];
    const QUERY: Fields = &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ];
    const PATH: Fields = &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ];
    match value["in"].as_str() {
        Some("body") => wrapped(1, &message(value, BODY, Some(6))),
        Some("path") => wrapped(2, &wrapped(4, &message(value, PATH, Some(22)))),
        _ => wrapped(2, &wrapped(3, &message(value, QUERY, Some(23)))),
    }
}

fn api_key(value: &Value) -> Vec<u8> {
    message(value, &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)], Some(5))
}

fn schema(value: &Value) -> Vec<u8> {
    const FIELDS: Fields = &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Message(additional_properties)),
        ("type", 22, Message(|v| texts(1, std::slice::from_ref(v)))),
        ("items", 23, Message(|v| wrapped(1, &schema(v)))),
        ("allOf", 24, Messages(schema)),
        ("properties", 25, Message(|v| named(v, 1, schema))),
        ("example", 30, Any),
    ];
    message(value, FIELDS, Some(31))
}

fn additional_properties(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Bool(allowed) => write_integer(&mut out, 2, i64::from(*allowed)),
        _ => write_bytes(&mut out, 1, &schema(value)),
    }
    out
}

/// A string array as a message of its own.
fn texts_message(value: &Value) -> Vec<u8> {
    texts(1, value.as_array().map(Vec::as_slice).unwrap_or_default())
}

fn texts(number: u32, values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in values.iter().filter_map(Value::as_str) {
        write_bytes(&mut out, number, text.as_bytes());
    }
    out
}

fn message(value: &Value, fields: Fields, extensions: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    for (word, number, form) in fields {
        if let Some(inner) = value.get(word) {
            write_field(&mut out, *number, *form, inner);
        }
    }
    if let Some(number) = extensions {
        for (word, inner) in value.as_object().into_iter().flatten().filter(|(word, _)| word.starts_with("x-")) {
            write_bytes(&mut out, number, &pair(word, &any(inner)));
        }
    }
    out
}

fn write_field(out: &mut Vec<u8>, number: u32, form: Form, value: &Value) {
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    match form {
        Text => write_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Texts => out.extend(texts(number, items())),
        Flag => write_integer(out, number, i64::from(value.as_bool().unwrap_or(false))),
        Integer => write_integer(out, number, value.as_i64().unwrap_or(0)),
        Double => {
            write_varint(out, u64::from(number) << 3 | 1);
            out.extend(value.as_f64().unwrap_or(0.0).to_le_bytes());
        }
        Any => write_bytes(out, number, &any(value)),
        Anys => items().iter().for_each(|item| write_bytes(out, number, &any(item))),
        Message(encode) => write_bytes(out, number, &encode(value)),
        Messages(encode) => items().iter().for_each(|item| write_bytes(out, number, &encode(item))),
    }
}

/// A map as a list of name and value.
fn named(value: &Value, number: u32, encode: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, inner) in value.as_object().into_iter().flatten() {
        write_bytes(&mut out, number, &pair(name, &encode(inner)));
    }
    out
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + value.len() + 8);
    write_bytes(&mut out, 1, name.as_bytes());
    write_bytes(&mut out, 2, value);
    out
}

/// JSON is YAML, so the text needs no other encoder.
fn any(value: &Value) -> Vec<u8> {
    wrapped(2, format!("{value}\n").as_bytes())
}

fn wrapped(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 6);
    write_bytes(&mut out, number, bytes);
    out
}

fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_varint(out, u64::from(number) << 3 | 2);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn write_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    write_varint(out, u64::from(number) << 3);
    write_varint(out, value.cast_unsigned());
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_written_field_by_field() {
        let cases: &[(Value, &[u8])] = &[
            (json!({ "type": "string" }), &[0xb2, 0x01, 8, 0x0a, 6, b's', b't', b'r', b'i', b'n', b'g']),
            (json!({ "maxLength": 300 }), &[0x58, 0xac, 0x02]),
            (json!({ "minimum": 1 }), &[0x49, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
            (
                json!({ "x-a": true }),
                &[0xfa, 0x01, 14, 0x0a, 3, b'x', b'-', b'a', 0x12, 7, 0x12, 5, b't', b'r', b'u', b'e', b'\n'],
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(schema(value), *expected, "{value}");
        }
    }
}
