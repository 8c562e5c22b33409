//! Merges an applied configuration into the live object: the applied side wins, list items meet by their keys.

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type};
use crate::patch::fieldset::PathElement;
use crate::schema::Schema;

/// The live object with the configuration merged in. Nothing is removed here: what an applier dropped goes later.
pub fn merge(schema: &Schema, live: &Value, config: &Value) -> Value {
    merge_at(Type::root(schema), Some(live), Some(config)).unwrap_or(Value::Null)
}

fn merge_at(ty: Type<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let leaf = || config.or(live).cloned();
    match ty.shape(config.or(live)) {
        Shape::Scalar => leaf(),
        Shape::Map(shape) => {
            let (a, b) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            // Two empty maps are one leaf, so that empty and null stay apart.
            if shape.atomic || (a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty)) {
                return leaf();
            }
            merge_maps(shape, a, b)
        }
        Shape::List(shape) => {
            let (a, b) = (items_of(live), items_of(config));
            if shape.keys.is_none() || (a.is_empty() && b.is_empty()) {
                return leaf();
            }
            merge_lists(shape, a, b)
        }
    }
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn merge_maps(
    shape: MapShape<'_>,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
) -> Option<Value> {
    let mut out = Map::new();
    for (key, value) in live.into_iter().flatten() {
        let other = config.and_then(|config| config.get(key));
        let merged = merge_at(shape.field_or_deduced(key), Some(value), other);
        out.extend(merged.map(|merged| (key.clone(), merged)));
    }
    for (key, value) in config.into_iter().flatten() {
        if live.is_none_or(|live| !live.contains_key(key)) {
            let merged = merge_at(shape.field_or_deduced(key), None, Some(value));
            out.extend(merged.map(|merged| (key.clone(), merged)));
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// One side of a list merge: its items with their identities.
struct Side<'v> {
    items: &'v [Value],
    elements: Vec<PathElement>,
}

impl<'v> Side<'v> {
    fn new(shape: ListShape<'_>, items: &'v [Value]) -> Self {
        // Both sides were checked before, so every item has an element; one that has none is left alone as unknown.
        let elements =
            items.iter().enumerate().map(|(i, item)| shape.element(item).unwrap_or(PathElement::Index(i as i64)));
        Self { items, elements: elements.collect() }
    }

    fn has(&self, element: &PathElement) -> bool {
        self.elements.contains(element)
    }

    /// The item with this element; `None` too when it is repeated, because repeated items do not merge.
    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        let mut found = self.elements.iter().zip(self.items).filter(|(other, _)| *other == element);
        let first = found.next().map(|(_, item)| item);
        if found.next().is_some() { None } else { first }
    }
}

/// Keeps the order of the configuration for items both sides have, and weaves the live-only items in between where
/// they stood.
fn merge_lists(shape: ListShape<'_>, live: &[Value], config: &[Value]) -> Option<Value> {
    let (live, config) = (Side::new(shape, live), Side::new(shape, config));
    let mut shared = config.elements.iter().filter(|element| live.has(element));
    let mut next_shared = shared.next();
    let mut merged: Vec<&PathElement> = Vec::new();
    let mut out = Vec::with_capacity(live.items.len().max(config.items.len()));
    let (mut l, mut r) = (0, 0);
    while l < live.items.len() || r < config.items.len() {
        if l < live.items.len() && r < config.items.len() {
            let element = &live.elements[l];
            if *element == config.elements[r] {
                merged.push(element);
                out.extend(merge_at(shape.items, live.get(element), config.get(element)));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if config.has(element) && next_shared.is_some_and(|next| next != element) {
                // A shared item, but not the one whose turn it is: the configuration's order rules.
                l += 1;
                continue;
            }
        }
        if l < live.items.len() {
            let element = &live.elements[l];
            if !config.has(element) {
                out.extend(merge_at(shape.items, Some(&live.items[l]), None));
                l += 1;
                continue;
            }
            if merged.contains(&element) {
                l += 1;
            }
        }
        if r < config.items.len() {
            let element = &config.elements[r];
            merged.push(element);
            out.extend(merge_at(shape.items, live.get(element), config.get(element)));
            r += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}
