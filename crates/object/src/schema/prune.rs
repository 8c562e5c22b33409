//! Walks that drop or report undeclared content: unknown fields, and nulls that mean "absent".

use std::fmt::Write;

use serde_json::Value;

use super::{Schema, SchemaNode, SchemaRef, SchemaType};

/// Unknown fields beyond this many are removed without being reported, so that a report takes little memory.
pub(super) const UNKNOWN_REPORTED_MAX: usize = 100;

/// Removes fields the schema does not declare and returns their paths, sorted.
///
/// `apiVersion`, `kind` and `metadata` of the root and of embedded resources stay unless the schema describes them by
/// a definition (as built-in kinds do); a CRD may narrow `metadata` but never defines its shape.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(schema.root(), value, true);
    pruner.finish()
}

/// The paths `prune` would remove, worded as in `fieldValidation`: `unknown field "spec.foo"`.
pub fn unknown_fields(schema: &Schema, value: &Value) -> Vec<String> {
    let mut finder = Pruner::default();
    finder.find(schema.root(), value, true);
    finder.finish().into_iter().map(|path| format!("unknown field {}", crate::field::go_quote(&path))).collect()
}

/// Removes every null of a built-in kind: Go's decoder leaves the field at its zero value, so null means absent.
/// Nulls in free-form fields (`RawExtension`, JSON) are data and stay.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    drop_nulls_at(schema.root(), value);
}

/// Removes nulls that a custom resource may not hold and that no default replaces.
pub fn drop_forbidden_nulls(schema: &Schema, value: &mut Value) {
    drop_forbidden_nulls_at(Some(schema.root()), value);
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn finish(mut self) -> Vec<String> {
        self.unknown.sort();
        self.unknown
    }

    fn prune(&mut self, at: SchemaRef<'_>, value: &mut Value, root: bool) {
        let keep = keeps_unknown(at.node());
        match value {
            Value::Object(map) => map.retain(|key, inner| {
                let Some(below) = enter(at, key, root) else { return self.known(key, root, at, keep) };
                let length = self.push_key(key);
                self.prune(below, inner, false);
                self.path.truncate(length);
                true
            }),
            Value::Array(items) => {
                let Some(below) = at.items() else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.push_index(index);
                    self.prune(below, item, false);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn find(&mut self, at: SchemaRef<'_>, value: &Value, root: bool) {
        let keep = keeps_unknown(at.node());
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let Some(below) = enter(at, key, root) else {
                        self.known(key, root, at, keep);
                        continue;
                    };
                    let length = self.push_key(key);
                    self.find(below, inner, false);
                    self.path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(below) = at.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    let length = self.push_index(index);
                    self.find(below, item, false);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Returns whether a leaf field stays; a removed one is recorded.
    fn known(&mut self, key: &str, root: bool, at: SchemaRef<'_>, keep: bool) -> bool {
        if keep || is_envelope(at, key, root) {
            return true;
        }
        if self.unknown.len() < UNKNOWN_REPORTED_MAX {
            let length = self.push_key(key);
            self.unknown.push(self.path.clone());
            self.path.truncate(length);
        }
        false
    }

    fn push_key(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }

    fn push_index(&mut self, index: usize) -> usize {
        let length = self.path.len();
        write!(self.path, "[{index}]").expect("writing to a string");
        length
    }
}

/// The schema to walk a field with; `None` if the field is not walked.
fn enter<'a>(at: SchemaRef<'a>, key: &str, root: bool) -> Option<SchemaRef<'a>> {
    let below = at.field(key)?;
    (!is_envelope(at, key, root) || below.node().definition.is_some()).then_some(below)
}

fn is_envelope(at: SchemaRef<'_>, key: &str, root: bool) -> bool {
    (root || at.node().embedded) && matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Reports whether undeclared fields are data. In built-in definitions an object without properties is free-form
/// (`RawExtension`, `FieldsV1`); in a CRD it is an object without fields.
fn keeps_unknown(node: &SchemaNode) -> bool {
    node.preserve_unknown
        || (node.definition.is_some()
            && matches!(node.ty, SchemaType::Object | SchemaType::Any)
            && node.properties.is_empty()
            && node.additional.is_none())
}

fn drop_nulls_at(at: SchemaRef<'_>, value: &mut Value) {
    if keeps_unknown(at.node()) {
        return;
    }
    match value {
        Value::Object(map) => map.retain(|key, inner| {
            if !inner.is_null() {
                at.field(key).into_iter().for_each(|below| drop_nulls_at(below, inner));
                return true;
            }
            if at.property(key).is_some() {
                return false;
            }
            // A null map value is the zero value of its type under that key. An unknown field stays, to be reported.
            if let Some(below) = at.additional() {
                *inner = zero_value(below);
            }
            true
        }),
        Value::Array(items) => {
            let Some(below) = at.items() else { return };
            for item in items {
                drop_nulls_at(below, item);
            }
        }
        _ => {}
    }
}

/// The value Go's decoder stores for a null map value.
fn zero_value(at: SchemaRef<'_>) -> Value {
    match at.ty() {
        SchemaType::String => Value::from(""),
        SchemaType::Integer | SchemaType::Number => Value::from(0),
        SchemaType::Boolean => Value::from(false),
        _ => Value::Null,
    }
}

fn drop_forbidden_nulls_at(at: Option<SchemaRef<'_>>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, inner| {
            let below = at.and_then(|at| at.field(key));
            if inner.is_null() {
                return below.is_none_or(|below| below.node().nullable || below.node().default.is_some());
            }
            drop_forbidden_nulls_at(below, inner);
            true
        }),
        Value::Array(items) => {
            let below = at.and_then(SchemaRef::items);
            items.iter_mut().for_each(|item| drop_forbidden_nulls_at(below, item));
        }
        _ => {}
    }
}
