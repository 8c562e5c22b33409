//! Semantic versions.

use super::{CallContext, Function, no_overload_for};
use crate::value::{EvalError, Evaluated, Opaque, Value};
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug)]
pub struct Semver {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
}

/// Numbers sort before words, as the specification orders them.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => |context, args| {
            parse_args(context, args)?
                .map(|version| Value::Opaque(Opaque::Semver(Arc::new(version))))
                .map_err(EvalError::new)
        },
        "isSemver" => |context, args| Ok(Value::Bool(parse_args(context, args)?.is_ok())),
        "major" => |context, args| number(context, args, 0),
        "minor" => |context, args| number(context, args, 1),
        "patch" => |context, args| number(context, args, 2),
        _ => return None,
    })
}

fn parse_args(context: &CallContext, args: &[Value]) -> Result<Result<Semver, String>, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Semver::parse(&normalized(text))),
        _ => Err(no_overload_for(context, args).err().unwrap_or_else(EvalError::no_such_overload)),
    }
}

fn number<'a>(context: &CallContext, args: &[Value<'a>], index: usize) -> Evaluated<'a> {
    match args {
        [Value::Opaque(Opaque::Semver(version))] => Ok(Value::Int(version.numbers[index] as i64)),
        _ => no_overload_for(context, args),
    }
}

/// Drops a leading `v` and leading zeros, and adds missing numbers.
fn normalized(text: &str) -> String {
    let mut parts: Vec<String> =
        text.strip_prefix('v').unwrap_or(text).splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        // A short version must not have a suffix; leaving it short makes it invalid.
        return parts.join(".");
    }
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    parts.join(".")
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let numbers = [read_number("major", major)?, read_number("minor", minor)?, read_number("patch", patch)?];
        let prerelease = match prerelease {
            Some(text) => text.split('.').map(read_identifier).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_identifier_byte) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Self { numbers, prerelease })
    }

    /// Order by the specification; build data does not count.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.prerelease.cmp(&other.prerelease),
        })
    }
}

fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn read_number(name: &str, text: &str) -> Result<u64, String> {
    if text.bytes().any(|byte| !byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        let capital = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        return Err(format!("{capital} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
}

fn read_identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return text.parse().map(Identifier::Number).map_err(|_| format!("value out of range: {text:?}"));
    }
    if !text.bytes().all(is_identifier_byte) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Identifier::Word(text.to_owned()))
}
