//! Bounds of numbers, with integers compared as integers and shown as Go shows them.

use serde_json::{Number, Value};

use super::{Outcome, Place, Walk};
use crate::field::{FieldError, go_float};
use crate::schema::{Rules, SchemaRef, SchemaType};

impl Walk<'_> {
    pub(super) fn check_number(
        &self,
        at: SchemaRef<'_>,
        rules: &Rules,
        number: &Number,
        place: &Place<'_>,
        outcome: &mut Outcome,
    ) {
        outcome.met += 1;
        self.range_error(at, rules, number, place).into_iter().for_each(|e| outcome.add(e));
        let refuse =
            |complaint: String| -> FieldError { self.invalid(place, Value::Number(number.clone()), &complaint) };
        if let Some(factor) = rules.multiple_of
            && !is_multiple(number, factor)
        {
            outcome.add(refuse(format!("should be a multiple of {}", shown(number, factor))));
        }
        if let Some(min) = rules.minimum {
            let low = compare(number, min);
            if low.is_lt() || (rules.exclusive_minimum && low.is_eq()) {
                let word = if rules.exclusive_minimum { "greater than" } else { "greater than or equal to" };
                outcome.add(refuse(format!("should be {word} {}", shown(number, min))));
            }
        }
        if let Some(max) = rules.maximum {
            let high = compare(number, max);
            if high.is_gt() || (rules.exclusive_maximum && high.is_eq()) {
                let word = if rules.exclusive_maximum { "less than" } else { "less than or equal to" };
                outcome.add(refuse(format!("should be {word} {}", shown(number, max))));
            }
        }
    }

    /// A number outside the range of its format, such as 3000000000 for int32.
    fn range_error(&self, at: SchemaRef<'_>, rules: &Rules, number: &Number, place: &Place<'_>) -> Option<FieldError> {
        let format = rules.format.as_deref().unwrap_or_default();
        let (ty, fits) = match (at.ty(), format) {
            (SchemaType::Integer, "int32") => {
                ("integer", number.as_f64().is_some_and(|n| n.abs() <= 2147483648.0 && n != 2147483648.0))
            }
            (SchemaType::Integer, _) => (
                "integer",
                !is_integral(&Value::Number(number.clone())) || number.as_f64().is_some_and(|n| n.abs() < 9.3e18),
            ),
            (SchemaType::Number, "float") => {
                ("number", number.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX)))
            }
            _ => return None,
        };
        let known = matches!(format, "int32" | "int64" | "float" | "double");
        let what = if known { format!("with format {format}") } else { "(default format)".to_owned() };
        (!fits).then(|| self.composite(format!("Checked value must be of type {ty} {what} in {}", place.text())))
    }
}

/// Whether two JSON values are equal, with 1 and 1.0 the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

pub(super) fn is_integral(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64() || number.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => false,
    }
}

/// Integers are compared with the bound cut to an integer, as Go does.
fn compare(number: &Number, bound: f64) -> std::cmp::Ordering {
    match number.as_i64() {
        Some(integer) => integer.cmp(&(bound as i64)),
        None => number.as_f64().unwrap_or(f64::NAN).total_cmp(&bound),
    }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if let (Some(integer), true) = (number.as_i64(), factor.fract() == 0.0) {
        return factor as i64 != 0 && integer % (factor as i64) == 0;
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    let ratio = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    (ratio - ratio.round()).abs() <= 1e-9 * ratio.abs().max(1.0)
}

fn shown(number: &Number, bound: f64) -> String {
    if number.is_f64() { go_float(bound) } else { (bound as i64).to_string() }
}
