//! Rows of custom resources, by the `additionalPrinterColumns` of their definition.

use jiff::Timestamp;
use object::Object;
use object::jsonpath::JsonPath;
use serde_json::{Number, Value};

use super::{CREATED, NAME, age};
use crate::kind::{Column, Printer};

/// The table of one version of a CustomResourceDefinition.
pub struct CrdPrinter {
    columns: Vec<(Column, JsonPath)>,
}

impl CrdPrinter {
    /// Parses `additionalPrinterColumns`; an empty list means one column with the age. An invalid path ends the list,
    /// as the definition was accepted before the path became invalid.
    pub fn new(additional_printer_columns: &Value) -> Self {
        let given = additional_printer_columns.as_array().map(Vec::as_slice).unwrap_or_default();
        if given.is_empty() {
            let age = Column {
                name: "Age".to_owned(),
                ty: "date".to_owned(),
                format: String::new(),
                description: CREATED.to_owned(),
                priority: 0,
            };
            return Self {
                columns: JsonPath::parse(".metadata.creationTimestamp").map(|p| (age, p)).into_iter().collect(),
            };
        }
        Self { columns: given.iter().map_while(read_column).collect() }
    }
}

fn read_column(column: &Value) -> Option<(Column, JsonPath)> {
    let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
    let path = text("jsonPath");
    let parsed = JsonPath::parse(&path).ok()?;
    let description = match text("description") {
        given if given.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
        given => given,
    };
    let priority = column["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0);
    Some((Column { name: text("name"), ty: text("type"), format: text("format"), description, priority }, parsed))
}

impl Printer for CrdPrinter {
    fn columns(&self) -> Vec<Column> {
        let name = NAME.to_column();
        std::iter::once(name).chain(self.columns.iter().map(|(column, _)| column.clone())).collect()
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![object.name().into()];
        for (column, path) in &self.columns {
            cells.push(path.find_first(object).map_or(Value::Null, |value| cell(&column.ty, &value, now)));
        }
        cells
    }
}

/// A value formatted as the column's type; blank if it does not match the type.
fn cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        ("string", value) => text_of(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(fraction)) => (fraction as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(number)) => match number.as_f64() {
            Some(fraction) if fraction.fract() == 0.0 && fraction.abs() < 1e15 => (fraction as i64).into(),
            Some(fraction) => Number::from_f64(fraction).map_or(Value::Null, Value::Number),
            None => Value::Null,
        },
        ("boolean", Value::Bool(flag)) => (*flag).into(),
        ("date", Value::String(time)) => match time.as_str() {
            "" | "null" => "<unknown>".into(),
            time if object::time::parse(time).is_none() => "<invalid>".into(),
            time => age::since(time, now).into(),
        },
        _ => Value::Null,
    }
}

/// Scalars as their text, maps and lists as JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(fraction) if number.is_f64() && fraction.fract() == 0.0 && fraction.abs() < 1e21 => {
                format!("{fraction:.0}")
            }
            _ => number.to_string(),
        },
        // Go's printer has a special text for a missing value.
        Value::Null => "<no value>".to_owned(),
        other => other.to_string(),
    }
}
