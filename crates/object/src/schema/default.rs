//! Applies the defaults a schema declares, as kube-apiserver does for custom resources.

use serde_json::Value;

use super::{Schema, SchemaRef, SchemaType};

/// Sets each absent property that has a default, and each null that is not nullable, recursively. Idempotent.
pub fn apply_defaults(schema: &Schema, value: &mut Value) {
    default_at(schema.root(), value);
}

/// Sets the fields Go always writes for a built-in kind: empty structs and zeros.
pub fn fill_zeros(schema: &Schema, value: &mut Value) {
    fill_zeros_at(schema.root(), value);
}

fn fill_zeros_at(at: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in at.properties() {
                if let Some(zero) = zero_of(at, name, property)
                    && !map.contains_key(name)
                {
                    map.insert(name.to_owned(), zero);
                }
            }
            for (name, inner) in map.iter_mut().filter(|(_, inner)| inner.is_object() || inner.is_array()) {
                if let Some(below) = at.field(name) {
                    fill_zeros_at(below, inner);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = at.items() else { return };
            items.iter_mut().for_each(|item| fill_zeros_at(below, item));
        }
        _ => {}
    }
}

/// A required list or map that is missing is written as null.
fn zero_of(at: SchemaRef<'_>, name: &str, property: SchemaRef<'_>) -> Option<Value> {
    let node = property.node();
    if let Some(zero) = &node.zero {
        return Some((**zero).clone());
    }
    let is_list_or_map = node.ty == SchemaType::Array || node.additional.is_some();
    (is_list_or_map && at.node().required.iter().any(|required| **required == *name)).then_some(Value::Null)
}

fn default_at(at: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in at.properties() {
                let Some(default) = &property.node().default else { continue };
                if map.get(name).is_none_or(|present| is_forbidden_null(property, present)) {
                    map.insert(name.to_owned(), (**default).clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                let Some(below) = at.field(name) else { continue };
                default_null(below, inner);
                default_at(below, inner);
            }
        }
        Value::Array(items) => {
            let Some(below) = at.items() else { return };
            for item in items {
                default_null(below, item);
                default_at(below, item);
            }
        }
        _ => {}
    }
}

fn default_null(at: SchemaRef<'_>, value: &mut Value) {
    if let (true, Some(default)) = (is_forbidden_null(at, value), &at.node().default) {
        *value = (**default).clone();
    }
}

fn is_forbidden_null(at: SchemaRef<'_>, value: &Value) -> bool {
    value.is_null() && !at.node().nullable
}
