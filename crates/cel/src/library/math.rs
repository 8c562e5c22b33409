//! cel-go's math extension.

use super::{CallContext, Function, fail, no_overload_for};
use crate::value::{Evaluated, Value, compare};
use std::cmp::Ordering;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "math.greatest" => |context, args| extreme(context, args, Ordering::Greater),
        "math.least" => |context, args| extreme(context, args, Ordering::Less),
        "math.ceil" => |context, args| rounded(context, args, f64::ceil),
        "math.floor" => |context, args| rounded(context, args, f64::floor),
        "math.round" => |context, args| rounded(context, args, f64::round),
        "math.trunc" => |context, args| rounded(context, args, f64::trunc),
        "math.sqrt" => sqrt,
        "math.isInf" => |context, args| test(context, args, f64::is_infinite),
        "math.isNaN" => |context, args| test(context, args, f64::is_nan),
        "math.isFinite" => |context, args| test(context, args, f64::is_finite),
        "math.abs" => abs,
        "math.sign" => sign,
        "math.bitAnd" => |context, args| bits(context, args, |a, b| a & b, |a, b| a & b),
        "math.bitOr" => |context, args| bits(context, args, |a, b| a | b, |a, b| a | b),
        "math.bitXor" => |context, args| bits(context, args, |a, b| a ^ b, |a, b| a ^ b),
        "math.bitNot" => bit_not,
        "math.bitShiftLeft" => |context, args| shift(context, args, u64::checked_shl),
        "math.bitShiftRight" => |context, args| shift(context, args, u64::checked_shr),
        _ => return None,
    })
}

fn extreme<'a>(context: &CallContext, args: &[Value<'a>], wanted: Ordering) -> Evaluated<'a> {
    let candidates = match args {
        [Value::List(list)] => list.values()?,
        _ => args.to_vec(),
    };
    let mut candidates = candidates.into_iter();
    let Some(mut best) = candidates.next() else {
        return fail(format!("{}(list) argument must not be empty", context.call.function));
    };
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    for candidate in candidates {
        if !is_number(&candidate) {
            return no_overload_for(context, args);
        }
        if compare(&candidate, &best)? == Some(wanted) {
            best = candidate;
        }
    }
    if is_number(&best) { Ok(best) } else { no_overload_for(context, args) }
}

fn rounded<'a>(context: &CallContext, args: &[Value<'a>], round: fn(f64) -> f64) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(round(*value))),
        _ => no_overload_for(context, args),
    }
}

fn sqrt<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(value.sqrt())),
        [Value::Int(value)] => Ok(Value::Double((*value as f64).sqrt())),
        [Value::Uint(value)] => Ok(Value::Double((*value as f64).sqrt())),
        _ => no_overload_for(context, args),
    }
}

fn test<'a>(context: &CallContext, args: &[Value<'a>], holds: fn(f64) -> bool) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Bool(holds(*value))),
        _ => no_overload_for(context, args),
    }
}

fn abs<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(value.abs())),
        [Value::Int(value)] => {
            value.checked_abs().map_or_else(|| fail("integer overflow"), |value| Ok(Value::Int(value)))
        }
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        _ => no_overload_for(context, args),
    }
}

fn sign<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] if *value == 0.0 || value.is_nan() => Ok(Value::Double(*value)),
        [Value::Double(value)] => Ok(Value::Double(value.signum())),
        [Value::Int(value)] => Ok(Value::Int(value.signum())),
        [Value::Uint(value)] => Ok(Value::Uint(u64::from(*value > 0))),
        _ => no_overload_for(context, args),
    }
}

fn bits<'a>(
    context: &CallContext,
    args: &[Value<'a>],
    signed: fn(i64, i64) -> i64,
    unsigned: fn(u64, u64) -> u64,
) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(signed(*a, *b))),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(unsigned(*a, *b))),
        _ => no_overload_for(context, args),
    }
}

fn bit_not<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(!value)),
        [Value::Uint(value)] => Ok(Value::Uint(!value)),
        _ => no_overload_for(context, args),
    }
}

/// Shifts the bit pattern; bits leaving the word are lost, shifts of 64 and more leave zero.
fn shift<'a>(context: &CallContext, args: &[Value<'a>], by: fn(u64, u32) -> Option<u64>) -> Evaluated<'a> {
    let (pattern, offset, is_signed) = match args {
        [Value::Int(value), Value::Int(offset)] => (*value as u64, *offset, true),
        [Value::Uint(value), Value::Int(offset)] => (*value, *offset, false),
        _ => return no_overload_for(context, args),
    };
    if offset < 0 {
        return fail(format!("{}() negative offset: {offset}", context.call.function));
    }
    let shifted = u32::try_from(offset).ok().and_then(|offset| by(pattern, offset)).unwrap_or(0);
    Ok(if is_signed { Value::Int(shifted as i64) } else { Value::Uint(shifted) })
}
