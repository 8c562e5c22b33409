//! Finds the old value of a part of an object, and whether that part changed.

use crate::schema::Schema;
use serde_json::{Map as JsonMap, Value as Json};
use std::collections::HashMap;

/// Fields of old and new maps correspond if their keys are equal.
pub(super) fn map_is_correlatable(schema: &Schema) -> bool {
    matches!(schema.map_type.as_deref(), None | Some("granular" | "atomic"))
}

/// The old items of a `listType: map` list by their keys; other lists have none.
pub(super) struct FormerItems<'a> {
    keys: &'a [String],
    items: HashMap<String, &'a Json>,
}

impl<'a> FormerItems<'a> {
    pub(super) fn of(schema: &'a Schema, old: Option<&'a Vec<Json>>) -> Self {
        let keys = match schema.list_type.as_deref() {
            Some("map") => schema.list_map_keys.as_slice(),
            _ => &[],
        };
        let mut items = HashMap::new();
        for item in old.into_iter().flatten() {
            if let Some(key) = key_of(keys, item) {
                items.entry(key).or_insert(item);
            }
        }
        Self { keys, items }
    }

    pub(super) fn find(&self, item: &Json) -> Option<&'a Json> {
        self.items.get(&key_of(self.keys, item)?).copied()
    }
}

/// Returns `None` if the list has no keys, or a key is missing or not a scalar.
fn key_of(keys: &[String], item: &Json) -> Option<String> {
    if keys.is_empty() {
        return None;
    }
    let fields = item.as_object()?;
    let mut key = String::new();
    for name in keys {
        match fields.get(name)? {
            scalar @ (Json::Bool(_) | Json::Number(_) | Json::String(_)) => key.push_str(&format!("{scalar}\u{0}")),
            _ => return None,
        }
    }
    Some(key)
}

/// A value with its old value, if they can be correlated.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    new: &'a Json,
    old: &'a Json,
    schema: &'a Schema,
}

/// Decides whether errors are tolerated because nothing changed: in the value itself, or else in the nearest value
/// above it that has an old value.
#[derive(Clone, Copy, Default)]
pub(super) struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    nearest: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    pub(super) fn start(new: &'a Json, old: Option<&'a Json>, schema: &'a Schema) -> Self {
        Self { current: old.map(|old| Pair { new, old, schema }), nearest: None }
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.current.or(self.nearest).is_some_and(Pair::is_unchanged)
    }

    pub(super) fn at_field(&self, name: &str) -> Self {
        let Some(current) = self.current else { return *self };
        // At the root, version and kind are rewritten before validation, so they always look unchanged.
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        Self { current: current.at_field(name), nearest: Some(current) }
    }

    pub(super) fn at_item(&self, item: &'a Json, former: Option<&'a Json>) -> Self {
        let Some(current) = self.current else { return *self };
        let schema = current.schema.items.as_deref();
        let pair = former.zip(schema).map(|(old, schema)| Pair { new: item, old, schema });
        Self { current: pair, nearest: Some(current) }
    }

    /// Errors of `allOf` branches are not tolerated for the value itself, only for values above it.
    pub(super) fn in_all_of(&self) -> Self {
        Self { current: None, nearest: self.nearest }
    }
}

impl<'a> Pair<'a> {
    fn at_field(self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        let property = self.schema.properties.as_ref().and_then(|properties| properties.get(name));
        let schema = property.or(self.schema.additional.as_deref())?;
        Some(Self { new, old, schema })
    }

    fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Json::Array(new), Json::Array(old)) => self.is_unchanged_list(new, old),
            (Json::Object(new), Json::Object(old)) => self.is_unchanged_map(new, old),
            (new, old) => new == old,
        }
    }

    fn is_unchanged_list(self, new: &'a [Json], old: &'a Vec<Json>) -> bool {
        if new.len() != old.len() {
            return false;
        }
        let Some(schema) = self.schema.items.as_deref().filter(|_| self.schema.list_type.as_deref() == Some("map"))
        else {
            return new == old.as_slice();
        };
        let former = FormerItems::of(self.schema, Some(old));
        new.iter().all(|item| former.find(item).is_some_and(|old| Pair { new: item, old, schema }.is_unchanged()))
    }

    fn is_unchanged_map(self, new: &JsonMap<String, Json>, old: &JsonMap<String, Json>) -> bool {
        new.len() == old.len() && new.keys().all(|name| self.at_field(name).is_some_and(Self::is_unchanged))
    }
}
