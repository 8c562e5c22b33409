//! Finds the stored counterpart of a value in an update, so that existing errors do not block writes.

use serde_json::Value;

use crate::schema::{ListType, SchemaRef, list};

/// The previous value at this position, and the schema to compare it with.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    pub value: &'a Value,
    pub shape: SchemaRef<'a>,
}

impl<'a> Old<'a> {
    pub fn field(self, name: &str) -> Option<Old<'a>> {
        Some(Old { value: self.value.get(name)?, shape: self.shape.field(name)? })
    }

    /// The old item with the same keys. Items of atomic lists and sets have no identity, so they have none.
    pub fn item(self, item: &Value) -> Option<Old<'a>> {
        let ListType::Map(keys) = &self.shape.node().list_type else { return None };
        let wanted = list::map_key(keys, item);
        let value = self.value.as_array()?.iter().find(|old| list::map_key(keys, old) == wanted)?;
        Some(Old { value, shape: self.shape.items()? })
    }

    pub fn is_unchanged(self, value: &Value) -> bool {
        match (self.value, value) {
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new.iter().all(|(name, new)| self.field(name).is_some_and(|old| old.is_unchanged(new)))
            }
            (Value::Array(old), Value::Array(new)) if matches!(self.shape.node().list_type, ListType::Map(_)) => {
                old.len() == new.len() && new.iter().all(|new| self.item(new).is_some_and(|old| old.is_unchanged(new)))
            }
            (old, new) => old == new,
        }
    }
}
