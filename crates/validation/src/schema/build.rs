//! Turns types of the tables, and types of Kubernetes, into OpenAPI with every reference written out.

use serde_json::{Map, Value, json};

use super::table::{Field, Part};
use super::{Form, Schemas};

const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// What of Kubernetes' published schemas a CustomResourceDefinition repeats.
const KEPT: &[&str] = &[
    "description",
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

pub fn kind(schemas: &Schemas, name: &str, form: Form) -> Value {
    let mut schema = object(schemas, name, form);
    for (field, shape) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        schema["properties"][field] = json!({ "type": shape });
    }
    schema
}

fn object(schemas: &Schemas, name: &str, form: Form) -> Value {
    let about = schemas.types[name].about;
    let (mut properties, mut required) = (Map::new(), Vec::new());
    add_fields(schemas, name, form, &mut properties, &mut required);
    let mut schema = json!({ "description": about, "type": "object", "properties": properties });
    if !required.is_empty() && form == Form::Custom {
        schema["required"] = required.into();
    }
    schema
}

fn add_fields(
    schemas: &Schemas,
    name: &str,
    form: Form,
    properties: &mut Map<String, Value>,
    required: &mut Vec<&'static str>,
) {
    for part in &schemas.types[name].parts {
        match part {
            Part::Include(other) => add_fields(schemas, other, form, properties, required),
            Part::Field(field) => {
                properties.insert(field.name.to_owned(), of_field(schemas, field, form));
                if field.required {
                    required.push(field.name);
                }
            }
        }
    }
}

fn of_field(schemas: &Schemas, field: &Field, form: Form) -> Value {
    let mut schema = of_type(schemas, field.ty, form);
    schema["description"] = field.about.into();
    let number = |text: &str| text.parse::<i64>().expect("a bound is a whole number");
    for (word, value) in &field.words {
        match *word {
            "enum" if form == Form::Typed => {}
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
            other => panic!("{}: there is no restriction {other:?}", field.name),
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

fn of_type(schemas: &Schemas, ty: &str, form: Form) -> Value {
    if let Some(item) = ty.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return json!({ "type": "array", "items": of_type(schemas, item, form) });
    }
    if let Some(item) = ty.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return json!({ "type": "object", "additionalProperties": of_type(schemas, item, form) });
    }
    match ty {
        "string" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "int" => json!({ "type": "integer" }),
        "int32" | "int64" => json!({ "type": "integer", "format": ty }),
        "time" => json!({ "type": "string", "format": "date-time" }),
        "quantity" => quantity(form),
        "any" => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        "anything" => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        _ => match ty.strip_prefix("k8s.") {
            Some(name) => of_kubernetes(schemas, &definition(name), form),
            None => object(schemas, ty, form),
        },
    }
}

fn quantity(form: Form) -> Value {
    let mut schema = json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": true,
    });
    if form == Form::Typed {
        schema["format"] = "quantity".into();
    }
    schema
}

fn definition(name: &str) -> String {
    match name.strip_prefix("meta.") {
        Some(rest) => format!("{META}.{rest}"),
        None => format!("io.k8s.api.{name}"),
    }
}

fn of_kubernetes(schemas: &Schemas, name: &str, form: Form) -> Value {
    if name == QUANTITY {
        return quantity(form);
    }
    let known = schemas.kubernetes.get(name);
    inline(schemas, known.unwrap_or_else(|| panic!("Kubernetes has no type {name}")), form)
}

/// A schema with what it refers to in place of the references; words beside a reference belong to the place.
fn inline(schemas: &Schemas, schema: &Value, form: Form) -> Value {
    let mut out = match schema["$ref"].as_str() {
        Some(name) => of_kubernetes(schemas, name, form),
        None => json!({}),
    };
    for word in KEPT.iter().filter(|word| !(form == Form::Typed && **word == "required")) {
        if let Some(value) = schema.get(*word) {
            out[*word] = value.clone();
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        let inlined = properties.iter().map(|(name, property)| (name.clone(), inline(schemas, property, form)));
        out["properties"] = Value::Object(inlined.collect());
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word).filter(|inner| inner.is_object()) {
            out[word] = inline(schemas, inner, form);
        }
    }
    out
}
