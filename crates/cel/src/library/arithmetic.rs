//! Operators: arithmetic, order, negation, containment, size.

use super::{CallContext, Function, fail, no_operation_for, no_overload};
use crate::value::{EvalError, Evaluated, Value, compare, concatenate, equal};
use std::cmp::Ordering;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "!_" => not,
        "_<_" => |context, args| order(context, args, Ordering::is_lt),
        "_<=_" => |context, args| order(context, args, Ordering::is_le),
        "_>_" => |context, args| order(context, args, Ordering::is_gt),
        "_>=_" => |context, args| order(context, args, Ordering::is_ge),
        "@in" => contains,
        "size" => size,
        _ => return None,
    })
}

fn overflow(kind: &str) -> EvalError {
    EvalError::new(match kind {
        "int" => "integer overflow",
        "uint" => "unsigned integer overflow",
        "timestamp" => "timestamp overflow",
        _ => "duration overflow",
    })
}

fn int<'a>(result: Option<i64>) -> Evaluated<'a> {
    result.map(Value::Int).ok_or_else(|| overflow("int"))
}

fn uint<'a>(result: Option<u64>) -> Evaluated<'a> {
    result.map(Value::Uint).ok_or_else(|| overflow("uint"))
}

fn add<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => Ok(Value::text(format!("{}{}", &**a, &**b))),
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes([&**a, &**b].concat().into())),
        [Value::List(a), Value::List(b)] => concatenate(a, b).map(Value::List),
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        [Value::Timestamp(time), Value::Duration(by)] | [Value::Duration(by), Value::Timestamp(time)] => {
            time.checked_add(*by).map(Value::Timestamp).ok_or_else(|| overflow("timestamp"))
        }
        [first, ..] => no_operation_for(context, first, is_addable(first)),
        [] => no_overload(),
    }
}

fn subtract<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            a.since(*b).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        [Value::Timestamp(time), Value::Duration(by)] => {
            time.checked_sub(*by).map(Value::Timestamp).ok_or_else(|| overflow("timestamp"))
        }
        [first, ..] => no_operation_for(context, first, is_subtractable(first)),
        [] => no_overload(),
    }
}

fn multiply<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        [first, ..] => no_operation_for(context, first, is_number(first)),
        [] => no_overload(),
    }
}

fn divide<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => fail("division by zero"),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        [first, ..] => no_operation_for(context, first, is_number(first)),
        [] => no_overload(),
    }
}

fn modulo<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => fail("modulus by zero"),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        [first, ..] => no_operation_for(context, first, is_whole(first)),
        [] => no_overload(),
    }
}

fn negate<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a)] => int(a.checked_neg()),
        [Value::Double(a)] => Ok(Value::Double(-a)),
        [first] => no_operation_for(context, first, matches!(first, Value::Bool(_) | Value::Uint(_))),
        _ => no_overload(),
    }
}

fn not<'a>(_: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => no_overload(),
    }
}

fn order<'a>(context: &CallContext, args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Evaluated<'a> {
    let [a, b] = args else { return no_overload() };
    if compare(a, a).is_err() {
        return no_operation_for(context, a, false);
    }
    match compare(a, b)? {
        Some(ordering) => Ok(Value::Bool(holds(ordering))),
        None => fail("NaN values cannot be ordered"),
    }
}

fn contains<'a>(_: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [wanted, Value::List(list)] => {
            let mut failure = None;
            for item in list.iter() {
                match equal(&item?, wanted) {
                    Ok(true) => return Ok(Value::Bool(true)),
                    Ok(false) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            failure.map_or(Ok(Value::Bool(false)), Err)
        }
        [key, Value::Map(map)] => map.find(key).map(|found| Value::Bool(found.is_some())),
        _ => no_overload(),
    }
}

fn size<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [sized @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(sized.cost_size() as i64))
        }
        [first] => no_operation_for(context, first, false),
        _ => no_overload(),
    }
}

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_))
}

fn is_number(value: &Value) -> bool {
    is_whole(value) || matches!(value, Value::Double(_))
}

fn is_subtractable(value: &Value) -> bool {
    is_number(value) || matches!(value, Value::Duration(_) | Value::Timestamp(_))
}

fn is_addable(value: &Value) -> bool {
    is_subtractable(value) || matches!(value, Value::String(_) | Value::Bytes(_) | Value::List(_))
}
