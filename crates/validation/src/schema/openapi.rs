//! Turns types of the tables, and types of Kubernetes, into OpenAPI with every reference written out.

use serde_json::{Map, Value, json};

use super::table::Field;
use super::{QUANTITY, Schemas, Shape, shape};

const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The parts of Kubernetes' published schemas that a CustomResourceDefinition repeats.
const KEPT: &[&str] = &[
    "description",
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

pub fn kind(schemas: &Schemas, name: &str) -> Value {
    let mut schema = object(schemas, name);
    for (field, shape) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        schema["properties"][field] = json!({ "type": shape });
    }
    schema
}

fn object(schemas: &Schemas, name: &str) -> Value {
    let fields = schemas.fields(name);
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), of_field(schemas, field))).collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({ "description": schemas.types[name].about, "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn of_field(schemas: &Schemas, field: &Field) -> Value {
    let mut schema = of_type(schemas, field.ty);
    schema["description"] = field.about.into();
    let number = |text: &str| text.parse::<i64>().expect("a bound is a whole number");
    for (word, value) in &field.words {
        match *word {
            "enum" => schema["enum"] = value.split('|').collect(),
            "default" => schema["default"] = serde_json::from_str(value).expect("a default is JSON"),
            "pattern" => schema["pattern"] = (*value).into(),
            "min" => schema["minimum"] = number(value).into(),
            "max" => schema["maximum"] = number(value).into(),
            "min-length" => schema["minLength"] = number(value).into(),
            "max-length" => schema["maxLength"] = number(value).into(),
            "min-items" => schema["minItems"] = number(value).into(),
            "max-items" => schema["maxItems"] = number(value).into(),
            "list" => add_list_type(&mut schema, value),
            other => unreachable!("{}: there is no restriction {other:?}", field.name),
        }
    }
    schema
}

fn add_list_type(schema: &mut Value, value: &str) {
    let (kind, keys) = value.split_once(':').unwrap_or((value, ""));
    schema["x-kubernetes-list-type"] = kind.into();
    if !keys.is_empty() {
        schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
    }
}

fn of_type(schemas: &Schemas, ty: &str) -> Value {
    match shape(ty) {
        Shape::List(item) => json!({ "type": "array", "items": of_type(schemas, item) }),
        Shape::Map(item) => json!({ "type": "object", "additionalProperties": of_type(schemas, item) }),
        Shape::Kubernetes(name) => of_kubernetes(schemas, &name),
        Shape::Own(name) => object(schemas, name),
        Shape::Scalar("quantity") => quantity(),
        Shape::Scalar(name) => scalar(name),
    }
}

/// The types that are no structs.
pub fn scalar(name: &str) -> Value {
    match name {
        "string" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "int" => json!({ "type": "integer" }),
        "int32" | "int64" => json!({ "type": "integer", "format": name }),
        "time" => json!({ "type": "string", "format": "date-time" }),
        "any" => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        "anything" => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        other => unreachable!("there is no type {other:?}"),
    }
}

fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": true,
    })
}

fn of_kubernetes(schemas: &Schemas, name: &str) -> Value {
    if name == QUANTITY {
        return quantity();
    }
    inline(schemas, &schemas.kubernetes[name])
}

/// A schema with what it refers to in place of the references; fields next to a reference are kept.
fn inline(schemas: &Schemas, schema: &Value) -> Value {
    let mut out = match schema["$ref"].as_str() {
        Some(name) => of_kubernetes(schemas, name),
        None => json!({}),
    };
    for word in KEPT {
        if let Some(value) = schema.get(*word) {
            out[*word] = value.clone();
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        let inlined = properties.iter().map(|(name, property)| (name.clone(), inline(schemas, property)));
        out["properties"] = Value::Object(inlined.collect());
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word).filter(|inner| inner.is_object()) {
            out[word] = inline(schemas, inner);
        }
    }
    out
}
