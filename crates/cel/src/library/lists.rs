//! List functions of Kubernetes and of cel-go's list extension.

use super::{CallContext, Function, fail, no_overload, no_overload_for, strings};
use crate::value::{EvalError, Evaluated, List, Value, compare, equal};
use std::cmp::Ordering;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "max" => |context, args| extreme(context, args, Ordering::Greater),
        "min" => |context, args| extreme(context, args, Ordering::Less),
        "indexOf" => |context, args| index_of(context, args, false),
        "lastIndexOf" => |context, args| index_of(context, args, true),
        "slice" => slice,
        "flatten" => flatten,
        "sort" => sort,
        "@sortByAssociatedKeys" => sort_by_keys,
        "distinct" => distinct,
        "reverse" => reverse,
        "first" => |context, args| end(context, args, |list| list.get(0)),
        "last" => |context, args| end(context, args, |list| list.get(list.len().checked_sub(1)?)),
        "lists.range" => range,
        _ => return None,
    })
}

fn is_sorted<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    let items = list.values()?;
    for pair in items.windows(2) {
        if compare(&pair[0], &pair[1])? == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    let mut items = list.iter();
    let Some(first) = items.next() else {
        // The sum of an empty list is the zero of its declared type.
        return Ok(match context.call.overload {
            Some("list_uint_sum_uint") => Value::Uint(0),
            Some("list_double_sum_double") => Value::Double(0.0),
            Some("list_duration_sum_duration") => Value::Duration(crate::value::time::Duration(0)),
            _ => Value::Int(0),
        });
    };
    let mut total = first?;
    for item in items {
        total = match (&total, &item?) {
            (Value::Int(a), Value::Int(b)) => {
                Value::Int(a.checked_add(*b).ok_or_else(|| EvalError::new("integer overflow"))?)
            }
            (Value::Uint(a), Value::Uint(b)) => {
                Value::Uint(a.checked_add(*b).ok_or_else(|| EvalError::new("unsigned integer overflow"))?)
            }
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Duration(a), Value::Duration(b)) => {
                Value::Duration(a.checked_add(*b).ok_or_else(|| EvalError::new("duration overflow"))?)
            }
            _ => return no_overload(),
        };
    }
    Ok(total)
}

fn extreme<'a>(context: &CallContext, args: &[Value<'a>], wanted: Ordering) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    let mut best: Option<Value> = None;
    for item in list.iter() {
        let item = item?;
        let better = match &best {
            None => true,
            Some(best) => compare(&item, best)? == Some(wanted),
        };
        if better {
            best = Some(item);
        }
    }
    best.map_or_else(|| fail(format!("{} called on empty list", context.call.function)), Ok)
}

fn index_of<'a>(context: &CallContext, args: &[Value<'a>], last: bool) -> Evaluated<'a> {
    let [Value::List(list), wanted] = args else {
        return if matches!(args.first(), Some(Value::String(_))) {
            strings::index_of(args, last)
        } else {
            no_overload_for(context, args)
        };
    };
    let mut found = -1;
    for (index, item) in list.iter().enumerate() {
        if equal(&item?, wanted)? {
            found = index as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn slice<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return no_overload_for(context, args) };
    let length = list.len() as i64;
    if *start < 0 || *end < 0 {
        return fail(format!("cannot slice({start}, {end}), negative indexes not supported"));
    }
    if start > end {
        return fail(format!("cannot slice({start}, {end}), start index must be less than or equal to end index"));
    }
    if *end > length {
        return fail(format!("cannot slice({start}, {end}), list is length {length}"));
    }
    let items: Result<Vec<Value>, EvalError> =
        (*start as usize..*end as usize).filter_map(|index| list.get(index)).collect();
    items.map(Value::list)
}

fn flatten<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return no_overload_for(context, args),
    };
    if depth < 0 {
        return fail("level must be non-negative");
    }
    let mut out = Vec::new();
    flatten_into(list, depth, &mut out)?;
    Ok(Value::list(out))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out)?,
            other => out.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    let items = list.values()?;
    sorted(items.clone(), items)
}

fn sort_by_keys<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::List(keys)] = args else { return no_overload_for(context, args) };
    sorted(keys.values()?, list.values()?)
}

/// The items sorted by their keys; stable.
fn sorted<'a>(keys: Vec<Value<'a>>, items: Vec<Value<'a>>) -> Evaluated<'a> {
    if keys.len() != items.len() {
        return fail(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, \
             but got {} and {} elements respectively",
            items.len(),
            keys.len()
        ));
    }
    let mut failure = None;
    let mut pairs: Vec<(Value, Value)> = keys.into_iter().zip(items).collect();
    if let Some((first, _)) = pairs.first()
        && compare(first, first).is_err()
    {
        return fail("list elements must be comparable");
    }
    pairs.sort_by(|(a, _), (b, _)| match compare(a, b) {
        Ok(ordering) if a.type_name() == b.type_name() => ordering.unwrap_or(Ordering::Equal),
        _ => {
            failure = Some(EvalError::new("list elements must have the same type"));
            Ordering::Equal
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect())),
    }
}

fn distinct<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    // The cost counts pairwise comparisons; stop before exceeding the limit.
    let length = list.len() as u64;
    if length.saturating_mul(length) > context.limit {
        return Err(EvalError::CostLimit);
    }
    let mut kept: Vec<Value> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut known = false;
        for other in &kept {
            known = known || equal(&item, other)?;
        }
        if !known {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn reverse<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    let mut items = list.values()?;
    items.reverse();
    Ok(Value::list(items))
}

fn end<'a>(context: &CallContext, args: &[Value<'a>], pick: fn(&List<'a>) -> Option<Evaluated<'a>>) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return no_overload_for(context, args) };
    match pick(list) {
        Some(item) => item.map(Value::some),
        None => Ok(Value::Optional(None)),
    }
}

fn range<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Int(count)] = args else { return no_overload_for(context, args) };
    if u64::try_from(*count).is_ok_and(|count| count > context.limit) {
        return Err(EvalError::CostLimit);
    }
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}
