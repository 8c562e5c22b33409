//! The functions of Go templates, and the two kubectl adds.

use std::borrow::Cow;
use std::cmp::Ordering;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use serde_json::Value;

use super::value::{Val, float};

/// Bytes of text one call may take. A loop can double a text again and again.
const TEXT_MAX: usize = 16 * 1024 * 1024;

pub fn call<'a>(name: &str, arguments: &[Val<'a>]) -> anyhow::Result<Val<'a>> {
    let text_len = |value: &Val<'_>| if let Val::Text(text) = value { text.len() } else { 0 };
    if arguments.iter().map(text_len).sum::<usize>() > TEXT_MAX {
        bail!("error calling {name}: its arguments have more than {TEXT_MAX} bytes of text");
    }
    let text = |text: String| Val::Text(Cow::Owned(text));
    match (name, arguments) {
        ("not", [one]) => Ok(Val::Bool(!one.is_true())),
        ("len", [one]) => len(one),
        ("index", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |found, key| index(&found, key)),
        ("slice", [first, rest @ ..]) => slice(first, rest),
        ("print", _) => Ok(text(print(arguments))),
        ("println", _) => Ok(text(arguments.iter().map(Val::show).collect::<Vec<_>>().join(" ") + "\n")),
        ("printf", [format, rest @ ..]) => Ok(text(printf(format, rest)?)),
        ("html", _) => Ok(text(escape_html(&print(arguments)))),
        ("urlquery", _) => Ok(text(escape_query(&print(arguments)))),
        ("js", _) => Ok(text(escape_script(&print(arguments)))),
        ("eq", [first, rest @ ..]) if !rest.is_empty() => {
            let mut is_equal = false;
            for other in rest {
                is_equal |= equal(first, other)?;
            }
            Ok(Val::Bool(is_equal))
        }
        ("ne", [a, b]) => Ok(Val::Bool(!equal(a, b)?)),
        ("lt", [a, b]) => Ok(Val::Bool(compare(a, b)? == Ordering::Less)),
        ("le", [a, b]) => Ok(Val::Bool(compare(a, b)? != Ordering::Greater)),
        ("gt", [a, b]) => Ok(Val::Bool(compare(a, b)? == Ordering::Greater)),
        ("ge", [a, b]) => Ok(Val::Bool(compare(a, b)? != Ordering::Less)),
        ("exists", [first, rest @ ..]) => Ok(Val::Bool(exists(first, rest))),
        ("base64decode", [one]) => {
            let decoded = STANDARD.decode(one.show()).context("error calling base64decode")?;
            Ok(text(String::from_utf8_lossy(&decoded).into_owned()))
        }
        (
            "not" | "len" | "index" | "slice" | "printf" | "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "exists"
            | "base64decode",
            _,
        ) => bail!("wrong number of args for {name}: got {}", arguments.len()),
        _ => bail!("function {name:?} not defined"),
    }
}

fn len<'a>(value: &Val<'a>) -> anyhow::Result<Val<'a>> {
    let length = match value {
        Val::Text(text) => text.len(),
        Val::Part(items) => items.len(),
        Val::Json(Value::Object(map)) => map.len(),
        Val::Missing => bail!("error calling len: len of nil pointer"),
        other => bail!("error calling len: len of type {}", other.kind()),
    };
    Ok(Val::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn index<'a>(value: &Val<'a>, key: &Val<'a>) -> anyhow::Result<Val<'a>> {
    match (value, key) {
        (Val::Json(Value::Object(map)), Val::Text(key)) => Ok(map.get(&**key).map_or(Val::Missing, Val::of)),
        (Val::Json(_), key) => bail!("error calling index: value has type {}; should be string", key.kind()),
        (Val::Part(items), Val::Int(place)) => {
            let found = usize::try_from(*place).ok().and_then(|place| items.get(place));
            found.map(Val::of).with_context(|| format!("error calling index: index out of range: {place}"))
        }
        (Val::Part(_), key) => bail!("error calling index: cannot index slice/array with type {}", key.kind()),
        (Val::Text(text), Val::Int(place)) => {
            let found = usize::try_from(*place).ok().and_then(|place| text.as_bytes().get(place).copied());
            let byte = found.with_context(|| format!("error calling index: index out of range: {place}"))?;
            Ok(Val::Int(byte.into()))
        }
        (Val::Missing, _) => bail!("error calling index: index of untyped nil"),
        (other, _) => bail!("error calling index: can't index item of type {}", other.kind()),
    }
}

fn slice<'a>(value: &Val<'a>, bounds: &[Val<'a>]) -> anyhow::Result<Val<'a>> {
    let length = match value {
        Val::Part(items) => items.len(),
        Val::Text(text) => text.len(),
        other => bail!("error calling slice: can't slice item of type {}", other.kind()),
    };
    let bound = |place: usize, default: usize| match bounds.get(place) {
        None => Ok(default),
        Some(Val::Int(number)) => usize::try_from(*number)
            .ok()
            .filter(|number| *number <= length)
            .with_context(|| format!("error calling slice: index out of range: {number}")),
        Some(other) => bail!("error calling slice: cannot index slice/array with type {}", other.kind()),
    };
    let (from, to) = (bound(0, 0)?, bound(1, length)?);
    if from > to {
        bail!("error calling slice: invalid slice index: {from} > {to}");
    }
    match value {
        Val::Part(items) => Ok(Val::Part(&items[from..to])),
        Val::Text(text) => {
            let part = text.get(from..to).context("error calling slice: within a letter")?;
            Ok(Val::Text(Cow::Owned(part.to_owned())))
        }
        _ => Ok(Val::Missing),
    }
}

/// Spaces between values of which neither is a string.
fn print(arguments: &[Val<'_>]) -> String {
    let mut out = String::new();
    for (place, value) in arguments.iter().enumerate() {
        let is_text = |value: &Val<'_>| matches!(value, Val::Text(_));
        if place > 0 && !is_text(value) && !is_text(&arguments[place - 1]) {
            out.push(' ');
        }
        out += &value.show();
    }
    out
}

fn equal(a: &Val<'_>, b: &Val<'_>) -> anyhow::Result<bool> {
    Ok(match (a, b) {
        (Val::Text(a), Val::Text(b)) => a == b,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) => a == b,
        (Val::Float(a), Val::Float(b)) => a == b,
        (Val::Missing, Val::Missing) => true,
        (Val::Missing, _) | (_, Val::Missing) => false,
        (Val::Json(_) | Val::Part(_), _) | (_, Val::Json(_) | Val::Part(_)) => {
            bail!("error calling eq: non-comparable types {}, {}", a.kind(), b.kind())
        }
        _ => return incompatible("eq", a, b),
    })
}

fn compare(a: &Val<'_>, b: &Val<'_>) -> anyhow::Result<Ordering> {
    match (a, b) {
        (Val::Text(a), Val::Text(b)) => Ok(a.cmp(b)),
        (Val::Int(a), Val::Int(b)) => Ok(a.cmp(b)),
        (Val::Float(a), Val::Float(b)) => Ok(a.total_cmp(b)),
        (Val::Int(_), Val::Float(_)) | (Val::Float(_), Val::Int(_)) => incompatible("lt", a, b),
        _ => bail!("error calling lt: invalid type for comparison: {}, {}", a.kind(), b.kind()),
    }
}

fn incompatible<T>(name: &str, a: &Val<'_>, b: &Val<'_>) -> anyhow::Result<T> {
    let hint = match (a, b) {
        (Val::Int(_), Val::Float(_)) | (Val::Float(_), Val::Int(_)) => {
            "; whole numbers of objects are integers: write 2 for 2.0"
        }
        _ => "",
    };
    bail!("error calling {name}: incompatible types for comparison{hint}")
}

/// kubectl's own: are all these keys there, one within the other?
fn exists(value: &Val<'_>, keys: &[Val<'_>]) -> bool {
    let mut found = value.clone();
    for key in keys {
        found = match index(&found, key) {
            Ok(Val::Missing) | Err(_) => return false,
            Ok(next) => next,
        };
    }
    true
}

fn printf(format: &Val<'_>, arguments: &[Val<'_>]) -> anyhow::Result<String> {
    let Val::Text(format) = format else { bail!("wrong type for value; expected string; got {}", format.kind()) };
    let mut out = String::new();
    let mut arguments = arguments.iter();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = letters.next_if(|letter| matches!(*letter, '-' | '+' | '0' | ' ' | '#')) {
            spec.flag(flag);
        }
        let mut number = || {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse::<usize>().ok().map(|number| number.min(WIDTH_MAX))
        };
        spec.width = number().unwrap_or(0);
        if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            spec.precision = Some(digits.parse::<usize>().unwrap_or(0).min(WIDTH_MAX));
        }
        match letters.next() {
            Some('%') => out.push('%'),
            Some(verb) => match arguments.next() {
                Some(value) => out += &spec.print(verb, value),
                None => out += &format!("%!{verb}(MISSING)"),
            },
            None => out += "%!(NOVERB)",
        }
    }
    let extra: Vec<String> = arguments.map(|value| format!("{}={}", value.kind(), value.show())).collect();
    if !extra.is_empty() {
        out += &format!("%!(EXTRA {})", extra.join(", "));
    }
    Ok(out)
}

/// No text gets longer than this by its width.
const WIDTH_MAX: usize = 10_000;

#[derive(Default)]
struct Spec {
    is_left: bool,
    has_sign: bool,
    is_zero_padded: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn flag(&mut self, flag: char) {
        match flag {
            '-' => self.is_left = true,
            '+' => self.has_sign = true,
            '0' => self.is_zero_padded = true,
            _ => {}
        }
    }

    fn print(&self, verb: char, value: &Val<'_>) -> String {
        let signed = |text: String, is_negative: bool| match self.has_sign && !is_negative {
            true => format!("+{text}"),
            false => text,
        };
        let text = match (verb, value) {
            ('v', value) => value.show(),
            ('s', Val::Text(text)) => match self.precision {
                Some(most) => text.chars().take(most).collect(),
                None => text.to_string(),
            },
            ('s', Val::Json(_) | Val::Part(_)) => value.show(),
            ('q', Val::Text(text)) => format!("{text:?}"),
            ('x', Val::Text(text)) => HEXLOWER.encode(text.as_bytes()),
            ('t', Val::Bool(value)) => value.to_string(),
            ('d', Val::Int(number)) => signed(number.to_string(), *number < 0),
            ('x', Val::Int(number)) => format!("{number:x}"),
            ('c', Val::Int(number)) => {
                u32::try_from(*number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}').into()
            }
            ('f', Val::Float(number)) => {
                signed(format!("{number:.precision$}", precision = self.precision.unwrap_or(6)), *number < 0.0)
            }
            ('g', Val::Float(number)) => signed(float(*number), *number < 0.0),
            ('e', Val::Float(number)) => {
                let text = format!("{number:.precision$e}", precision = self.precision.unwrap_or(6));
                match text.split_once('e').and_then(|(digits, power)| Some((digits, power.parse::<i32>().ok()?))) {
                    Some((digits, power)) if power < 0 => format!("{digits}e-{:02}", -power),
                    Some((digits, power)) => format!("{digits}e+{power:02}"),
                    None => text,
                }
            }
            ('T', value) => value.kind().to_owned(),
            (verb, Val::Missing) => format!("%!{verb}(<nil>)"),
            (verb, value) => format!("%!{verb}({}={})", value.kind(), value.show()),
        };
        self.pad(text, verb)
    }

    fn pad(&self, text: String, verb: char) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let is_number = matches!(verb, 'd' | 'f' | 'g' | 'e' | 'x');
        match (self.is_left, self.is_zero_padded && is_number) {
            (true, _) => text + &" ".repeat(missing),
            (false, true) => match text.strip_prefix('-') {
                Some(digits) => format!("-{}{digits}", "0".repeat(missing)),
                None => "0".repeat(missing) + &text,
            },
            (false, false) => " ".repeat(missing) + &text,
        }
    }
}

fn escape_html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&#34;").replace('\'', "&#39;")
}

fn escape_query(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        b' ' => "+".to_owned(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn escape_script(text: &str) -> String {
    let escape = |letter: char| match letter {
        '\\' | '\'' | '"' => format!("\\{letter}"),
        '<' | '>' | '&' | '=' => format!("\\u{:04X}", u32::from(letter)),
        letter if letter < ' ' => format!("\\u{:04X}", u32::from(letter)),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
}
