//! Strategic merge patch: a merge patch that knows from the schema which lists merge by key, with directives for the rest.

mod lists;

use serde_json::{Map, Value};

use super::PatchError;
use super::json::kind_word;
use crate::field::go_value;
use crate::schema::{PatchStrategy, Schema, SchemaRef};

/// `$patch: replace | delete` in a map or list item.
const PATCH: &str = "$patch";
/// `$retainKeys: [...]`: all other keys of the map go.
const RETAIN_KEYS: &str = "$retainKeys";
/// `$deleteFromPrimitiveList/field: [...]`.
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// `$setElementOrder/field: [...]`.
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of a built-in kind. On an error the object may be half patched: work on
/// a copy.
pub fn apply(schema: &Schema, document: &mut Value, patch: Value) -> Result<(), PatchError> {
    PatchError::check_depth(&patch)?;
    let Value::Object(patch) = patch else {
        let word = kind_word(&patch);
        let message = format!("json: cannot unmarshal {word} into Go value of type map[string]interface {{}}");
        return Err(PatchError::BadRequest(message));
    };
    let original = match document.take() {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    *document = Value::Object(merge_map(Some(schema.root()), original, patch)?);
    Ok(())
}

fn merge_map(
    at: Option<SchemaRef<'_>>,
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.get(PATCH) {
        None => {}
        Some(directive) if directive == "replace" => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some(directive) if directive == "delete" => return Ok(Map::new()),
        Some(directive) => return Err(bad_patch_type(directive, &patch)),
    }
    retain_keys(&mut original, &mut patch)?;
    lists::merge_ordered(at, &mut original, &mut patch)?;
    for (key, change) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            Some(rest) => (list_name(rest, "invalid patch format of primitive list")?, true),
            None => (key, false),
        };
        if change.is_null() {
            original.remove(&key);
            continue;
        }
        merge_field(at, &mut original, key, change, deletes)?;
    }
    Ok(original)
}

fn merge_field(
    at: Option<SchemaRef<'_>>,
    original: &mut Map<String, Value>,
    key: String,
    change: Value,
    deletes: bool,
) -> Result<(), PatchError> {
    let below = at.and_then(|at| at.field(&key));
    match (original.remove(&key), change) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let replace = below.is_some_and(|below| below.node().patch.replace);
            let merged = if replace { new } else { merge_map(below, old, new)? };
            original.insert(key, Value::Object(merged));
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            original.insert(key, Value::Array(lists::merge_list(below, old, new, deletes)?));
        }
        (old, _) if deletes => original.extend(old.map(|old| (key, old))),
        (_, new) => {
            // Nothing of the same shape to merge with: the patch is the new value, without what only steers merging.
            original.extend(without_directives(without_nulls(new)).map(|new| (key, new)));
        }
    }
    Ok(())
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Value::Array(retained) = retained else { return Err(malformed()) };
    let keeps = |key: &str| retained.iter().any(|kept| kept == key);
    let steers = |key: &str| key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !steers(key) && !keeps(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| keeps(key));
    Ok(())
}

/// The field of a directive such as `$setElementOrder/containers`.
fn list_name(rest: &str, complaint: &str) -> Result<String, PatchError> {
    let name = rest.strip_prefix('/').filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| PatchError::BadRequest(complaint.to_owned()))
}

fn strategy_of<'a>(at: Option<SchemaRef<'a>>) -> Option<&'a PatchStrategy> {
    at.map(|at| &at.node().patch)
}

/// Removes nulls inside maps, which would delete something where there is nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, inner)| !inner.is_null());
            Value::Object(kept.map(|(key, inner)| (key, without_nulls(inner))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

/// Removes maps that carry a `$patch` directive, at any depth; `None` when the value itself is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(key, inner)| without_directives(inner).map(|inner| (key, inner)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

fn bad_patch_type(directive: &Value, map: &Map<String, Value>) -> PatchError {
    let map = go_value(&Value::Object(map.clone()));
    PatchError::Unexpected(format!("unknown patch type: {} in map: {map}", go_value(directive)))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Unexpected(format!("map: {} does not contain declared merge key: {key}", go_value(item)))
}

#[cfg(test)]
mod tests;
