//! kubectl's JSONPath dialect: fields, keys, indexes, slices, unions, wildcards, recursive descent and filters.
//!
//! Printer columns, `-o jsonpath` and state preservation share it. Evaluation follows `client-go/util/jsonpath`; two
//! extensions match common use: `$` is the root also inside a range, and `['a.b']` finds the key `a.b` before `a`, `b`.

mod parse;
mod template;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::Value;

pub use template::{Template, text_of};

use crate::Object;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    #[error("{path:?} is not a valid JSONPath: {reason}")]
    Syntax { path: String, reason: String },
    #[error("{0} is not found")]
    Missing(String),
    #[error("{0}")]
    Evaluation(String),
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<JsonPathStep>,
}

#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    Root,
    Field(String),
    /// A quoted key; one with dots may also be a path of fields.
    Key {
        name: String,
        fields: Vec<JsonPathStep>,
    },
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        operator: Operator,
        right: JsonPath,
    },
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
    /// Parses the text between the braces of a template, such as `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        Self::parse_nested(text, 0).map_err(|reason| JsonPathError::Syntax { path: text.to_owned(), reason })
    }

    /// Parses `.a.b`, `a.b`, `{.a.b}` and `{a.b}`, as kubectl does for columns and sorting.
    pub fn parse_relaxed(text: &str) -> Result<Self, JsonPathError> {
        let inner = text.trim().trim_start_matches('{').trim_end_matches('}').trim();
        if inner.starts_with(['.', '[', '$', '@']) { Self::parse(inner) } else { Self::parse(&format!(".{inner}")) }
    }

    /// All values the path leads to; missing keys lead nowhere, a wrong type on the way is an error.
    pub fn find<'a>(&'a self, root: &'a Value) -> Result<Vec<&'a Value>, JsonPathError> {
        Walk { root, strict: false }.run(&self.steps, vec![root])
    }

    /// The first value in an object. Most paths start with a field, and then nothing else is copied.
    pub fn find_first(&self, object: &Object) -> Option<Value> {
        if let [JsonPathStep::Root, JsonPathStep::Field(name), rest @ ..] | [JsonPathStep::Field(name), rest @ ..] =
            &self.steps[..]
            && !rest.iter().any(JsonPathStep::needs_root)
        {
            let start = object.get(&[name]).into_iter().collect();
            return Walk { root: &Value::Null, strict: false }
                .run(rest, start)
                .ok()?
                .first()
                .map(|found| (*found).clone());
        }
        let root = object.to_value();
        self.find(&root).ok()?.first().map(|value| (*value).clone())
    }
}

fn fail<T>(reason: impl Into<String>) -> Result<T, JsonPathError> {
    Err(JsonPathError::Evaluation(reason.into()))
}

type Found<'a> = Result<Vec<&'a Value>, JsonPathError>;

/// The values a walk needs at every step.
#[derive(Clone, Copy)]
struct Walk<'a> {
    root: &'a Value,
    /// Fails at a missing key instead of finding nothing.
    strict: bool,
}

impl<'a> Walk<'a> {
    fn run(self, steps: &'a [JsonPathStep], start: Vec<&'a Value>) -> Found<'a> {
        steps.iter().try_fold(start, |current, step| step.apply(self, current))
    }
}

impl JsonPathStep {
    /// True if the step compares with the root.
    fn needs_root(&self) -> bool {
        let in_path = |path: &JsonPath| path.steps.iter().any(Self::needs_root);
        match self {
            Self::Root => true,
            Self::Union(paths) => paths.iter().any(in_path),
            Self::Filter { left, right, .. } => in_path(left) || in_path(right),
            _ => false,
        }
    }

    /// True for a field, a quoted key, one index, or `*`.
    fn is_plain(&self) -> bool {
        match self {
            Self::Root | Self::Field(_) | Self::Key { .. } | Self::Wildcard => true,
            Self::Slice(slice) => slice.single || *slice == Slice::default(),
            _ => false,
        }
    }

    fn apply<'a>(&'a self, walk: Walk<'a>, input: Vec<&'a Value>) -> Found<'a> {
        match self {
            Self::Root => Ok(input.iter().map(|_| walk.root).collect()),
            Self::Field(name) => {
                let found: Vec<&Value> = input.iter().filter_map(|value| value.as_object()?.get(name)).collect();
                if walk.strict && found.len() < input.len() {
                    return Err(JsonPathError::Missing(name.clone()));
                }
                Ok(found)
            }
            Self::Key { name, fields } => {
                let mut found = Vec::new();
                for value in input {
                    match value.as_object().and_then(|map| map.get(name)) {
                        Some(value) => found.push(value),
                        None => found.extend(walk.run(fields, vec![value])?),
                    }
                }
                Ok(found)
            }
            Self::Slice(slice) => slice.apply(input),
            Self::Wildcard => Ok(input.into_iter().flat_map(children).collect()),
            Self::Recursive => Ok(input.into_iter().flat_map(descend).collect()),
            Self::Literal(value) => Ok(input.iter().map(|_| value).collect()),
            Self::Union(paths) => {
                let mut found = Vec::new();
                for path in paths {
                    found.extend(walk.run(&path.steps, input.clone())?);
                }
                Ok(found)
            }
            Self::Filter { left, operator, right } => filter(walk, input, left, *operator, right),
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
                _ => return fail("not array or slice"),
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
                return fail(format!("array index out of bounds: index {start}, length {length}"));
            }
            if start > end {
                return fail(format!("starting index {start} is greater than ending index {end}"));
            }
            let step = self.step.unwrap_or(1);
            if step <= 0 {
                return fail("step must be > 0");
            }
            found.extend(items[start as usize..end as usize].iter().step_by(step as usize));
        }
        Ok(found)
    }
}

fn filter<'a>(
    walk: Walk<'a>,
    input: Vec<&'a Value>,
    left: &'a JsonPath,
    operator: Operator,
    right: &'a JsonPath,
) -> Found<'a> {
    // An item without the key is not selected; it is no error.
    let walk = Walk { strict: false, ..walk };
    let mut found = Vec::new();
    for value in input {
        let Value::Array(items) = value else { return fail("not array or slice and cannot be filtered") };
        for item in items {
            let lefts = walk.run(&left.steps, vec![item]);
            if operator == Operator::Exists {
                if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                    found.push(item);
                }
                continue;
            }
            let (lefts, rights) = (lefts?, walk.run(&right.steps, vec![item])?);
            match (&lefts[..], &rights[..]) {
                ([], _) | (_, []) => {}
                ([left], [right]) => {
                    if holds(left, operator, right)? {
                        found.push(item);
                    }
                }
                _ => return fail("can only compare one element at a time"),
            }
        }
    }
    Ok(found)
}

fn holds(left: &Value, operator: Operator, right: &Value) -> Result<bool, JsonPathError> {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, Operator::Equal | Operator::NotEqual) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        _ => return fail("incompatible types for comparison"),
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
