//! From the text of a JSONPath template to its parts.

use serde_json::Value;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a JSONPath template: {0}")]
pub struct ParseError(String);

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Node>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Root,
    Current,
    Key(String),
    Keys(Vec<String>),
    /// `*`
    All,
    /// `..`
    Everywhere,
    Indexes(Vec<i64>),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        stride: usize,
    },
    Filter(Box<Comparison>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub left: Operand,
    /// Without one, the left must exist.
    pub right: Option<(String, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

fn refuse<T>(why: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(why.into()))
}

pub fn template(text: &str) -> Result<Vec<Node>, ParseError> {
    // Each open range keeps what stands before it.
    let mut open: Vec<(Vec<Step>, Vec<Node>)> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(brace) = rest.find('{') else {
            nodes.push(Node::Text(rest.to_owned()));
            break;
        };
        if brace > 0 {
            nodes.push(Node::Text(rest[..brace].to_owned()));
        }
        let inside = &rest[brace + 1..];
        let Some(end) = closing_brace(inside) else { return refuse(format!("{{{inside} is not closed")) };
        let expression = inside[..end].trim();
        rest = &inside[end + 1..];
        if expression == "end" {
            let Some((steps, before)) = open.pop() else { return refuse("{end} without {range}") };
            let body = std::mem::replace(&mut nodes, before);
            nodes.push(Node::Range(steps, body));
        } else if let Some(over) = expression.strip_prefix("range ") {
            open.push((path(over.trim())?, std::mem::take(&mut nodes)));
        } else if expression.starts_with(['"', '\'']) {
            nodes.push(Node::Text(string(expression)?));
        } else {
            nodes.push(Node::Path(path(expression)?));
        }
    }
    if open.is_empty() { Ok(nodes) } else { refuse("{range} without {end}") }
}

/// Braces inside quotes do not count.
fn closing_brace(text: &str) -> Option<usize> {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}

/// A quoted string with its escapes.
fn string(text: &str) -> Result<String, ParseError> {
    let mut chars = text.chars();
    let quote = chars.next().unwrap_or('"');
    let mut out = String::new();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => {
                let rest = chars.as_str();
                return if rest.trim().is_empty() { Ok(out) } else { refuse(format!("{rest:?} after a string")) };
            }
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => return refuse(format!("{text} ends in a backslash")),
            }),
            c => out.push(c),
        }
    }
    refuse(format!("{text} is not closed"))
}

pub fn path(text: &str) -> Result<Vec<Step>, ParseError> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '$' => steps.push(Step::Root),
            '@' => steps.push(Step::Current),
            '.' if rest[1..].starts_with('.') => {
                steps.push(Step::Everywhere);
                rest = &rest[1..];
                // `..name` and `..[0]` both go on without a further dot.
                if !rest[1..].starts_with('[') {
                    rest = key_into(&rest[1..], &mut steps)?;
                    continue;
                }
            }
            '.' => {
                rest = key_into(&rest[1..], &mut steps)?;
                continue;
            }
            '[' => {
                let Some(end) = closing_bracket(rest) else { return refuse(format!("{rest} is not closed")) };
                steps.push(bracket(rest[1..end].trim())?);
                rest = &rest[end + 1..];
                continue;
            }
            _ => return refuse(format!("{rest:?} is not understood in {text:?}; a path starts with a dot")),
        }
        rest = &rest[first.len_utf8()..];
    }
    Ok(steps)
}

/// Reads a key; a backslash keeps a dot inside it.
fn key_into<'a>(text: &'a str, steps: &mut Vec<Step>) -> Result<&'a str, ParseError> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, escaped)) => key.push(escaped),
                None => return refuse(format!("{text} ends in a backslash")),
            },
            '.' | '[' => {
                end = at;
                break;
            }
            c if c.is_whitespace() => return refuse(format!("{text:?} has a space in a path")),
            c => key.push(c),
        }
    }
    match key.as_str() {
        "" => {}
        "*" => steps.push(Step::All),
        _ => steps.push(Step::Key(key)),
    }
    Ok(&text[end..])
}

fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote: Option<char> = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Result<Step, ParseError> {
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return Ok(Step::Filter(Box::new(comparison(filter.trim())?)));
    }
    if inside.starts_with(['\'', '"']) {
        let keys: Result<Vec<String>, ParseError> = inside.split(',').map(|key| string(key.trim())).collect();
        return Ok(Step::Keys(keys?));
    }
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| ParseError(format!("[{inside}] is not an index")));
    let optional = |text: Option<&str>| text.filter(|t| !t.trim().is_empty()).map(number).transpose();
    if inside.contains(':') {
        let mut parts = inside.split(':');
        let (start, end, stride) = (optional(parts.next())?, optional(parts.next())?, optional(parts.next())?);
        let stride = usize::try_from(stride.unwrap_or(1)).ok().filter(|s| *s > 0);
        return match (stride, parts.next()) {
            (Some(stride), None) => Ok(Step::Slice { start, end, stride }),
            _ => refuse(format!("[{inside}] is not a slice")),
        };
    }
    Ok(Step::Indexes(inside.split(',').map(number).collect::<Result<_, _>>()?))
}

fn comparison(text: &str) -> Result<Comparison, ParseError> {
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        if let Some((left, right)) = split_outside_quotes(text, operator) {
            let right = Some((operator.to_owned(), operand(right.trim())?));
            return Ok(Comparison { left: operand(left.trim())?, right });
        }
    }
    Ok(Comparison { left: operand(text)?, right: None })
}

fn split_outside_quotes<'a>(text: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let mut quote: Option<char> = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, _) if text[at..].starts_with(operator) => return Some((&text[..at], &text[at + operator.len()..])),
            (None, _) => {}
        }
    }
    None
}

fn operand(text: &str) -> Result<Operand, ParseError> {
    match text {
        "" => refuse("a comparison has nothing on one side"),
        _ if text.starts_with(['"', '\'']) => Ok(Operand::Literal(string(text)?.into())),
        _ if text.starts_with(['@', '$', '.']) => Ok(Operand::Path(path(text)?)),
        "true" => Ok(Operand::Literal(true.into())),
        "false" => Ok(Operand::Literal(false.into())),
        _ => match text.parse::<f64>() {
            Ok(number) => Ok(Operand::Literal(number.into())),
            Err(_) => refuse(format!("{text:?} is neither a path nor a value")),
        },
    }
}
