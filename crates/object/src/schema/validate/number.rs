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
        if let Some(factor) = rules.multiple_of {
            // An integer is divided by the factor cut to an integer, as Go does, and what is cut to zero divides nothing.
            if number.as_i64().is_some() && factor as i64 <= 0 {
                let whole = factor as i64;
                let name = place.text();
                let detail = format!("factor MultipleOf declared for {name} must be positive: {whole}");
                outcome.add(FieldError::invalid(self.path(&name), whole, detail));
            } else if !is_multiple(number, factor) {
                outcome.add(refuse(format!("should be a multiple of {}", shown(number, factor))));
            }
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
        let value = number.as_f64().unwrap_or(f64::NAN);
        let (ty, fits) = match (at.ty(), format) {
            (SchemaType::Integer, "int32") => ("integer", value.fract() == 0.0 && i32::try_from(value as i64).is_ok()),
            (SchemaType::Integer, _) => {
                let whole = value.fract() == 0.0 && value.abs() < i64::MAX as f64;
                ("integer", number.as_i64().is_some() || whole)
            }
            (SchemaType::Number, "float") => ("number", value.abs() <= f64::from(f32::MAX)),
            _ => return None,
        };
        let known = matches!(format, "int32" | "int64" | "float" | "double");
        let what = if known { format!("with format {format}") } else { "(default format)".to_owned() };
        (!fits).then(|| self.composite(format!("Checked value must be of type {ty} {what} in {}", place.text())))
    }
}

/// Returns true when two JSON values are equal, with 1 and 1.0 the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Returns true when a number is whole; beyond the exact range of a double, only integers are.
pub(super) fn is_integral(value: &Value) -> bool {
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    let whole = |n: f64| n.fract() == 0.0 && n.abs() <= EXACT_MAX;
    value.as_i64().is_some() || value.as_f64().is_some_and(whole)
}

/// Integers are compared with the bound cut to an integer, as Go does.
fn compare(number: &Number, bound: f64) -> std::cmp::Ordering {
    match number.as_i64() {
        Some(integer) => integer.cmp(&(bound as i64)),
        None => number.as_f64().unwrap_or(f64::NAN).total_cmp(&bound),
    }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if let Some(integer) = number.as_i64() {
        return integer % (factor as i64) == 0;
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    let ratio = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    is_integral(&Value::from(ratio))
}

fn shown(number: &Number, bound: f64) -> String {
    if number.as_i64().is_none() { go_float(bound) } else { (bound as i64).to_string() }
}
