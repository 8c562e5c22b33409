//! Encodes JSON trees as messages like Go's generated code, including zero values, in the order of field numbers.

use serde_json::{Map, Value};

use super::table::{Field, MessageId, MessageTable, Shape, Type};
use super::{DEPTH_MAX, ProtobufError, scalar, wire};

pub fn write(
    table: &MessageTable,
    message: MessageId,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    Writer { table }.message(message, object, out, 0)
}

/// Every list message has its metadata under 1 and its items under 2.
pub fn write_list<'a>(
    table: &MessageTable,
    message: MessageId,
    metadata: &Value,
    mut items: impl Iterator<Item = &'a Map<String, Value>>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let writer = Writer { table };
    let no_list = || ProtobufError::Mismatch { field: "items", found: "an object" };
    let (head, list) = table.field(message, 1).zip(table.field(message, 2)).ok_or_else(no_list)?;
    let (Shape::List, Type::Message(item)) = (list.shape, list.ty) else { return Err(no_list()) };
    writer.value(head.ty, head.name, head.number, metadata, out, 0)?;
    items.try_for_each(|object| wire::write_nested(out, list.number, |out| writer.message(item, object, out, 1)))
}

pub struct Writer<'t> {
    pub table: &'t MessageTable,
}

impl Writer<'_> {
    fn message(
        &self,
        message: MessageId,
        object: &Map<String, Value>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth >= DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        self.table.fields(message).iter().try_for_each(|field| self.field(field, object, out, depth))
    }

    fn field(
        &self,
        field: &Field,
        object: &Map<String, Value>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let Field { name, number, ty, .. } = *field;
        if let (Shape::Embedded, Type::Message(inner)) = (field.shape, ty) {
            return wire::write_nested(out, number, |out| self.message(inner, object, out, depth + 1));
        }
        let value = object.get(name).filter(|value| !value.is_null());
        match (field.shape, value) {
            (Shape::List, Some(Value::Array(items))) => {
                items.iter().try_for_each(|item| self.value(ty, name, number, item, out, depth))
            }
            (Shape::Map, Some(Value::Object(entries))) => entries.iter().try_for_each(|(key, value)| {
                wire::write_nested(out, number, |out| {
                    wire::write_bytes(out, 1, key.as_bytes());
                    self.value(ty, name, 2, value, out, depth)
                })
            }),
            (Shape::List | Shape::Map, Some(value)) => {
                Err(ProtobufError::Mismatch { field: name, found: scalar::found(value) })
            }
            (_, Some(value)) => self.value(ty, name, number, value, out, depth),
            (Shape::Plain, None) => match ty {
                Type::Message(inner) => {
                    wire::write_nested(out, number, |out| self.message(inner, &Map::new(), out, depth + 1))
                }
                _ => {
                    scalar::write_zero(ty, number, out);
                    Ok(())
                }
            },
            (_, None) => Ok(()),
        }
    }

    /// One value under its number. A null among list elements or map values is that type's zero.
    pub fn value(
        &self,
        ty: Type,
        name: &'static str,
        number: u32,
        value: &Value,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        match (ty, value) {
            (Type::Message(message), Value::Object(object)) => {
                wire::write_nested(out, number, |out| self.message(message, object, out, depth + 1))
            }
            (Type::Message(message), Value::Null) => {
                wire::write_nested(out, number, |out| self.message(message, &Map::new(), out, depth + 1))
            }
            (Type::SchemaOrList | Type::SchemaOrBool | Type::SchemaOrTexts, value) => {
                wire::write_nested(out, number, |out| self.schema_or(ty, name, value, out, depth))
            }
            (Type::Texts, Value::Null) => {
                wire::write_bytes(out, number, b"");
                Ok(())
            }
            (_, Value::Null) => {
                scalar::write_zero(ty, number, out);
                Ok(())
            }
            _ => scalar::write(ty, name, number, value, out),
        }
    }
}
