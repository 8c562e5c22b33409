//! Lists whose items have an identity (`x-kubernetes-list-type` set and map): keys, and the search for duplicates.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{ListType, SchemaRef};
use crate::field::{FieldError, FieldPath};

/// One error per item of a set or keyed list that repeats an earlier one.
pub(super) fn duplicates(at: SchemaRef<'_>, value: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    collect(at, value, path, &mut errors);
    errors
}

/// The fields that identify an item of a keyed list.
pub(super) fn map_key(keys: &[String], item: &Value) -> Value {
    let present = |key: &String| item.get(key).map(|value| (key.clone(), value.clone()));
    Value::Object(keys.iter().filter_map(present).collect::<Map<_, _>>())
}

pub(super) fn has_duplicates(items: &[Value]) -> bool {
    !repeated(items.iter()).is_empty()
}

fn collect(at: SchemaRef<'_>, value: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter().filter(|(_, inner)| inner.is_array() || inner.is_object()) {
                if let Some(below) = at.property(key) {
                    collect(below, inner, &path.child(key), errors);
                } else if let Some(below) = at.additional() {
                    collect(below, inner, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            check_items(at, items, path, errors);
            let Some(below) = at.items() else { return };
            for (index, item) in items.iter().enumerate() {
                if item.is_array() || item.is_object() {
                    collect(below, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_items(at: SchemaRef<'_>, items: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    match &at.node().list_type {
        ListType::Atomic => {}
        ListType::Set => {
            for index in repeated(items.iter()) {
                errors.push(FieldError::duplicate(path.index(index), items[index].clone()));
            }
        }
        ListType::Map(keys) => {
            if let Some((index, item)) = items.iter().enumerate().find(|(_, i)| !i.is_object() && !i.is_null()) {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(path.index(index), item.clone(), detail));
                return;
            }
            let identities: Vec<Value> = items.iter().map(|item| map_key(keys, item)).collect();
            for index in repeated(identities.iter()) {
                errors.push(FieldError::duplicate(path.index(index), identities[index].clone()));
            }
        }
    }
}

/// The index of the second occurrence of each repeated value; later ones are not reported again.
fn repeated<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> Vec<usize> {
    if values.len() < 2 {
        return Vec::new();
    }
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(values.len());
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
