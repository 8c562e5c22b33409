//! Maps: created by expressions, or JSON objects read in place.

use super::{EvalError, Evaluated, Text, Value, json};
use crate::escape::{escape, unescape};
use crate::schema::Schema;
use serde_json::{Map as JsonMap, Value as Json};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Keys normalized for equality, with the key as written.
    Made(Arc<BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>>),
    Json {
        data: &'a JsonMap<String, Json>,
        /// `None` for data without a schema.
        schema: Option<&'a Schema>,
    },
}

/// A map key, such that keys equal in CEL are equal: `1`, `1u` and `1.0` are the same key.
#[derive(Debug, Clone)]
pub enum Key<'a> {
    Bool(bool),
    Number(i128),
    /// A double that is not a whole number equals only itself.
    Fraction(u64),
    Text(Text<'a>),
}

impl<'a> Key<'a> {
    pub(crate) fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Number(i128::from(*value)),
            Value::Uint(value) => Self::Number(i128::from(*value)),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e30 => Self::Number(*value as i128),
            Value::Double(value) => Self::Fraction(value.to_bits()),
            Value::String(text) => Self::Text(text.clone()),
            _ => return None,
        })
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number(_) => 1,
            Self::Fraction(_) => 2,
            Self::Text(_) => 3,
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::Fraction(a), Self::Fraction(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

impl<'a> Map<'a> {
    pub(crate) fn made(entries: BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>) -> Self {
        Self::Made(Arc::new(entries))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Made(entries) => entries.len(),
            Self::Json { data, .. } => data.len(),
        }
    }

    /// The value at a key, if there is one. Absent and null properties of objects are the same.
    pub(crate) fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Made(entries) => match Key::of(key) {
                Some(key) => Ok(entries.get(&key).map(|(_, value)| value.clone())),
                None => Err(EvalError::new(format!("unsupported key type: {}", key.type_name()))),
            },
            Self::Json { data, schema } => {
                let Value::String(name) = key else {
                    if schema.is_some() {
                        return Err(EvalError::no_such_overload());
                    }
                    return Ok(None);
                };
                find_json(data, *schema, name)
            }
        }
    }

    /// The value of a field named in the expression.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Made(entries) => {
                let key = Key::Text(Text::Shared(name.into()));
                Ok(entries.get(&key).map(|(_, value)| value.clone()))
            }
            Self::Json { data, schema } => find_json(data, *schema, name),
        }
    }

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Made(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
            Self::Json { data, schema } => {
                let is_object = schema.is_some_and(|schema| schema.properties.is_some());
                let visible = data.keys().filter(|name| schema.is_none_or(|schema| child(schema, name).is_some()));
                visible
                    .map(|name| match escape(name) {
                        Some(escaped) if is_object && escaped != *name => Value::text(escaped),
                        _ => Value::text(name.as_str()),
                    })
                    .collect()
            }
        }
    }

    /// All keys and values an expression can see.
    pub fn entries(&self) -> Result<Vec<(Value<'a>, Value<'a>)>, EvalError> {
        if let Self::Made(entries) = self {
            return Ok(entries.values().cloned().collect());
        }
        let mut pairs = Vec::new();
        for key in self.keys() {
            if let Some(value) = self.find(&key)? {
                pairs.push((key, value));
            }
        }
        Ok(pairs)
    }
}

/// The schema of a member of an object or map.
pub(super) fn child<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    match &schema.properties {
        Some(properties) => properties.get(name),
        None => schema.additional.as_deref(),
    }
}

fn find_json<'a>(
    data: &'a JsonMap<String, Json>,
    schema: Option<&'a Schema>,
    name: &str,
) -> Result<Option<Value<'a>>, EvalError> {
    let Some(schema) = schema else { return Ok(data.get(name).map(json::dynamic_value)) };
    let is_object = schema.properties.is_some();
    let unescaped = if is_object { unescape(name) } else { Some(name.to_owned()) };
    let Some((value, name)) = unescaped.and_then(|name| data.get(&name).map(|value| (value, name))) else {
        return Ok(None);
    };
    if is_object && value.is_null() {
        return Ok(None);
    }
    child(schema, &name).map(|child| json::typed_value(value, child)).transpose()
}

pub(crate) fn missing_key(key: &Value) -> EvalError {
    EvalError::new(format!("no such key: {}", crate::library::convert::shown(key)))
}

pub(crate) fn get<'a>(map: &Map<'a>, key: &Value<'a>) -> Evaluated<'a> {
    map.find(key)?.ok_or_else(|| missing_key(key))
}
