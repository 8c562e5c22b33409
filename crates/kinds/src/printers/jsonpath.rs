//! The JSONPath dialect of kubectl and of CRD printer columns: fields, keys, indexes, slices, unions, wildcards,
//! recursive descent and filters. Templates (text around braces, range) belong to clients and are not supported.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::str::Chars;

use object::Object;
use serde_json::Value;

/// Deeper nesting of filters and unions is rejected, so that a definition cannot exhaust the stack.
const DEPTH_MAX: usize = 8;

/// A parsed path, relative to a root value.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<JsonPathStep>,
}

#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    Field(String),
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<JsonPath>),
    Filter { left: JsonPath, operator: Operator, right: JsonPath },
    Literal(Value),
}

/// `[start:end:step]`; a single index has `end` one further.
#[derive(Clone, Debug, Default, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// The end was not written but follows from a single index.
    single: bool,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses the expression inside the braces of a kubectl template, such as
    /// `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_nested(text, 0)
    }

    fn parse_nested(text: &str, depth: usize) -> Result<Self, String> {
        if depth > DEPTH_MAX {
            return Err("path is nested too deeply".to_owned());
        }
        Parser { rest: text.chars().peekable(), depth, steps: Vec::new() }.run()
    }

    /// All values the path selects; missing keys select nothing, a wrong type in between is an error.
    pub fn find<'a>(&'a self, root: &'a Value) -> Result<Vec<&'a Value>, String> {
        walk(&self.steps, vec![root])
    }

    /// The same from an object. Most paths start with a field, and then nothing is copied.
    pub fn find_first(&self, object: &Object) -> Option<Value> {
        if let Some((JsonPathStep::Field(name), rest)) = self.steps.split_first() {
            let start = object.get(&[name]).into_iter().collect();
            return walk(rest, start).ok()?.first().map(|value| (*value).clone());
        }
        let root = object.to_value();
        self.find(&root).ok()?.first().map(|value| (*value).clone())
    }
}

type Found<'a> = Result<Vec<&'a Value>, String>;

fn walk<'a>(steps: &'a [JsonPathStep], start: Vec<&'a Value>) -> Found<'a> {
    steps.iter().try_fold(start, |current, step| step.apply(current))
}

impl JsonPathStep {
    fn apply<'a>(&'a self, input: Vec<&'a Value>) -> Found<'a> {
        match self {
            Self::Field(name) => Ok(input.into_iter().filter_map(|value| value.as_object()?.get(name)).collect()),
            Self::Slice(slice) => slice.apply(input),
            Self::Wildcard => Ok(input.into_iter().flat_map(children).collect()),
            Self::Recursive => Ok(input.into_iter().flat_map(descend).collect()),
            Self::Literal(value) => Ok(input.iter().map(|_| value).collect()),
            Self::Union(paths) => {
                let mut found = Vec::new();
                for path in paths {
                    found.extend(walk(&path.steps, input.clone())?);
                }
                Ok(found)
            }
            Self::Filter { left, operator, right } => filter(input, left, *operator, right),
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend(value: &Value) -> Vec<&Value> {
    let below = children(value);
    if below.is_empty() {
        return Vec::new();
    }
    std::iter::once(value).chain(below.into_iter().flat_map(descend)).collect()
}

impl Slice {
    fn apply<'a>(&self, input: Vec<&'a Value>) -> Found<'a> {
        let mut found = Vec::new();
        for value in input {
            let items = match value {
                Value::Null => continue,
                Value::Array(items) => items,
                _ => return Err("not array or slice".to_owned()),
            };
            let length = items.len() as i64;
            let from_end = |index: i64| if index < 0 { index + length } else { index };
            let start = from_end(self.start.unwrap_or(0));
            let end = match self.end {
                None => length,
                Some(0) if self.single => length,
                Some(end) => from_end(end),
            };
            if start == end {
                return Ok(found);
            }
            if start < 0 || start >= length || end < 0 || end > length {
                return Err(format!("array index out of bounds: index {start}, length {length}"));
            }
            if start > end {
                return Err(format!("starting index {start} is greater than ending index {end}"));
            }
            let step = self.step.unwrap_or(1);
            if step <= 0 {
                return Err("step must be > 0".to_owned());
            }
            found.extend(items[start as usize..end as usize].iter().step_by(step as usize));
        }
        Ok(found)
    }
}

fn filter<'a>(input: Vec<&'a Value>, left: &'a JsonPath, operator: Operator, right: &'a JsonPath) -> Found<'a> {
    let mut found = Vec::new();
    for value in input {
        let Value::Array(items) = value else { return Err("not array or slice and cannot be filtered".to_owned()) };
        for item in items {
            let lefts = left.find(item);
            if operator == Operator::Exists {
                if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                    found.push(item);
                }
                continue;
            }
            let (lefts, rights) = (lefts?, right.find(item)?);
            match (&lefts[..], &rights[..]) {
                ([], _) | (_, []) => {}
                ([left], [right]) => {
                    if holds(left, operator, right)? {
                        found.push(item);
                    }
                }
                _ => return Err("can only compare one element at a time".to_owned()),
            }
        }
    }
    Ok(found)
}

fn holds(left: &Value, operator: Operator, right: &Value) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, Operator::Equal | Operator::NotEqual) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    Ok(match operator {
        Operator::Exists => true,
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    })
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

    /// A name up to the next separator; a backslash escapes the separator.
    fn field(&mut self) {
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(|c| !is_terminator(*c)) {
            if c == '\\' { name.extend(self.rest.next()) } else { name.push(c) }
        }
        self.steps.push(if name == "*" { JsonPathStep::Wildcard } else { JsonPathStep::Field(name) });
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some('\\') => text.push(match self.rest.next() {
                    Some('n') => '\n',
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
        loop {
            match self.rest.next() {
                None | Some('\n') => return Err("unterminated array".to_owned()),
                Some(']') => break,
                Some(c) => text.push(c),
            }
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
        if let Some(key) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).filter(|k| !k.contains('\'')) {
            return Ok(JsonPath::parse_nested(&format!(".{key}"), self.depth + 1)?.steps);
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
        let nested = |text: &str| JsonPath::parse_nested(text, self.depth + 1);
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
        1 => Ok(Slice { start, end: Some(start.unwrap_or(0) + 1), single: true, step: None }),
        2 => Ok(Slice { start, end: number(parts[1])?, single: false, step: None }),
        _ => Ok(Slice { start, end: number(parts[1])?, single: false, step: number(parts[2])? }),
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_where_kubectl_leads() {
        let root = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "list": [1, 2, 3, 4]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "count": 2},
                {"type": "Synced", "status": "False", "count": 7},
            ]},
        });
        let cases = [
            (".spec.replicas", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec['a\\.b']", json!(["dotted"])),
            (".spec.a\\.b", json!(["dotted"])),
            (".spec.missing", json!([])),
            (".spec.list[1]", json!([2])),
            (".spec.list[-1]", json!([4])),
            (".spec.list[-1:]", json!([4])),
            (".spec.list[0:2]", json!([1, 2])),
            (".spec.list[::2]", json!([1, 3])),
            (".spec.list[0,2]", json!([1, 3])),
            (".spec.list[*]", json!([1, 2, 3, 4])),
            (".status.conditions[*].type", json!(["Ready", "Synced"])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type=='Synced')].status", json!(["False"])),
            (".status.conditions[?(@.count > 2)].type", json!(["Synced"])),
            (".status.conditions[?(@.count)].type", json!(["Ready", "Synced"])),
            ("..status", json!([root["status"], "True", "False"])),
        ];
        for (path, expected) in cases {
            let path = JsonPath::parse(path).unwrap_or_else(|e| panic!("{path}: {e}"));
            let found: Vec<Value> = path.find(&root).expect("leads somewhere").into_iter().cloned().collect();
            assert_eq!(Value::from(found), expected, "{path:?}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for path in ["[", ".a[x]", ".a[?(@.b", ".a[?(@.b==1)", "#", "hello", ".a[1:2:3:4]", "'open"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_wrong_type_in_the_path_is_an_error() {
        for (path, root) in
            [(".a[3]", json!({"a": [1]})), (".a[0]", json!({"a": "x"})), (".a[?(@.b)]", json!({"a": 1}))]
        {
            assert!(JsonPath::parse(path).expect("valid").find(&root).is_err(), "{path}");
        }
    }
}
