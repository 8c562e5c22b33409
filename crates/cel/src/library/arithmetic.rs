//! Operators: arithmetic, order, negation, containment, size.

use super::{Context, Function, fail, no_overload};
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
        "_<_" => |_, args| order(args, Ordering::is_lt),
        "_<=_" => |_, args| order(args, Ordering::is_le),
        "_>_" => |_, args| order(args, Ordering::is_gt),
        "_>=_" => |_, args| order(args, Ordering::is_ge),
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

fn add<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
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
        _ => no_overload(),
    }
}

fn subtract<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
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
        _ => no_overload(),
    }
}

fn multiply<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => no_overload(),
    }
}

fn divide<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => fail("division by zero"),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => no_overload(),
    }
}

fn modulo<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => fail("modulus by zero"),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        _ => no_overload(),
    }
}

fn negate<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(a)] => int(a.checked_neg()),
        [Value::Double(a)] => Ok(Value::Double(-a)),
        _ => no_overload(),
    }
}

fn not<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => no_overload(),
    }
}

fn order<'a>(args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Evaluated<'a> {
    let [a, b] = args else { return no_overload() };
    match compare(a, b)? {
        Some(ordering) => Ok(Value::Bool(holds(ordering))),
        None => fail("NaN values cannot be ordered"),
    }
}

fn contains<'a>(_: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
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

fn size<'a>(context: &Context, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [sized @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(sized.cost_size() as i64))
        }
        _ => super::no_overload_for(context, args),
    }
}
