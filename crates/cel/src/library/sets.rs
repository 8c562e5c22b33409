//! Lists treated as sets.

use super::{CallContext, Function, no_overload_for};
use crate::value::{EvalError, Evaluated, List, Value, equal};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sets.contains" => |context, args| relate(context, args, contains_all),
        "sets.equivalent" => {
            |context, args| relate(context, args, |a, b| Ok(contains_all(a, b)? && contains_all(b, a)?))
        }
        "sets.intersects" => |context, args| relate(context, args, intersects),
        _ => return None,
    })
}

type Relation = for<'a> fn(&[Value<'a>], &[Value<'a>]) -> Result<bool, EvalError>;

fn relate<'a>(context: &CallContext, args: &[Value<'a>], relation: Relation) -> Evaluated<'a> {
    let [Value::List(a), Value::List(b)] = args else { return no_overload_for(context, args) };
    affordable(context, a, b)?;
    relation(&a.values()?, &b.values()?).map(Value::Bool)
}

/// Fails before doing more comparisons than the cost limit allows.
fn affordable(context: &CallContext, a: &List, b: &List) -> Result<(), EvalError> {
    let comparisons = (a.len() as u64).saturating_mul(b.len() as u64);
    if comparisons > context.limit { Err(EvalError::CostLimit) } else { Ok(()) }
}

fn contains<'a>(list: &[Value<'a>], wanted: &Value<'a>) -> Result<bool, EvalError> {
    for item in list {
        if equal(item, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains_all<'a>(list: &[Value<'a>], wanted: &[Value<'a>]) -> Result<bool, EvalError> {
    for item in wanted {
        if !contains(list, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(a: &[Value<'a>], b: &[Value<'a>]) -> Result<bool, EvalError> {
    for item in a {
        if contains(b, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}
