//! Equality and order of values.

use super::json::semantic_equal;
use super::map::{Key, Map, child};
use super::{EvalError, Items, List, ListKind, Opaque, Value};
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

type Compared = Result<bool, EvalError>;

/// CEL's `==`: numbers compare across types, different types are unequal.
pub(crate) fn equal<'a>(a: &Value<'a>, b: &Value<'a>) -> Compared {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
        (Value::List(a), other) => return equal_list(a, other),
        (Value::Map(a), other) => return equal_map(a, other),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equal(a, b),
        (Value::Opaque(a), other) => return equal_opaque(a, other),
        _ => compare_numbers(a, b) == Some(Ordering::Equal),
    })
}

fn equal_list<'a>(a: &List<'a>, b: &Value<'a>) -> Compared {
    let Value::List(b) = b else {
        return if a.kind == ListKind::Plain { Ok(false) } else { Err(EvalError::no_such_overload()) };
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.kind {
        ListKind::Plain | ListKind::Atomic => {
            for (left, right) in a.iter().zip(b.iter()) {
                if !equal(&left?, &right?)? {
                    return Ok(false);
                }
            }
        }
        ListKind::Set => {
            let members: BTreeSet<Key> = a.values()?.iter().filter_map(Key::of).collect();
            for right in b.iter() {
                if !Key::of(&right?).is_some_and(|key| members.contains(&key)) {
                    return Ok(false);
                }
            }
        }
        ListKind::Map { keys } => {
            let items = a.values()?;
            let members: HashMap<String, &Value> = items.iter().map(|item| (list_map_key(item, keys), item)).collect();
            for right in b.iter() {
                let right = right?;
                let Some(left) = members.get(&list_map_key(&right, keys)) else { return Ok(false) };
                if !equal(left, &right)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// The key fields of an element of a `listType: map` list, as text to look up by.
fn list_map_key(item: &Value, keys: &[String]) -> String {
    let Value::Map(map) = item else { return String::new() };
    let field = |key: &String| match map {
        Map::Json { data, .. } => data.get(key).cloned(),
        Map::Made(_) => match map.field(key) {
            Ok(Some(Value::String(text))) => Some(Json::from(&*text)),
            Ok(Some(Value::Int(number))) => Some(Json::from(number)),
            Ok(Some(Value::Bool(flag))) => Some(Json::from(flag)),
            Ok(Some(Value::Double(number))) => Some(Json::from(number)),
            _ => None,
        },
    };
    Json::Array(keys.iter().map(|key| field(key).unwrap_or_default()).collect()).to_string()
}

fn equal_map<'a>(a: &Map<'a>, b: &Value<'a>) -> Compared {
    let typed = matches!(a, Map::Json { schema: Some(_), .. });
    let Value::Map(b) = b else {
        return if typed { Err(EvalError::no_such_overload()) } else { Ok(false) };
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    for (key, left) in a.entries()? {
        let Some(right) = b.find(&key)? else { return Ok(false) };
        if !equal(&left, &right)? {
            return Ok(false);
        }
    }
    Ok(equal_unknown_fields(a, b))
}

/// Compares the fields of an object that its schema does not declare.
fn equal_unknown_fields(a: &Map, b: &Map) -> bool {
    let (Map::Json { data: left, schema: Some(schema) }, Map::Json { data: right, .. }) = (a, b) else { return true };
    left.iter()
        .filter(|(name, _)| child(schema, name).is_none())
        .all(|(name, value)| right.get(name).is_none_or(|other| semantic_equal(value, other)))
}

fn equal_opaque<'a>(a: &Opaque<'a>, b: &Value<'a>) -> Compared {
    let Value::Opaque(b) = b else { return Ok(false) };
    Ok(match (a, b) {
        (Opaque::Ip(a), Opaque::Ip(b)) => a == b,
        (Opaque::Cidr(a), Opaque::Cidr(b)) => a == b,
        (Opaque::Url(a), Opaque::Url(b)) => a.text() == b.text(),
        (Opaque::Quantity(a), Opaque::Quantity(b)) => a == b,
        (Opaque::Semver(a), Opaque::Semver(b)) => a.precedence(b) == Ordering::Equal,
        (Opaque::Format(a), Opaque::Format(b)) => a == b,
        (Opaque::Preserved(a), Opaque::Preserved(b)) => semantic_equal(a, b),
        (Opaque::Record(a), Opaque::Record(b)) => {
            let has =
                |(name, left): &(String, Value<'a>)| b.field(name).is_some_and(|right| equal(left, right) == Ok(true));
            a.type_name == b.type_name && a.fields.len() == b.fields.len() && a.fields.iter().all(has)
        }
        _ => false,
    })
}

fn compare_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), other) => compare_double(*a, whole(other)?),
        (other, Value::Double(b)) => compare_double(*b, whole(other)?).map(Ordering::reverse),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    }
}

/// Compares without rounding the whole number to a double.
fn compare_double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    if a.abs() >= 1e30 {
        return Some(if a > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let floor = a.floor();
    let order = (floor as i128).cmp(&b);
    Some(if order == Ordering::Equal && a > floor { Ordering::Greater } else { order })
}

/// Order of two values of comparable types; none for NaN.
pub(crate) fn compare(a: &Value, b: &Value) -> Result<Option<Ordering>, EvalError> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            compare_numbers(a, b)
        }
        _ => return Err(EvalError::no_such_overload()),
    })
}

/// `a + b` for lists, by the kind of `a`.
pub(crate) fn concatenate<'a>(a: &List<'a>, b: &List<'a>) -> Result<List<'a>, EvalError> {
    if a.kind == ListKind::Plain && a.is_empty() {
        return Ok(b.clone());
    }
    let mut items = a.values()?;
    match a.kind {
        ListKind::Plain | ListKind::Atomic => {
            for item in b.iter() {
                items.push(item?);
            }
        }
        ListKind::Set => {
            let mut members: BTreeSet<Key> = items.iter().filter_map(Key::of).collect();
            for item in b.iter() {
                let item = item?;
                if Key::of(&item).is_none_or(|key| members.insert(key)) {
                    items.push(item);
                }
            }
        }
        ListKind::Map { keys } => {
            let mut positions: HashMap<String, usize> =
                items.iter().enumerate().map(|(position, item)| (list_map_key(item, keys), position)).collect();
            for item in b.iter() {
                let item = item?;
                match positions.entry(list_map_key(&item, keys)) {
                    Entry::Occupied(known) => items[*known.get()] = item,
                    Entry::Vacant(new) => {
                        new.insert(items.len());
                        items.push(item);
                    }
                }
            }
        }
    }
    Ok(List { items: Items::Made(std::sync::Arc::new(items)), kind: a.kind })
}
