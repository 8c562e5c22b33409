//! The functions of expressions. Each accepts values of any type and fails with "no such overload" for the wrong
//! ones, because the types of dynamic operands are only known at run time.

mod arithmetic;
pub(crate) mod authorizer;
pub(crate) mod convert;
mod encoders;
pub(crate) mod format;
mod lists;
mod math;
pub(crate) mod named_format;
pub(crate) mod net;
mod numbers;
mod optional;
mod patch;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
mod sets;
mod strings;
mod timestamps;
pub(crate) mod url;

use crate::plan::Call;
use crate::value::{EvalError, Evaluated, Key, Value};
use std::collections::BTreeMap;

/// The context of a function call besides the arguments.
pub(crate) struct CallContext<'c> {
    pub(crate) call: &'c Call,
    /// Cost left for this evaluation; a function must not build anything larger.
    pub(crate) limit: u64,
}

pub(crate) type Function = for<'a, 'c> fn(&CallContext<'c>, &[Value<'a>]) -> Evaluated<'a>;

/// The implementation of a function, by its full name.
pub(crate) fn function(name: &str) -> Option<Function> {
    arithmetic::function(name)
        .or_else(|| convert::function(name))
        .or_else(|| strings::function(name))
        .or_else(|| lists::function(name))
        .or_else(|| timestamps::function(name))
        .or_else(|| optional::function(name))
        .or_else(|| regex::function(name))
        .or_else(|| sets::function(name))
        .or_else(|| url::function(name))
        .or_else(|| quantity::function(name))
        .or_else(|| semver::function(name))
        .or_else(|| net::function(name))
        .or_else(|| named_format::function(name))
        .or_else(|| authorizer::function(name))
        .or_else(|| math::function(name))
        .or_else(|| encoders::function(name))
        .or_else(|| patch::function(name))
}

pub(crate) fn no_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

/// Names the function and its argument types, as libraries' functions do.
pub(crate) fn no_overload_for<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let types: Vec<String> = args.iter().map(Value::type_name).collect();
    Err(EvalError::no_such_overload_of(&format!("{}({})", context.call.function, types.join(", "))))
}

/// Names the function if its first operand has no such operation at all, as the language's own functions do.
pub(crate) fn no_operation_for<'a>(context: &CallContext, first: &Value, first_supports: bool) -> Evaluated<'a> {
    // Types with methods produce their own, shorter errors.
    let has_methods = matches!(first, Value::String(_) | Value::Duration(_) | Value::Timestamp(_));
    if first_supports || has_methods {
        return no_overload();
    }
    Err(EvalError::no_such_overload_of(&context.call.function))
}

pub(crate) fn fail<'a>(message: impl Into<String>) -> Evaluated<'a> {
    Err(EvalError::new(message))
}

pub(crate) type Entries<'a> = BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>;

/// Adds an entry to a map under construction; a repeated key replaces the previous one.
pub(crate) fn insert_entry<'a>(entries: &mut Entries<'a>, key: Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
    let Some(lookup) = Key::of(&key) else {
        return Err(EvalError::new(format!("unsupported key type: {}", key.type_name())));
    };
    entries.insert(lookup, (key, value));
    Ok(())
}

/// `transformMap` and `transformMapEntry`: adds a key and value, or all entries of a map.
pub(crate) fn insert_all<'a>(entries: &mut Entries<'a>, args: Vec<Value<'a>>) -> Result<(), EvalError> {
    let added = match args.as_slice() {
        [key, value] => vec![(key.clone(), value.clone())],
        [Value::Map(map)] => map.entries()?,
        _ => return Err(EvalError::no_such_overload()),
    };
    for (key, value) in added {
        let Some(lookup) = Key::of(&key) else {
            return Err(EvalError::new(format!("unsupported key type: {}", key.type_name())));
        };
        if entries.contains_key(&lookup) {
            return Err(EvalError::new(format!("insert failed: key {} already exists", convert::shown(&key))));
        }
        entries.insert(lookup, (key, value));
    }
    Ok(())
}
