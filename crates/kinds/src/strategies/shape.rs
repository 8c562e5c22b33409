//! Normalizes built-in objects to the form a typed server shows: omits meaningless zero values and adds those always
//! shown.
//!
//! A typed server cannot distinguish `stdin: false` or `command: []` from an absent field, and prints a required
//! field even if it is empty; clients compare objects with that output. Pointers keep the client's value.

use object::Object;
use serde_json::{Map, Value};

use crate::protobuf::scalar;
use crate::protobuf::table::{Field, MessageId, MessageTable, Shape, Type, Zero};

/// Deeper objects are rejected elsewhere; here they are left unchanged.
const DEPTH_MAX: usize = 100;

/// Normalizes an object of a built-in kind; other kinds are left unchanged. Runs before defaulting.
pub fn settle(object: &mut Object) {
    let table = MessageTable::get();
    if let Some(message) = table.kind(object.api_version(), object.kind()) {
        settle_message(table, message, object.as_map_mut(), 0);
    }
}

fn settle_message(table: &MessageTable, message: MessageId, map: &mut Map<String, Value>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    for field in table.fields(message) {
        match (field.shape, field.ty) {
            (Shape::Embedded, Type::Message(inner)) => settle_message(table, inner, map, depth + 1),
            _ => match map.get_mut(field.name) {
                Some(value) if !value.is_null() => {
                    settle_value(table, field, value, depth);
                    if is_left_out(field, value) {
                        map.remove(field.name);
                    }
                }
                _ => fill_in(table, field, map, depth),
            },
        }
    }
}

fn settle_value(table: &MessageTable, field: &Field, value: &mut Value, depth: usize) {
    let Type::Message(inner) = field.ty else { return };
    match (field.shape, value) {
        (Shape::Plain | Shape::Pointer, Value::Object(map)) => settle_message(table, inner, map, depth + 1),
        (Shape::List, Value::Array(items)) => {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|m| settle_message(table, inner, m, depth + 1));
        }
        (Shape::Map, Value::Object(entries)) => {
            let values = entries.values_mut().filter_map(Value::as_object_mut);
            values.for_each(|m| settle_message(table, inner, m, depth + 1));
        }
        _ => {}
    }
}

/// Reports whether the value is omitted when printed.
fn is_left_out(field: &Field, value: &Value) -> bool {
    if field.zero == Zero::Shown {
        return false;
    }
    match field.shape {
        Shape::Pointer | Shape::Embedded => false,
        Shape::List => value.as_array().is_some_and(Vec::is_empty),
        Shape::Map => value.as_object().is_some_and(Map::is_empty),
        Shape::Plain => match field.ty {
            Type::Message(_) => field.zero == Zero::OmitStruct && value.as_object().is_some_and(Map::is_empty),
            Type::Text | Type::Bytes => value == "",
            Type::Bool => value == false,
            Type::Int32 | Type::Int64 | Type::Double => value.as_f64() == Some(0.0),
            _ => false,
        },
    }
}

/// Adds fields that are always printed: structs, zero times, required fields.
fn fill_in(table: &MessageTable, field: &Field, map: &mut Map<String, Value>, depth: usize) {
    if field.shape != Shape::Plain || field.zero == Zero::OmitStruct {
        map.remove(field.name);
        return;
    }
    let is_struct =
        matches!(field.ty, Type::Message(_) | Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString);
    let value = match field.ty {
        Type::Message(inner) => {
            let mut filled = Map::new();
            settle_message(table, inner, &mut filled, depth + 1);
            Value::Object(filled)
        }
        Type::Text | Type::Bool | Type::Int32 | Type::Int64 if field.zero == Zero::Shown => scalar::zero(field.ty),
        _ if is_struct => scalar::zero(field.ty),
        _ => {
            map.remove(field.name);
            return;
        }
    };
    map.insert(field.name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(input: Value, expected: Value) {
        let mut object = Object::from_value(input).expect("a map");
        settle(&mut object);
        assert_eq!(object.into_value(), expected);
    }

    #[test]
    fn zero_values_are_omitted_and_structs_are_shown() {
        check(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}}, "data": {},
                "binaryData": null, "immutable": false}),
            // A pointer keeps even its zero.
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "immutable": false}),
        );
        check(
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {}, "template": {"spec": {"hostNetwork": false,
                "nodeSelector": {}, "containers": [{"name": "c", "stdin": false, "tty": true, "command": []}]}}}),
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {}, "template": {"metadata": {},
                "spec": {"containers": [{"name": "c", "tty": true, "resources": {}}]}}}),
        );
    }

    #[test]
    fn unknown_kinds_are_not_changed() {
        let custom = json!({"apiVersion": "a.b/v1", "kind": "C", "spec": {"on": false, "list": []}});
        check(custom.clone(), custom);
    }
}
