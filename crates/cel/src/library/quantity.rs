//! Quantities such as `1.5Gi`. Comparisons shared with versions are dispatched here.

use super::{CallContext, Function, fail, no_overload_for, semver};
use crate::value::{EvalError, Evaluated, Opaque, Value};
use object::quantity::{Quantity as Amount, QuantityFormat};
use std::cmp::Ordering;

#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    /// Written without a fraction: only then Kubernetes treats it as an integer; even `1000m` is not one.
    is_whole: bool,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |context, args| match args {
            [Value::String(text)] => Quantity::parse(text).map(wrap).map_err(|error| EvalError::new(error.to_string())),
            _ => no_overload_for(context, args),
        },
        "isQuantity" => |context, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
            _ => no_overload_for(context, args),
        },
        "sign" => |context, args| {
            let quantity = only(context, args)?;
            let magnitude = i64::from(!quantity.amount.is_zero());
            Ok(Value::Int(if quantity.amount.is_negative() { -magnitude } else { magnitude }))
        },
        "isInteger" => |context, args| Ok(Value::Bool(only(context, args)?.integer().is_some())),
        "asInteger" => |context, args| match only(context, args)?.integer() {
            Some(value) => Ok(Value::Int(value)),
            None => fail("cannot convert value to integer"),
        },
        "asApproximateFloat" => |context, args| Ok(Value::Double(only(context, args)?.approximate())),
        "add" => |context, args| combine(context, args, |a, b| a.plus(b)),
        "sub" => |context, args| combine(context, args, |a, b| a.minus(b)),
        "compareTo" => |context, args| Ok(Value::Int(order(context, args)? as i64)),
        "isLessThan" => |context, args| Ok(Value::Bool(order(context, args)?.is_lt())),
        "isGreaterThan" => |context, args| Ok(Value::Bool(order(context, args)?.is_gt())),
        _ => return None,
    })
}

fn wrap<'a>(quantity: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(quantity))
}

fn only<'v>(context: &CallContext, args: &'v [Value]) -> Result<&'v Quantity, EvalError> {
    match args {
        [Value::Opaque(Opaque::Quantity(quantity))] => Ok(quantity),
        _ => Err(no_overload_for(context, args).err().unwrap_or_else(EvalError::no_such_overload)),
    }
}

fn combine<'a>(context: &CallContext, args: &[Value<'a>], with: fn(&Amount, &Amount) -> Amount) -> Evaluated<'a> {
    let (a, b) = match args {
        [Value::Opaque(Opaque::Quantity(a)), Value::Opaque(Opaque::Quantity(b))] => (a, b.clone()),
        [Value::Opaque(Opaque::Quantity(a)), Value::Int(b)] => {
            (a, Quantity { amount: Amount::new(*b, QuantityFormat::DecimalExponent), is_whole: true })
        }
        _ => return no_overload_for(context, args),
    };
    Ok(wrap(Quantity { amount: with(&a.amount, &b.amount), is_whole: a.is_whole && b.is_whole }))
}

fn order(context: &CallContext, args: &[Value]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Opaque(Opaque::Quantity(a)), Value::Opaque(Opaque::Quantity(b))] => Ok(a.amount.cmp(&b.amount)),
        [Value::Opaque(Opaque::Semver(a)), Value::Opaque(Opaque::Semver(b))] => Ok(semver::Semver::precedence(a, b)),
        _ => Err(no_overload_for(context, args).err().unwrap_or_else(EvalError::no_such_overload)),
    }
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, object::quantity::QuantityError> {
        let amount = Amount::parse(text)?;
        Ok(Self { amount, is_whole: is_whole(text) })
    }

    /// The value, if it was written as a whole number and fits.
    fn integer(&self) -> Option<i64> {
        let value = self.amount.value();
        (self.is_whole && Amount::new(value, QuantityFormat::DecimalSi) == self.amount).then_some(value)
    }

    fn approximate(&self) -> f64 {
        let text = self.amount.to_string();
        let (number, suffix) = split_suffix(&text);
        let number: f64 = number.parse().unwrap_or(f64::NAN);
        if let Some(exponent) = BINARY.iter().position(|known| *known == suffix) {
            return number * 1024f64.powi(exponent as i32 + 1);
        }
        let exponent = decimal_exponent(suffix).unwrap_or(0);
        // Dividing by a power of ten rounds once, multiplying by its inverse twice.
        if exponent < 0 { number / 10f64.powi(-exponent) } else { number * 10f64.powi(exponent) }
    }
}

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn split_suffix(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    text.split_at(end)
}

fn decimal_exponent(suffix: &str) -> Option<i32> {
    Some(match suffix {
        "" => 0,
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        other => other.strip_prefix(['e', 'E'])?.parse().ok()?,
    })
}

/// The digits written after the point do not outnumber the power of ten of the suffix.
fn is_whole(text: &str) -> bool {
    let (number, suffix) = split_suffix(text.trim());
    let fraction = number.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    if BINARY.contains(&suffix) {
        return fraction == 0;
    }
    decimal_exponent(suffix).is_some_and(|exponent| exponent >= fraction)
}
