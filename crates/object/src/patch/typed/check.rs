//! Checks that an object fits its schema well enough to be merged, with the words of Kubernetes' merge library.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Shape, Type};
use crate::field::{go_number, go_quote, go_value};
use crate::schema::{Schema, SchemaRef, SchemaType};

/// Refuses unknown fields, values of the wrong type, items without keys and, unless allowed, repeated items.
pub fn check_typed(schema: &Schema, value: &Value, duplicates_allowed: bool) -> Result<(), String> {
    let mut check = Check { duplicates_allowed, errors: Vec::new() };
    check.visit(Type::root(schema), value, &mut String::new());
    match check.errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

/// Maximum number of errors collected.
const ERRORS_MAX: usize = 100;

struct Check {
    duplicates_allowed: bool,
    errors: Vec<String>,
}

impl Check {
    fn refuse(&mut self, path: &str, message: &str) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") });
        }
    }

    fn visit(&mut self, ty: Type<'_>, value: &Value, path: &mut String) {
        match (ty.shape(Some(value)), value) {
            (_, Value::Null) => {}
            (Shape::Scalar, _) => {
                if let Type::Known { at, .. } = ty
                    && let Some(message) = scalar_error(at, value)
                {
                    self.refuse(path, &message);
                }
            }
            (Shape::Map(shape), Value::Object(map)) => {
                for (key, inner) in map {
                    let length = path.len();
                    path.push('.');
                    path.push_str(key);
                    match shape.field(key) {
                        Some(below) => self.visit(below, inner, path),
                        None => self.refuse(path, "field not declared in schema"),
                    }
                    path.truncate(length);
                }
            }
            (Shape::Map(_), other) => self.refuse(path, &format!("expected map, got &{{{}}}", go_value(other))),
            (Shape::List(shape), Value::Array(items)) => self.visit_items(shape, items, path),
            (Shape::List(_), other) => self.refuse(path, &format!("expected list, got &{{{}}}", go_value(other))),
        }
    }

    fn visit_items(&mut self, shape: super::ListShape<'_>, items: &[Value], path: &mut String) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let length = path.len();
            if shape.keys.is_none() {
                path.push_str(&format!("[{index}]"));
            } else {
                let element = match shape.element(item) {
                    Ok(element) => element,
                    Err(message) => return self.refuse(path, &format!("element {index}: {message}")),
                };
                if !self.duplicates_allowed && seen.contains(&element) {
                    self.refuse(path, &format!("duplicate entries for key {element}"));
                }
                path.push_str(&element.to_string());
                seen.insert(element);
            }
            self.visit(shape.items, item, path);
            path.truncate(length);
        }
    }
}

fn scalar_error(at: SchemaRef<'_>, value: &Value) -> Option<String> {
    let formatted = at.rules().is_some_and(|rules| rules.format.as_deref().is_some_and(|format| format != "byte"));
    let scalar = !matches!(value, Value::Array(_) | Value::Object(_));
    match (at.ty(), value) {
        (SchemaType::Integer | SchemaType::Number, Value::Number(_)) => None,
        (SchemaType::Boolean, Value::Bool(_)) => None,
        (SchemaType::Integer | SchemaType::Number, other) => {
            Some(format!("expected numeric (int or float), got {}", go_type(other)))
        }
        (SchemaType::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_value(other))),
        (SchemaType::String, Value::String(_)) => None,
        (SchemaType::String, other) if !formatted && at.node().definition_name() != "Quantity" => {
            let shown = if scalar { go_value(other) } else { go_syntax(other) };
            Some(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}"))
        }
        (_, other) if !scalar => Some(format!("expected any scalar, got &{{{}}}", go_value(other))),
        _ => None,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Number(n) => go_number(n),
        Value::Bool(flag) => flag.to_string(),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
    }
}
