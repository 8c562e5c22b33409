//! Turns types of the tables into schemas for the decoder of typed objects, which knows types by their names.

use std::collections::BTreeSet;

use object::schema::{Schema, SchemaSetBuilder};
use serde_json::{Map, Value, json};

use super::openapi::scalar;
use super::{META, QUANTITY, Schemas, Shape, shape};

/// Package path of Karmada's Go types, as error messages show it.
const PACKAGE: &str = "com.github.karmada-io.karmada.pkg.apis.v1alpha1";
/// The parts of Kubernetes' published schemas that the decoder needs.
const KEPT: &[&str] = &[
    "$ref",
    "type",
    "format",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
];

pub fn kind(schemas: &Schemas, name: &str) -> Schema {
    let mut root = own(schemas, name);
    root["properties"]["apiVersion"] = scalar("string");
    root["properties"]["kind"] = scalar("string");
    root["properties"]["metadata"] = json!({ "$ref": format!("{META}.v1.ObjectMeta") });
    let root_name = format!("{PACKAGE}.{name}");
    let mut builder = SchemaSetBuilder::default();
    let mut wanted = BTreeSet::new();
    let mut defined = BTreeSet::from([root_name.clone()]);
    let mut define = |name: &str, schema: &Value, wanted: &mut BTreeSet<String>| {
        collect_references(schema, wanted);
        builder.define(name, schema).expect("the tables are shallow");
    };
    define(&root_name, &root, &mut wanted);
    while let Some(name) = wanted.pop_first() {
        if !defined.insert(name.clone()) {
            continue;
        }
        let schema = match name.strip_prefix(PACKAGE) {
            Some(own_name) => own(schemas, own_name.trim_start_matches('.')),
            None => strip(&schemas.kubernetes[&name]),
        };
        define(&name, &schema, &mut wanted);
    }
    let set = std::sync::Arc::new(builder.finish().expect("every reference was followed"));
    set.named(&root_name).expect("the root was defined first")
}

fn own(schemas: &Schemas, name: &str) -> Value {
    let fields = schemas.fields(name).into_iter();
    let properties: Map<String, Value> = fields.map(|field| (field.name.to_owned(), of_type(field.ty))).collect();
    json!({ "type": "object", "properties": properties })
}

fn of_type(ty: &str) -> Value {
    match shape(ty) {
        Shape::List(item) => json!({ "type": "array", "items": of_type(item) }),
        Shape::Map(item) => json!({ "type": "object", "additionalProperties": of_type(item) }),
        Shape::Own(name) => json!({ "$ref": format!("{PACKAGE}.{name}") }),
        Shape::Kubernetes(name) => json!({ "$ref": name }),
        Shape::Scalar("quantity") => json!({ "$ref": QUANTITY }),
        Shape::Scalar("time") => json!({ "$ref": format!("{META}.v1.Time") }),
        Shape::Scalar(name) => scalar(name),
    }
}

/// A published schema without what only its readers need; shown defaults are none the server sets.
fn strip(schema: &Value) -> Value {
    let mut out = Map::new();
    for (word, value) in schema.as_object().into_iter().flatten() {
        match word.as_str() {
            "properties" => {
                let inner = value.as_object().into_iter().flatten();
                let inner = inner.map(|(name, property)| (name.clone(), strip(property)));
                out.insert(word.clone(), Value::Object(inner.collect()));
            }
            "items" | "additionalProperties" => {
                out.insert(word.clone(), strip(value));
            }
            word if KEPT.contains(&word) => {
                out.insert(word.to_owned(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(out)
}

fn collect_references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|inner| collect_references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_references(inner, found)),
        _ => {}
    }
}
