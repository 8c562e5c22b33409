//! Sets missing fields. A field that is absent, null or (if Go cannot distinguish it) empty counts as missing.

use object::Object;
use serde_json::{Map, Value};

/// The map under `key`, or `None` if it is absent or another type.
pub fn map_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key)?.as_object_mut()
}

/// The map at a path of keys, or `None` if one of them is absent or another type.
pub fn map_at_path<'a>(map: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter().try_fold(map, |map, key| map_at(map, key))
}

/// The map under `key`, created if absent or null; `None` only for another type.
pub fn map_or_new<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// Adds `field` as an empty map if it is absent or null: kube-apiserver always shows it.
pub fn show_empty(object: &mut Object, field: &str) {
    map_or_new(object.as_map_mut(), field);
}

/// Every map in the list under `key`.
pub fn maps_in<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = map.get_mut(key).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
    items.iter_mut().filter_map(Value::as_object_mut)
}

pub fn is_set(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).is_some_and(|value| !value.is_null())
}

/// Sets `key` if it is absent or null: for fields where zero is a valid choice.
pub fn set_absent(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if !is_set(map, key) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets `key` if it is absent, null or `""`.
pub fn set_empty_str(map: &mut Map<String, Value>, key: &str, value: &str) {
    if map.get(key).is_none_or(|v| v.is_null() || v.as_str() == Some("")) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets `key` if it is absent, null or 0.
pub fn set_zero(map: &mut Map<String, Value>, key: &str, value: i64) {
    if map.get(key).is_none_or(|v| v.is_null() || v.as_i64() == Some(0)) {
        map.insert(key.to_owned(), value.into());
    }
}
