//! Finds the parts of a value that its schema merges only as a whole.

use serde_json::Value;

use super::{Shape, Type};
use crate::schema::Schema;

/// The paths of all lists and maps in `value` that are one leaf.
pub fn atomic_fields(schema: &Schema, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(Type::root(schema), value, &mut String::new(), &mut found);
    found
}

fn visit(ty: Type<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (ty.shape(Some(value)), value) {
        (Shape::Map(shape), Value::Object(map)) => {
            if shape.atomic {
                found.push(path.clone());
            }
            for (key, inner) in map.iter().filter(|(key, _)| shape.declares(key)) {
                path.push('.');
                path.push_str(key);
                visit(shape.field_or_deduced(key), inner, path, found);
                path.truncate(length);
            }
        }
        (Shape::List(shape), Value::Array(items)) => {
            if shape.keys.is_none() {
                found.push(path.clone());
            }
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                visit(shape.items, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
