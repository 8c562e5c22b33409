//! The set of fields of an object, and the migration of stored sets when schemas change.

use serde_json::Value;

use super::{Shape, Type};
use crate::patch::fieldset::{PathElement, Set, Slot};
use crate::schema::Schema;

/// Every leaf of the object, list item and open map item: the claim of its applier.
pub fn to_field_set(schema: &Schema, value: &Value) -> Set {
    let mut slot = Slot::default();
    collect(Type::root(schema), value, &mut slot);
    slot.children
}

fn collect(ty: Type<'_>, value: &Value, out: &mut Slot) {
    match ty.shape(Some(value)) {
        Shape::Scalar => out.member = true,
        Shape::Map(shape) if shape.atomic => out.member = true,
        Shape::Map(shape) => {
            for (key, inner) in value.as_object().into_iter().flatten() {
                let mut child = Slot::default();
                collect(shape.field_or_deduced(key), inner, &mut child);
                let empty = inner.is_null() || inner.as_object().is_some_and(serde_json::Map::is_empty);
                child.member |= empty || !shape.declares(key);
                out.add_child(PathElement::field(key), child);
            }
        }
        Shape::List(shape) if shape.keys.is_none() => out.member = true,
        Shape::List(shape) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let elements: Vec<Option<PathElement>> = items.iter().map(|item| shape.element(item).ok()).collect();
            for (item, element) in items.iter().zip(&elements) {
                let Some(element) = element else { continue };
                let mut child = Slot { member: true, children: Set::default() };
                // Duplicate items are owned as one, without their fields.
                if elements.iter().filter(|other| other.as_ref() == Some(element)).nth(1).is_none() {
                    collect(shape.items, item, &mut child);
                    child.member = true;
                }
                out.add_child(element.clone(), child);
            }
        }
    }
}

/// Makes struct fields with members below them members too, so that removing their whole content removes them.
pub fn named_fields_as_members(schema: &Schema, set: &Set) -> Set {
    with_named_fields(Some(Type::root(schema)), set)
}

fn with_named_fields(ty: Option<Type<'_>>, set: &Set) -> Set {
    set.map_entries(|element, member, children| {
        let (named, below) = match (ty.map(|ty| ty.shape(sample(element))), element) {
            (Some(Shape::Map(shape)), PathElement::Field(name)) => (shape.declares(name), shape.field(name)),
            (Some(Shape::List(shape)), PathElement::Key(_)) => (false, Some(shape.items)),
            _ => (false, None),
        };
        (member || (named && !children.is_empty()), with_named_fields(below, children))
    })
}

/// Rewrites a stored set for a schema in which a list or map has become atomic; `None` if nothing changes.
pub fn reconcile_with_schema(schema: &Schema, set: &Set) -> Option<Set> {
    needs_reconcile(Type::root(schema), set).then(|| reconcile(Type::root(schema), set))
}

fn needs_reconcile(ty: Type<'_>, set: &Set) -> bool {
    set.elements().any(|element| {
        let (Some(below), Some(children)) = (type_below(ty, element), set.below(element)) else { return false };
        is_atomic(below) || needs_reconcile(below, children)
    })
}

fn reconcile(ty: Type<'_>, set: &Set) -> Set {
    set.map_entries(|element, member, children| match type_below(ty, element) {
        Some(below) if is_atomic(below) && !children.is_empty() => (true, Set::default()),
        Some(below) => (member, reconcile(below, children)),
        None => (member, children.clone()),
    })
}

fn is_atomic(ty: Type<'_>) -> bool {
    match ty.shape(None) {
        Shape::Map(shape) => shape.atomic && !shape.is_deduced(),
        Shape::List(shape) => shape.keys.is_none(),
        Shape::Scalar => false,
    }
}

fn type_below<'a>(ty: Type<'a>, element: &PathElement) -> Option<Type<'a>> {
    match (ty.shape(sample(element)), element) {
        (Shape::Map(shape), PathElement::Field(name)) if !shape.is_deduced() => shape.field(name),
        (Shape::List(shape), PathElement::Key(_) | PathElement::Value(_)) => Some(shape.items),
        _ => None,
    }
}

/// A value of the kind an element leads into, to pick the shape at a position that allows several.
fn sample(element: &PathElement) -> Option<&'static Value> {
    static LIST: Value = Value::Array(Vec::new());
    match element {
        PathElement::Field(_) => None,
        _ => Some(&LIST),
    }
}
