//! Removes a set of fields from an object, or keeps only them.

use serde_json::{Map, Value};

use super::{Shape, Type};
use crate::patch::fieldset::{PathElement, Set};
use crate::schema::Schema;

/// The object without the given fields and items. A list or map that loses its last item becomes null.
pub fn remove_items(schema: &Schema, value: &Value, set: &Set) -> Value {
    if set.is_empty() { value.clone() } else { remove_at(Type::root(schema), value, set) }
}

/// Only the given fields and items of the object.
pub fn extract_items(schema: &Schema, value: &Value, set: &Set) -> Value {
    extract_at(Type::root(schema), value, set)
}

fn remove_at(ty: Type<'_>, value: &Value, set: &Set) -> Value {
    match ty.shape(Some(value)) {
        Shape::Scalar => value.clone(),
        Shape::Map(shape) => {
            let Some(map) = value.as_object().filter(|_| !shape.atomic) else { return Value::Null };
            let mut out = Map::new();
            for (key, inner) in map {
                let element = PathElement::field(key);
                if set.has(&element) {
                    continue;
                }
                let kept = match set.below(&element) {
                    Some(below) => remove_at(shape.field_or_deduced(key), inner, below),
                    None => inner.clone(),
                };
                out.insert(key.clone(), kept);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        Shape::List(shape) => {
            let Some(items) = value.as_array().filter(|_| shape.keys.is_some()) else { return Value::Null };
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                let Ok(element) = shape.element(item) else {
                    out.push(item.clone());
                    continue;
                };
                match set.below(&element) {
                    _ if set.has(&element) => {}
                    Some(below) => out.push(remove_at(shape.items, item, below)),
                    None => out.push(item.clone()),
                }
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
    }
}

fn extract_at(ty: Type<'_>, value: &Value, set: &Set) -> Value {
    match ty.shape(Some(value)) {
        Shape::Scalar => value.clone(),
        Shape::Map(shape) => {
            let Some(map) = value.as_object().filter(|map| !shape.atomic && !map.is_empty()) else {
                return value.clone();
            };
            let mut out = Map::new();
            for (key, inner) in map {
                let element = PathElement::field(key);
                match set.below(&element) {
                    Some(below) => {
                        out.insert(key.clone(), extract_at(shape.field_or_deduced(key), inner, below));
                    }
                    None if set.has(&element) => {
                        out.insert(key.clone(), inner.clone());
                    }
                    None => {}
                }
            }
            Value::Object(out)
        }
        Shape::List(shape) => {
            let Some(items) = value.as_array().filter(|_| shape.keys.is_some()) else { return value.clone() };
            let kept = items.iter().filter_map(|item| {
                let element = shape.element(item).ok()?;
                match set.below(&element) {
                    Some(below) => Some(extract_at(shape.items, item, below)),
                    None => set.has(&element).then(|| item.clone()),
                }
            });
            Value::Array(kept.collect())
        }
    }
}
