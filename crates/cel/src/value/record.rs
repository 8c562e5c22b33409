//! Objects that an expression builds: `Object.spec{replicas: 3}` and `JSONPatch{op: "add", …}`, and their JSON.

use super::{EvalError, List, Opaque, Value};
use base64::Engine as _;
use serde_json::{Map as JsonMap, Number, Value as Json};

/// Name of the type of a patch operation.
pub(crate) const JSON_PATCH: &str = "JSONPatch";
/// Name of the type of a whole object; types of its fields are `Object.FIELD…`.
pub(crate) const OBJECT: &str = "Object";
/// Levels of JSON that a result may have.
const DEPTH_MAX: usize = 100;

/// A value with a named type and fields.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    pub type_name: String,
    pub fields: Vec<(String, Value<'a>)>,
}

impl<'a> Record<'a> {
    pub fn field(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Checks that the type of each object below is named after its position: `Object.spec` in the field `spec`.
    pub fn check_type_names(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        check_record(self, &self.type_name, &mut problems);
        problems.sort();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }
}

fn check_record(record: &Record<'_>, expected: &str, problems: &mut Vec<String>) {
    if record.type_name != expected {
        problems.push(format!(
            "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
            record.type_name
        ));
    }
    for (name, value) in &record.fields {
        check_value(value, &format!("{expected}.{name}"), problems);
    }
}

fn check_value(value: &Value<'_>, expected: &str, problems: &mut Vec<String>) {
    match value {
        Value::Opaque(Opaque::Record(record)) => check_record(record, expected, problems),
        Value::List(list) => list.iter().flatten().for_each(|item| check_value(&item, expected, problems)),
        Value::Map(map) => {
            let entries = map.entries().unwrap_or_default();
            entries.iter().for_each(|(_, value)| check_value(value, expected, problems));
        }
        _ => {}
    }
}

impl Value<'_> {
    /// The value as JSON. Values without a JSON form, such as types, are errors.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        to_json(self, 0)
    }
}

fn to_json(value: &Value<'_>, depth: usize) -> Result<Json, EvalError> {
    if depth > DEPTH_MAX {
        return Err(EvalError::new(format!("the result has more than {DEPTH_MAX} levels")));
    }
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Double(value) => double(*value)?,
        Value::String(text) => Json::from(&**text),
        Value::Bytes(bytes) => Json::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
        Value::Optional(Some(value)) => to_json(value, depth)?,
        Value::List(list) => list_to_json(list, depth)?,
        Value::Map(map) => {
            let mut object = JsonMap::new();
            for (key, value) in map.entries()? {
                let Value::String(key) = &key else {
                    return Err(EvalError::new(format!("map key is of type {}, not string", key.type_name())));
                };
                object.insert((**key).to_owned(), to_json(&value, depth + 1)?);
            }
            Json::Object(object)
        }
        Value::Opaque(Opaque::Record(record)) => {
            let mut object = JsonMap::new();
            for (name, value) in &record.fields {
                object.insert(name.clone(), to_json(value, depth + 1)?);
            }
            Json::Object(object)
        }
        Value::Opaque(Opaque::Preserved(data)) => (*data).clone(),
        Value::Timestamp(_) | Value::Duration(_) => Json::from(crate::library::convert::shown(value)),
        other => return Err(EvalError::new(format!("a value of type {} has no JSON form", other.type_name()))),
    })
}

fn list_to_json(list: &List<'_>, depth: usize) -> Result<Json, EvalError> {
    let mut items = Vec::with_capacity(list.len());
    for item in list.iter() {
        items.push(to_json(&item?, depth + 1)?);
    }
    Ok(Json::Array(items))
}

/// Whole doubles are written as integers, as fields of integer types need them.
fn double(value: f64) -> Result<Json, EvalError> {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Ok(Json::from(value as i64));
    }
    Number::from_f64(value).map(Json::Number).ok_or_else(|| EvalError::new(format!("{value} has no JSON form")))
}
