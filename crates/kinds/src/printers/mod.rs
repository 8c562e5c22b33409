//! Which columns each kind shows; a kind without columns of its own shows its name and age.

use std::sync::Arc;

use object::{GroupVersionKind, Object};
use serde_json::{Value, json};

use crate::kind::{Column, Printer};

/// The columns of a kind that has none of its own.
pub struct Plain;

impl Printer for Plain {
    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, ty: &str, format: &str| Column {
            name: name.to_owned(),
            ty: ty.to_owned(),
            format: format.to_owned(),
            description: String::new(),
            priority: 0,
        };
        vec![column("Name", "string", "name"), column("Created At", "date", "")]
    }

    fn cells(&self, object: &Object, _now: jiff::Timestamp) -> Vec<Value> {
        let read = |key: &str| object.get(&["metadata", key]).cloned().unwrap_or_else(|| json!(""));
        vec![read("name"), read("creationTimestamp")]
    }
}

pub fn for_kind(_gvk: &GroupVersionKind) -> Arc<dyn Printer> {
    Arc::new(Plain)
}
