//! String functions. Positions count code points.

use super::{CallContext, Function, fail, format, no_overload, no_overload_for};
use crate::value::{EvalError, Evaluated, Text, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |_, args| test(args, |text, part| text.contains(part)),
        "startsWith" => |_, args| test(args, |text, part| text.starts_with(part)),
        "endsWith" => |_, args| test(args, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "join" => join,
        "lowerAscii" => |context, args| map(context, args, |text| text.to_ascii_lowercase()),
        "upperAscii" => |context, args| map(context, args, |text| text.to_ascii_uppercase()),
        "trim" => |context, args| map(context, args, |text| text.trim().to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "strings.quote" => |context, args| map(context, args, quote),
        "format" => format::format,
        _ => return None,
    })
}

fn test<'a>(args: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => no_overload(),
    }
}

fn map<'a>(context: &CallContext, args: &[Value<'a>], change: fn(&str) -> String) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(change(text))),
        _ => no_overload_for(context, args),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

fn char_at<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return no_overload_for(context, args) };
    let length = text.chars().count() as i64;
    if *index == length {
        return Ok(Value::text(""));
    }
    let found = usize::try_from(*index).ok().and_then(|index| text.chars().nth(index));
    found.map(|c| Value::text(c.to_string())).ok_or_else(|| out_of_range(*index))
}

/// The first (or last) position of a substring, from an optional start; -1 if not found.
pub(super) fn index_of<'a>(args: &[Value<'a>], last: bool) -> Evaluated<'a> {
    let (Some(Value::String(text)), Some(Value::String(part))) = (args.first(), args.get(1)) else {
        return no_overload();
    };
    let chars: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let start = match args.get(2) {
        None if last && part.is_empty() => chars.len() as i64,
        None if last => (chars.len() as i64 - 1).max(0),
        None => 0,
        Some(Value::Int(start)) => *start,
        Some(_) => return no_overload(),
    };
    if part.is_empty() {
        return Ok(Value::Int(start));
    }
    let Ok(start_index) = usize::try_from(start) else { return Err(out_of_range(start)) };
    if start_index >= chars.len() {
        return Ok(Value::Int(-1));
    }
    let stands_at = |at: &usize| chars[*at..].starts_with(&part);
    let found = if last { (0..=start_index).rev().find(stands_at) } else { (start_index..chars.len()).find(stands_at) };
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn join<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return no_overload_for(context, args),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match item? {
            Value::String(text) => joined.push_str(&text),
            other => return fail(format!("join: invalid input: {}", super::convert::shown(&other))),
        }
    }
    Ok(Value::text(joined))
}

fn replace<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let (Some(Value::String(text)), Some(Value::String(from)), Some(Value::String(to))) =
        (args.first(), args.get(1), args.get(2))
    else {
        return no_overload_for(context, args);
    };
    // Every code point may be replaced: fail before building a result that exceeds the budget.
    let result_max = (text.chars().count() as u64 + 1).saturating_mul(to.len() as u64 + 1);
    if result_max / 10 > context.limit.saturating_mul(20) {
        return Err(EvalError::CostLimit);
    }
    let replaced = match args.get(3) {
        None => text.replace(&**from, to),
        Some(Value::Int(count)) if *count < 0 => text.replace(&**from, to),
        Some(Value::Int(count)) => text.replacen(&**from, to, usize::try_from(*count).unwrap_or(usize::MAX)),
        Some(_) => return no_overload_for(context, args),
    };
    Ok(Value::text(replaced))
}

fn split<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let (Some(Value::String(text)), Some(Value::String(separator))) = (args.first(), args.get(1)) else {
        return no_overload_for(context, args);
    };
    let limit = match args.get(2) {
        None => usize::MAX,
        Some(Value::Int(limit)) if *limit < 0 => usize::MAX,
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return no_overload_for(context, args),
    };
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let parts: Vec<Value> = if separator.is_empty() {
        split_characters(text, limit)
    } else {
        text.splitn(limit, &**separator).map(|part| Value::text(part.to_owned())).collect()
    };
    Ok(Value::list(parts))
}

/// One part per character; the last takes the rest when the limit is reached.
fn split_characters<'a>(text: &str, limit: usize) -> Vec<Value<'a>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(Value::text(rest.to_owned()));
            break;
        }
        parts.push(Value::text(c.to_string()));
        rest = &rest[c.len_utf8()..];
    }
    parts
}

fn substring<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return no_overload_for(context, args),
    };
    let length = text.chars().count() as i64;
    let end_or_length = end.unwrap_or(length);
    if end.is_some() && start > end_or_length {
        return fail(format!("invalid substring range. start: {start}, end: {end_or_length}"));
    }
    if start < 0 || start > length {
        return Err(out_of_range(start));
    }
    if end_or_length < 0 || end_or_length > length {
        return Err(out_of_range(end_or_length));
    }
    let part: String = text.chars().skip(start as usize).take((end_or_length - start) as usize).collect();
    Ok(Value::String(Text::from(part)))
}

/// A string literal that parses back to the text.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
