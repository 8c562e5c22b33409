//! Parses the path between the braces of a template.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use super::{JsonPath, JsonPathStep, Operator, Slice};

/// Nested filters and unions deeper than this are refused, so that a definition cannot exhaust the stack.
const DEPTH_MAX: usize = 8;

impl JsonPath {
    pub(super) fn parse_nested(text: &str, depth: usize) -> Result<Self, String> {
        if depth > DEPTH_MAX {
            return Err("path is nested too deeply".to_owned());
        }
        Parser { rest: text.chars().peekable(), depth, steps: Vec::new() }.run()
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
    steps: Vec<JsonPathStep>,
}

impl Parser<'_> {
    fn run(mut self) -> Result<JsonPath, String> {
        while let Some(c) = self.rest.next() {
            match c {
                '$' if self.steps.is_empty() => self.steps.push(JsonPathStep::Root),
                ' ' | '@' | '$' => {}
                '.' if self.rest.peek() == Some(&'.') => {
                    self.rest.next();
                    self.recursive()?;
                }
                '.' => self.field(),
                '[' => self.bracket()?,
                '"' | '\'' => self.quoted(c)?,
                '+' | '-' | '0'..='9' => self.number(c)?,
                c if c == '_' || c.is_alphanumeric() => self.word(c)?,
                '\r' | '\n' => return Err("unclosed action".to_owned()),
                other => return Err(format!("unrecognized character in action: U+{:04X} '{other}'", other as u32)),
            }
        }
        Ok(JsonPath { steps: self.steps })
    }

    fn recursive(&mut self) -> Result<(), String> {
        if self.steps.last() == Some(&JsonPathStep::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.steps.push(JsonPathStep::Recursive);
        if self.rest.peek().is_some_and(|c| *c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    /// A name up to the next separator; a backslash takes the separator behind it into the name.
    fn field(&mut self) {
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(|c| !is_terminator(*c)) {
            if c == '\\' { name.extend(self.rest.next()) } else { name.push(c) }
        }
        match name.as_str() {
            // A lone dot is the value itself.
            "" => {}
            "*" => self.steps.push(JsonPathStep::Wildcard),
            _ => self.steps.push(JsonPathStep::Field(name)),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some('\\') => text.push(match self.rest.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(escaped) => escaped,
                    None => return Err("unterminated quoted string".to_owned()),
                }),
                Some(c) if c == quote => break,
                Some(c) => text.push(c),
            }
        }
        self.steps.push(JsonPathStep::Literal(text.into()));
        Ok(())
    }

    fn number(&mut self, first: char) -> Result<(), String> {
        let mut text = String::from(first);
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_digit() || *c == '.') {
            text.push(c);
        }
        let whole = text.strip_prefix('+').unwrap_or(&text).parse::<i64>();
        let value = match whole {
            Ok(whole) => Value::from(whole),
            Err(_) => text.parse::<f64>().map(Value::from).map_err(|_| format!("cannot parse number {text}"))?,
        };
        self.steps.push(JsonPathStep::Literal(value));
        Ok(())
    }

    fn word(&mut self, first: char) -> Result<(), String> {
        let mut word = String::from(first);
        while let Some(c) = self.rest.next_if(|c| !is_terminator(*c)) {
            word.push(c);
        }
        match word.as_str() {
            "true" => self.steps.push(JsonPathStep::Literal(true.into())),
            "false" => self.steps.push(JsonPathStep::Literal(false.into())),
            other => return Err(format!("unrecognized identifier {other}")),
        }
        Ok(())
    }

    fn bracket(&mut self) -> Result<(), String> {
        if self.rest.peek() == Some(&'?') {
            return self.filter();
        }
        let mut text = String::new();
        let mut quote = None;
        loop {
            let c = self.rest.next().filter(|c| *c != '\n').ok_or("unterminated array")?;
            match (c, quote) {
                (']', None) => break,
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                _ => {}
            }
            text.push(c);
        }
        let step = self.subscript(&text)?;
        self.steps.extend(step);
        Ok(())
    }

    fn subscript(&self, text: &str) -> Result<Vec<JsonPathStep>, String> {
        if text == "*" {
            return Ok(vec![JsonPathStep::Slice(Slice::default())]);
        }
        if text.contains(',') {
            let member = |part: &str| JsonPath::parse_nested(&format!("[{}]", part.trim_matches(' ')), self.depth + 1);
            let members: Result<Vec<_>, _> = text.split(',').map(member).collect();
            return Ok(vec![JsonPathStep::Union(members?)]);
        }
        if let Some(key) = quoted_key(text) {
            let fields = JsonPath::parse_nested(&format!(".{key}"), self.depth + 1);
            let fields = fields.map(|path| path.steps).unwrap_or_default();
            return Ok(vec![JsonPathStep::Key { name: key.replace('\\', ""), fields }]);
        }
        slice(text).map(|slice| vec![JsonPathStep::Slice(slice)])
    }

    /// `[?(left operator right)]`; a closing parenthesis inside quotes does not end it.
    fn filter(&mut self) -> Result<(), String> {
        self.rest.next();
        if self.rest.next() != Some('(') {
            return Err("invalid array index ?".to_owned());
        }
        let mut text = String::new();
        let mut quote = None;
        loop {
            let c = self.rest.next().filter(|c| *c != '\n').ok_or("unterminated filter")?;
            match (c, quote) {
                (')', None) => break,
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open && !text.ends_with('\\') => quote = None,
                _ => {}
            }
            text.push(c);
        }
        if self.rest.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let nested = |text: &str| match text.trim() {
            "" => Err("a comparison has nothing on one side".to_owned()),
            text => JsonPath::parse_nested(text, self.depth + 1),
        };
        let split = text.find(['!', '<', '>', '=']).filter(|at| *at > 0);
        let step = match split {
            None => JsonPathStep::Filter {
                left: nested(&text)?,
                operator: Operator::Exists,
                right: JsonPath { steps: vec![] },
            },
            Some(at) => {
                let (left, rest) = text.split_at(at);
                let width = rest.find(|c| !"!<>=".contains(c)).unwrap_or(rest.len());
                let (operator, right) = rest.split_at(width);
                JsonPathStep::Filter { left: nested(left)?, operator: read_operator(operator)?, right: nested(right)? }
            }
        };
        self.steps.push(step);
        Ok(())
    }
}

/// The text between quotes of the same kind.
fn quoted_key(text: &str) -> Option<&str> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote).filter(|key| !key.contains(quote)))
}

fn read_operator(text: &str) -> Result<Operator, String> {
    Ok(match text {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => return Err(format!("unrecognized filter operator {other}")),
    })
}

fn slice(text: &str) -> Result<Slice, String> {
    let refuse = || format!("invalid array index {text}");
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(refuse());
    }
    let number = |part: &str| match part {
        "" => Ok(None),
        digits if digits.strip_prefix('-').unwrap_or(digits).bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse::<i64>().map(Some).map_err(|_| format!("array index {digits} is not a number"))
        }
        _ => Err(refuse()),
    };
    let start = number(parts[0])?;
    match parts.len() {
        1 => Ok(Slice { start, end: Some(start.unwrap_or(0).saturating_add(1)), single: true, step: None }),
        2 => Ok(Slice { start, end: number(parts[1])?, single: false, step: None }),
        _ => Ok(Slice { start, end: number(parts[1])?, single: false, step: number(parts[2])? }),
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}
