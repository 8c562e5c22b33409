//! The string library, bounded: functions that could exhaust memory are limited, those that could run forever check
//! the deadline.

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use super::arguments::{Arguments, LuaResult, function, internal};
use super::deadline::Deadline;
use super::format::{self, Argument};
use super::numbers;
use super::pattern::{self, Capture, Match};

/// Longer strings are rejected by every function of the library.
const PARAMETER_BYTES_MAX: usize = 1_000_000;
/// Maximum number of values returned by one call.
const BYTES_RETURNED_MAX: i64 = 4_000;
/// Maximum number of matches in one string.
const MATCHES_MAX: usize = 1_000_000;

/// Functions by name, in the form of `arguments::function`.
pub fn functions(lua: &Lua, deadline: &Deadline) -> Result<Table> {
    let table = lua.create_table()?;
    let put = |name: &'static str, made: Result<Function>| table.raw_set(name, made?);
    put("byte", function(lua, "byte", |_, arguments| byte(&arguments)))?;
    put("char", function(lua, "char", |lua, arguments| char(lua, &arguments)))?;
    put("format", function(lua, "format", |lua, arguments| format(lua, &arguments)))?;
    put("len", function(lua, "len", |_, arguments| Ok(one(Value::Number(arguments.bytes(1)?.len() as f64)))))?;
    put("lower", function(lua, "lower", |lua, arguments| cased(lua, &arguments, str::to_lowercase)))?;
    put("upper", function(lua, "upper", |lua, arguments| cased(lua, &arguments, str::to_uppercase)))?;
    put(
        "reverse",
        function(lua, "reverse", |lua, arguments| {
            let mut text = text(&arguments, 1)?;
            text.reverse();
            string(lua, &text).map(one)
        }),
    )?;
    put("sub", function(lua, "sub", |lua, arguments| sub(lua, &arguments)))?;
    let clock = deadline.clone();
    put("find", function(lua, "find", move |lua, arguments| find(lua, &arguments, &clock)))?;
    let clock = deadline.clone();
    put("match", function(lua, "match", move |lua, arguments| match_(lua, &arguments, &clock)))?;
    let clock = deadline.clone();
    put("gmatch", function(lua, "gmatch", move |lua, arguments| gmatch(lua, &arguments, &clock)))?;
    put(
        "number",
        function(lua, "tostring", |lua, arguments| {
            string(lua, numbers::text(arguments.number(1)?).as_bytes()).map(one)
        }),
    )?;
    Ok(table)
}

fn one(value: Value) -> MultiValue {
    MultiValue::from_iter([value])
}

fn string(lua: &Lua, bytes: &[u8]) -> std::result::Result<Value, String> {
    lua.create_string(bytes).map(Value::String).map_err(internal)
}

fn text(arguments: &Arguments, index: usize) -> std::result::Result<Vec<u8>, String> {
    let text = arguments.bytes(index)?;
    let length = text.len();
    if length > PARAMETER_BYTES_MAX {
        return Err(format!(
            "string length {length} exceeds the maximum allowed input string length {PARAMETER_BYTES_MAX} in Karmada lua string lib, please check your lua script."
        ));
    }
    Ok(text)
}

/// Converts a position counted from one, or from the end if negative, to one counted from zero.
fn position(position: i64, length: usize) -> i64 {
    if position >= 0 { position } else { (length as i64 + position + 1).max(0) }
}

fn byte(arguments: &Arguments) -> LuaResult {
    let text = text(arguments, 1)?;
    let first = position(arguments.int_or(2, 1)?, text.len()).max(1);
    let last = position(arguments.int_or(3, first)?, text.len()).min(text.len() as i64);
    if last - first >= BYTES_RETURNED_MAX {
        return Err("string slice too long".to_owned());
    }
    let bytes = text.get(first as usize - 1..(last.max(first - 1)) as usize).unwrap_or_default();
    Ok(bytes.iter().map(|byte| Value::Number(f64::from(*byte))).collect())
}

fn char(lua: &Lua, arguments: &Arguments) -> LuaResult {
    let bytes: std::result::Result<Vec<u8>, String> =
        (1..=arguments.count()).map(|index| arguments.int(index).map(|code| code as u8)).collect();
    string(lua, &bytes?).map(one)
}

fn cased(lua: &Lua, arguments: &Arguments, change: fn(&str) -> String) -> LuaResult {
    let text = text(arguments, 1)?;
    string(lua, change(&String::from_utf8_lossy(&text)).as_bytes()).map(one)
}

fn sub(lua: &Lua, arguments: &Arguments) -> LuaResult {
    let text = text(arguments, 1)?;
    let first = position(arguments.int(2)?, text.len()).max(1);
    let last = position(arguments.int_or(3, -1)?, text.len()).min(text.len() as i64);
    let part = if first > last { &[][..] } else { &text[first as usize - 1..last as usize] };
    string(lua, part).map(one)
}

fn format(lua: &Lua, arguments: &Arguments) -> LuaResult {
    let template = text(arguments, 1)?;
    let read = |index: usize| match arguments.get(index) {
        Value::Integer(number) => Ok(Argument::Number(*number as f64)),
        Value::Number(number) => Ok(Argument::Number(*number)),
        Value::String(_) => Ok(Argument::Text(text(arguments, index)?)),
        other => Ok(Argument::Other(other.to_string().map_err(internal)?)),
    };
    let values: std::result::Result<Vec<Argument>, String> = (2..=arguments.count()).map(read).collect();
    string(lua, &format::format(&template, &values?)?).map(one)
}

/// The start of a search, counted from zero; `None` after the end.
fn start(arguments: &Arguments, index: usize, length: usize) -> std::result::Result<Option<usize>, String> {
    let start = position(arguments.int_or(index, 1)?, length).max(1) as usize - 1;
    Ok((start <= length).then_some(start))
}

fn find(lua: &Lua, arguments: &Arguments, deadline: &Deadline) -> LuaResult {
    let (subject, wanted) = (text(arguments, 1)?, text(arguments, 2)?);
    let Some(start) = start(arguments, 3, subject.len())? else { return Ok(one(Value::Nil)) };
    let is_plain = arguments.is_true(4) || !wanted.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    let found = if is_plain {
        plain(&subject, &wanted, start, deadline)?
    } else {
        pattern::find(&subject, &wanted, start, deadline)?
    };
    let Some(found) = found else { return Ok(one(Value::Nil)) };
    let mut results = MultiValue::from_iter([Value::Number(found.start as f64 + 1.0), Value::Number(found.end as f64)]);
    for capture in &found.captures {
        results.push_back(captured(lua, &subject, *capture)?);
    }
    Ok(results)
}

/// A plain text search.
fn plain(
    subject: &[u8],
    wanted: &[u8],
    start: usize,
    deadline: &Deadline,
) -> std::result::Result<Option<Match>, String> {
    deadline.check()?;
    let at = if wanted.is_empty() {
        Some(start)
    } else {
        memchr::memmem::find(&subject[start..], wanted).map(|at| start + at)
    };
    Ok(at.map(|at| Match { start: at, end: at + wanted.len(), captures: Vec::new() }))
}

fn match_(lua: &Lua, arguments: &Arguments, deadline: &Deadline) -> LuaResult {
    let (subject, wanted) = (text(arguments, 1)?, text(arguments, 2)?);
    let Some(start) = start(arguments, 3, subject.len())? else { return Ok(one(Value::Nil)) };
    match pattern::find(&subject, &wanted, start, deadline)? {
        Some(found) => captures(lua, &subject, &found),
        None => Ok(one(Value::Nil)),
    }
}

/// All matches at once, as an iterator.
fn gmatch(lua: &Lua, arguments: &Arguments, deadline: &Deadline) -> LuaResult {
    let (subject, wanted) = (text(arguments, 1)?, text(arguments, 2)?);
    let mut matches = Vec::new();
    let mut at = 0;
    while let Some(found) = pattern::find(&subject, &wanted, at, deadline)? {
        // Skips past an empty match, which would be found again forever.
        at = if found.end > found.start { found.end } else { found.end + 1 };
        matches.push(found);
        if at > subject.len() || matches.len() >= MATCHES_MAX {
            break;
        }
    }
    let mut matches = matches.into_iter();
    let next = lua.create_function_mut(move |lua, ()| match matches.next() {
        Some(found) => captures(lua, &subject, &found).map_err(mlua::Error::runtime),
        None => Ok(one(Value::Nil)),
    });
    next.map(|next| one(Value::Function(next))).map_err(internal)
}

/// The captures, or the whole match if there are none.
fn captures(lua: &Lua, subject: &[u8], found: &Match) -> LuaResult {
    if found.captures.is_empty() {
        return string(lua, &subject[found.start..found.end]).map(one);
    }
    found.captures.iter().map(|capture| captured(lua, subject, *capture)).collect()
}

fn captured(lua: &Lua, subject: &[u8], capture: Capture) -> std::result::Result<Value, String> {
    match capture {
        Capture::Part(start, end) => string(lua, &subject[start..end]),
        Capture::Position(position) => Ok(Value::Number(position as f64)),
    }
}
