//! Regular expressions with RE2 syntax.

use super::{CallContext, Function, no_overload};
use crate::value::{EvalError, Evaluated, Value};
use regex::{Regex, RegexBuilder};
use std::borrow::Cow;

/// Maximum compiled size of a pattern in bytes.
const PATTERN_SIZE_MAX: usize = 1 << 20;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_SIZE_MAX)
        .build()
        .map_err(|error| EvalError::new(format!("error parsing regexp: {}", last_line(&error))))
}

fn last_line(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// The precompiled pattern, or one compiled now if it is not a literal.
fn pattern<'c>(context: &'c CallContext, text: &str) -> Result<Cow<'c, Regex>, EvalError> {
    match &context.call.regex {
        Some(regex) => Ok(Cow::Borrowed(regex)),
        None => compile(text).map(Cow::Owned),
    }
}

fn illegal(error: EvalError) -> EvalError {
    EvalError::new(format!("Illegal regex: {error}"))
}

fn matches<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(regex)] = args else { return no_overload() };
    Ok(Value::Bool(pattern(context, regex)?.is_match(text)))
}

fn find<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(regex)] = args else { return no_overload() };
    let regex = pattern(context, regex).map_err(illegal)?;
    Ok(Value::text(regex.find(text).map_or(String::new(), |found| found.as_str().to_owned())))
}

fn find_all<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, regex, limit) = match args {
        [Value::String(text), Value::String(regex)] => (text, regex, -1),
        [Value::String(text), Value::String(regex), Value::Int(limit)] => (text, regex, *limit),
        _ => return no_overload(),
    };
    let regex = pattern(context, regex).map_err(illegal)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = regex.find_iter(text).take(limit).map(|found| Value::text(found.as_str().to_owned()));
    Ok(Value::list(found.collect()))
}
