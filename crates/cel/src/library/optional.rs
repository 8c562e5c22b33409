//! Optional values.

use super::{CallContext, Function, fail, no_overload, no_overload_for};
use crate::value::{Evaluated, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "optional.of" => |_, args| args.first().cloned().map_or_else(no_overload, |value| Ok(Value::some(value))),
        "optional.ofNonZeroValue" => of_non_zero,
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "optional.unwrap" | "unwrapOpt" => unwrap_all,
        "hasValue" => |context, args| match args {
            [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
            _ => no_overload_for(context, args),
        },
        "value" => |context, args| match args {
            [Value::Optional(Some(inner))] => Ok((**inner).clone()),
            [Value::Optional(None)] => fail("optional.none() dereference"),
            _ => no_overload_for(context, args),
        },
        // Reached only through `transformMap`, whose accumulator the fold changes in place.
        "cel.@mapInsert" => |_, _| no_overload(),
        _ => return None,
    })
}

fn of_non_zero<'a>(_: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [value] = args else { return no_overload() };
    let is_zero = match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(duration) => duration.0 == 0,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.len() == 0,
        _ => false,
    };
    Ok(if is_zero { Value::Optional(None) } else { Value::some(value.clone()) })
}

fn unwrap_all<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    let mut present = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(inner)) => present.push((*inner).clone()),
            Value::Optional(None) => {}
            other => return fail(format!("value {} is not optional", super::convert::shown(&other))),
        }
    }
    Ok(Value::list(present))
}
