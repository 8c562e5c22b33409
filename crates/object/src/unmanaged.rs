//! Decodes the tree of an object, skipping its managedFields.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

pub fn read<'de, D: Deserializer<'de>>(source: D) -> Result<Map<String, Value>, D::Error> {
    source.deserialize_map(Fields::Root)
}

/// A map of the object in which a key is skipped.
#[derive(Clone, Copy)]
enum Fields {
    Root,
    Metadata,
}

impl<'de> Visitor<'de> for Fields {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            match (self, name.as_str()) {
                (Self::Root, "metadata") => {
                    let metadata = fields.next_value_seed(Metadata)?;
                    read.insert(name, metadata);
                }
                (Self::Metadata, "managedFields") => drop(fields.next_value::<IgnoredAny>()?),
                _ => drop(read.insert(name, fields.next_value()?)),
            }
        }
        Ok(read)
    }
}

struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_map(Fields::Metadata).map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Object;

    #[track_caller]
    fn check(stored: serde_json::Value, expected: Option<serde_json::Value>) {
        let read = Object::decode_unmanaged(stored.to_string().as_bytes()).ok().map(Object::into_value);
        assert_eq!(read, expected);
    }

    #[test]
    fn managed_fields_are_skipped_and_all_else_is_kept() {
        let managed = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
        let cases = [
            (
                json!({"kind": "A", "metadata": {"name": "x", "managedFields": managed, "labels": {"managedFields": "no"}}}),
                Some(json!({"kind": "A", "metadata": {"name": "x", "labels": {"managedFields": "no"}}})),
            ),
            (
                json!({"metadata": {}, "spec": {"metadata": {"managedFields": managed}}}),
                Some(json!({"metadata": {}, "spec": {"metadata": {"managedFields": managed}}})),
            ),
            (json!({"spec": [1, 2.5, null, true]}), Some(json!({"spec": [1, 2.5, null, true]}))),
            (json!({"metadata": "text"}), None),
            (json!([]), None),
        ];
        for (stored, expected) in cases {
            check(stored, expected);
        }
        assert!(Object::decode_unmanaged(b"{} {}").is_err());
    }
}
