//! Decodes messages to JSON trees, showing or omitting zero values like Go's JSON encoder.

use serde_json::{Map, Value};

use super::table::{Field, MessageId, MessageTable, Shape, Type, Zero};
use super::wire::{Fields, Item};
use super::{DEPTH_MAX, ProtobufError, scalar};

/// An empty list element takes two bytes on the wire and a whole tree in memory; no legitimate body comes close to
/// this.
const VALUES_MAX: usize = 1_000_000;

pub fn read(table: &MessageTable, message: MessageId, bytes: &[u8]) -> Result<Map<String, Value>, ProtobufError> {
    let mut reader = Reader { table, values_left: VALUES_MAX };
    let mut object = Map::new();
    reader.message(message, bytes, &mut object, 0)?;
    Ok(object)
}

pub struct Reader<'t> {
    pub table: &'t MessageTable,
    values_left: usize,
}

impl Reader<'_> {
    /// Merges a message into a map; repeated messages are merged by protobuf's rules.
    pub fn message(
        &mut self,
        message: MessageId,
        bytes: &[u8],
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth >= DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        let mut items = Fields::of(bytes);
        while let Some((number, item)) = items.next()? {
            // Unknown fields are skipped, as in generated code.
            if let Some(field) = self.table.field(message, number).copied() {
                self.count()?;
                self.field(&field, item, out, depth)?;
            }
        }
        self.fill(message, out)
    }

    fn field(
        &mut self,
        field: &Field,
        item: Item<'_>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        match (field.shape, field.ty) {
            (Shape::Embedded, Type::Message(message)) => {
                self.message(message, bytes_of(field, item)?, out, depth + 1)?
            }
            (Shape::List, _) => {
                if !matches!(out.get(field.name), Some(Value::Array(_))) {
                    out.insert(field.name.to_owned(), Value::Array(Vec::new()));
                }
                if let Some(Value::Array(list)) = out.get_mut(field.name) {
                    self.elements(field, item, list, depth)?;
                }
            }
            (Shape::Map, _) => {
                let (key, value) = self.entry(field, bytes_of(field, item)?, depth)?;
                if !matches!(out.get(field.name), Some(Value::Object(_))) {
                    out.insert(field.name.to_owned(), Value::Object(Map::new()));
                }
                if let Some(Value::Object(map)) = out.get_mut(field.name) {
                    map.insert(key, value);
                }
            }
            (_, Type::Message(message)) => {
                let bytes = bytes_of(field, item)?;
                let known = out.remove(field.name);
                let mut inner = if let Some(Value::Object(known)) = known { known } else { Map::new() };
                self.message(message, bytes, &mut inner, depth + 1)?;
                out.insert(field.name.to_owned(), Value::Object(inner));
            }
            _ => {
                let value = self.leaf(field, item, depth)?;
                if field.shape == Shape::Plain && left_out(field, &value) {
                    out.remove(field.name);
                } else {
                    out.insert(field.name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// One element, or several if numbers are packed.
    fn elements(
        &mut self,
        field: &Field,
        item: Item<'_>,
        list: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let number = matches!(field.ty, Type::Bool | Type::Int32 | Type::Int64);
        match item {
            Item::Bytes(bytes) if number => {
                let mut packed = Fields::of(bytes);
                while !packed.is_empty() {
                    self.count()?;
                    list.push(self.leaf(field, Item::Varint(packed.varint()?), depth)?);
                }
            }
            item => list.push(self.value(field, item, depth)?),
        }
        Ok(())
    }

    fn entry(&mut self, field: &Field, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = (String::new(), None);
        let mut items = Fields::of(bytes);
        while let Some((number, item)) = items.next()? {
            match (number, item) {
                (1, Item::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
                (2, item) => value = Some(self.value(field, item, depth)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.value(field, Item::Bytes(b""), depth)?,
        };
        Ok((key, value))
    }

    /// A list's element or a map's value, which is never omitted.
    fn value(&mut self, field: &Field, item: Item<'_>, depth: usize) -> Result<Value, ProtobufError> {
        let Type::Message(message) = field.ty else { return self.leaf(field, item, depth) };
        let mut inner = Map::new();
        self.message(message, bytes_of(field, item)?, &mut inner, depth + 1)?;
        Ok(Value::Object(inner))
    }

    fn leaf(&mut self, field: &Field, item: Item<'_>, depth: usize) -> Result<Value, ProtobufError> {
        match (field.ty, item) {
            (Type::Bool, Item::Varint(number)) => Ok((number != 0).into()),
            (Type::Int32, Item::Varint(number)) => Ok((number as i32).into()),
            (Type::Int64, Item::Varint(number)) => Ok((number as i64).into()),
            // JSON has no non-finite numbers; they become null, where Go fails to encode.
            (Type::Double, Item::Fixed64(bits)) => Ok(f64::from_bits(bits).into()),
            (Type::SchemaOrList | Type::SchemaOrBool | Type::SchemaOrTexts, Item::Bytes(bytes)) => {
                self.schema_or(field.ty, bytes, depth)
            }
            (ty, Item::Bytes(bytes)) => match scalar::read(ty, field.name, bytes)? {
                Some(value) => Ok(value),
                None => Err(ProtobufError::WireType { field: field.name.to_owned(), wire_type: 2 }),
            },
            (_, item) => Err(ProtobufError::WireType { field: field.name.to_owned(), wire_type: item.wire_type() }),
        }
    }

    /// Adds the fields missing on the wire that Go's JSON shows.
    fn fill(&mut self, message: MessageId, out: &mut Map<String, Value>) -> Result<(), ProtobufError> {
        for index in 0..self.table.fields(message).len() {
            let field = self.table.fields(message)[index];
            if let (Shape::Embedded, Type::Message(inner)) = (field.shape, field.ty) {
                self.fill(inner, out)?;
                continue;
            }
            if out.contains_key(field.name) {
                continue;
            }
            let value = match (field.shape, field.ty) {
                (Shape::Plain, Type::Message(inner)) if field.zero != Zero::OmitStruct => {
                    let mut map = Map::new();
                    self.fill(inner, &mut map)?;
                    Value::Object(map)
                }
                (Shape::Plain, ty) => scalar::zero(ty),
                _ => Value::Null,
            };
            let shown = match field.shape {
                Shape::Plain => !left_out(&field, &value),
                _ => field.zero == Zero::Shown,
            };
            if shown {
                self.count()?;
                out.insert(field.name.to_owned(), value);
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), ProtobufError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ProtobufError::TooMany)?;
        Ok(())
    }
}

/// Reports whether Go's `omitempty` or `omitzero` drops this value of a non-pointer field. `omitempty` never drops a
/// struct.
fn left_out(field: &Field, value: &Value) -> bool {
    let is_struct = matches!(
        field.ty,
        Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString | Type::Raw | Type::Message(_)
    );
    match field.zero {
        Zero::Shown => false,
        Zero::OmitEmpty => !is_struct && *value == scalar::zero(field.ty) || (value == "" && field.ty == Type::Bytes),
        Zero::OmitStruct => *value == scalar::zero(field.ty),
    }
}

fn bytes_of<'a>(field: &Field, item: Item<'a>) -> Result<&'a [u8], ProtobufError> {
    match item {
        Item::Bytes(bytes) => Ok(bytes),
        item => Err(ProtobufError::WireType { field: field.name.to_owned(), wire_type: item.wire_type() }),
    }
}
