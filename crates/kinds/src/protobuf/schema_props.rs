//! The three types of a CustomResourceDefinition's schema that are either a schema or a simpler value.

use serde_json::{Map, Value};

use super::read::Reader;
use super::table::Type;
use super::wire::{self, Fields, Item};
use super::write::Writer;
use super::{ProtobufError, scalar};

impl Reader<'_> {
    pub fn schema_or(&mut self, ty: Type, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
        let (mut schema, mut others, mut allows) = (None, Vec::new(), false);
        let schema_number = if ty == Type::SchemaOrBool { 2 } else { 1 };
        let mut fields = Fields::of(bytes);
        while let Some((number, item)) = fields.next()? {
            match item {
                Item::Varint(value) if ty == Type::SchemaOrBool && number == 1 => allows = value != 0,
                Item::Bytes(bytes) if number == schema_number => schema = Some(self.schema(bytes, depth)?),
                Item::Bytes(bytes) if number == 2 && ty == Type::SchemaOrList => {
                    others.push(self.schema(bytes, depth)?)
                }
                Item::Bytes(bytes) if number == 2 => others.push(String::from_utf8_lossy(bytes).into()),
                _ => {}
            }
        }
        Ok(match schema {
            _ if !others.is_empty() => Value::Array(others),
            Some(schema) => schema,
            None if ty == Type::SchemaOrBool => allows.into(),
            None => Value::Null,
        })
    }

    fn schema(&mut self, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
        let mut schema = Map::new();
        self.message(self.table.schema_props(), bytes, &mut schema, depth + 1)?;
        Ok(Value::Object(schema))
    }
}

impl Writer<'_> {
    pub fn schema_or(
        &self,
        ty: Type,
        name: &'static str,
        value: &Value,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let message = Type::Message(self.table.schema_props());
        match (ty, value) {
            (Type::SchemaOrBool, Value::Bool(allows)) => wire::write_number(out, 1, u64::from(*allows)),
            (Type::SchemaOrBool, Value::Object(_)) => {
                wire::write_number(out, 1, 1);
                self.value(message, name, 2, value, out, depth)?;
            }
            (Type::SchemaOrList | Type::SchemaOrTexts, Value::Object(_)) => {
                self.value(message, name, 1, value, out, depth)?;
            }
            (Type::SchemaOrList | Type::SchemaOrTexts, Value::Array(items)) => {
                let element = if ty == Type::SchemaOrList { message } else { Type::Text };
                for item in items {
                    self.value(element, name, 2, item, out, depth)?;
                }
            }
            (Type::SchemaOrList | Type::SchemaOrTexts, Value::Null) => {}
            _ => return Err(ProtobufError::Mismatch { field: name, found: scalar::found(value) }),
        }
        Ok(())
    }
}
