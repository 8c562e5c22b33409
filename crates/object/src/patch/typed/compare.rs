//! Compares two versions of an object; the changes are sets of paths.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type};
use crate::patch::fieldset::{PathElement, Set, Slot, values_equal};
use crate::schema::Schema;

/// The difference between two objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub added: Set,
    pub modified: Set,
    pub removed: Set,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The comparison without the given fields and all below them.
    #[must_use]
    pub fn without(self, fields: &Set) -> Self {
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }
}

/// Compares two versions of an object.
pub fn compare(schema: &Schema, old: &Map<String, Value>, new: &Map<String, Value>) -> Comparison {
    let mut change = Change::default();
    if let Shape::Map(shape) = Type::root(schema).shape(None) {
        compare_maps(shape, Some(old), Some(new), &mut change);
    }
    Comparison { added: change.added.children, modified: change.modified.children, removed: change.removed.children }
}

/// The change at one path and below it; paths are only built where something changed.
#[derive(Default)]
struct Change {
    added: Slot,
    modified: Slot,
    removed: Slot,
}

impl Change {
    fn add_child(&mut self, child: Change, element: impl Fn() -> PathElement) {
        for (slot, below) in
            [(&mut self.added, child.added), (&mut self.modified, child.modified), (&mut self.removed, child.removed)]
        {
            if !below.is_empty() {
                slot.add_child(element(), below);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !values_equal(old, new),
        }
    }
}

fn compare_at(ty: Type<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Change) {
    if let (Some(a), Some(b)) = (old, new)
        && !ty.same_shape(a, b)
    {
        compare_as(ty.shape(old), old, new, out);
    }
    let was_leaf = compare_as(ty.shape(new.or(old)), old, new, out);
    if !was_leaf {
        out.added.member |= old.is_none();
        out.removed.member |= new.is_none();
    }
}

/// True when the place is one leaf.
fn compare_as(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Change) -> bool {
    match shape {
        Shape::Scalar => out.leaf(old, new),
        Shape::Map(shape) => {
            let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            // Two empty maps are one leaf, so that empty and null stay apart.
            let both_empty = a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty);
            if !shape.atomic && !both_empty {
                compare_maps(shape, a, b, out);
                return false;
            }
            out.leaf(old, new);
        }
        Shape::List(shape) => {
            let (a, b) = (items_of(old), items_of(new));
            if shape.keys.is_some() && !(a.is_empty() && b.is_empty()) {
                compare_lists(shape, a, b, out);
                return false;
            }
            out.leaf(old, new);
        }
    }
    true
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn compare_maps(
    shape: MapShape<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    out: &mut Change,
) {
    let mut visit = |key: &str, a: Option<&Value>, b: Option<&Value>| {
        let mut child = Change::default();
        compare_at(shape.field_or_deduced(key), a, b, &mut child);
        out.add_child(child, || PathElement::field(key));
    };
    let (Some(old), Some(new)) = (old, new) else {
        for (key, value) in old.into_iter().flatten() {
            visit(key, Some(value), None);
        }
        for (key, value) in new.into_iter().flatten() {
            visit(key, None, Some(value));
        }
        return;
    };
    // Both maps are sorted, so one pass in step meets every key once.
    let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some((a, _)), Some((b, _))) if a == b => {
                if let (Some((key, a)), Some((_, b))) = (left.next(), right.next()) {
                    visit(key, Some(a), Some(b));
                }
            }
            (Some((a, _)), b) if b.is_none_or(|(b, _)| a < b) => {
                left.next().into_iter().for_each(|(key, value)| visit(key, Some(value), None));
            }
            _ => right.next().into_iter().for_each(|(key, value)| visit(key, None, Some(value))),
        }
    }
}

fn compare_lists(shape: ListShape<'_>, old: &[Value], new: &[Value], out: &mut Change) {
    if old == new {
        return;
    }
    let mut found: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        if let Ok(element) = shape.element(item) {
            found.entry(element).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(element) = shape.element(item) {
            found.entry(element).or_default().1.push(item);
        }
    }
    for (element, (old, new)) in found {
        let mut child = Change::default();
        match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => compare_at(shape.items, old.first().copied(), new.first().copied(), &mut child),
            // Repeated items have no identity of their own: together they are one leaf.
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(&new).all(|(a, b)| values_equal(a, b));
                child.modified.member = !same;
            }
            ([_, _, ..], single) => {
                single.first().into_iter().for_each(|item| compare_at(shape.items, None, Some(item), &mut child));
                child.removed.member = true;
            }
            (single, _) => {
                single.first().into_iter().for_each(|item| compare_at(shape.items, Some(item), None, &mut child));
                child.added.member = true;
            }
        }
        out.add_child(child, || element.clone());
    }
}
