//! Templates: text with paths in braces, and ranges over lists.

use serde_json::Value;

use super::{JsonPath, JsonPathError, JsonPathStep, Walk, fail};

/// Ranges nested deeper than this are refused.
const RANGE_DEPTH_MAX: usize = 16;

/// A template such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Path(JsonPath),
    Range(JsonPath, Vec<Node>),
}

impl Template {
    /// Parses a template; a bare path such as `.kind` is one too.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        if text.starts_with('.') && !text.contains('{') {
            return Ok(Self { nodes: vec![Node::Path(JsonPath::parse(text)?)] });
        }
        parse(text)
    }

    /// True if the template has only paths of fields, quoted keys, single indexes and `[*]`.
    pub fn has_plain_paths(&self) -> bool {
        self.nodes.iter().all(|node| match node {
            Node::Text(_) => true,
            Node::Path(path) => path.steps.iter().all(JsonPathStep::is_plain),
            Node::Range(..) => false,
        })
    }

    /// The text for a value; missing keys print nothing.
    pub fn render(&self, value: &Value) -> Result<String, JsonPathError> {
        let mut out = String::new();
        run(&self.nodes, Walk { root: value, strict: false }, value, &mut out)?;
        Ok(out)
    }

    /// The text for a value; a missing key is an error.
    pub fn render_strict(&self, value: &Value) -> Result<String, JsonPathError> {
        let mut out = String::new();
        run(&self.nodes, Walk { root: value, strict: true }, value, &mut out)?;
        Ok(out)
    }
}

/// A value as printed: strings without quotes, the rest as JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn run<'a>(nodes: &'a [Node], walk: Walk<'a>, current: &'a Value, out: &mut String) -> Result<(), JsonPathError> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(path) => {
                let found = walk.run(&path.steps, vec![current])?;
                out.push_str(&found.into_iter().map(text_of).collect::<Vec<_>>().join(" "));
            }
            Node::Range(path, body) => {
                for item in walk.run(&path.steps, vec![current])? {
                    run(body, walk, item, out)?;
                }
            }
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Template, JsonPathError> {
    let refuse = |reason: &str| Err(JsonPathError::Syntax { path: text.to_owned(), reason: reason.to_owned() });
    // Each open range keeps the nodes before it.
    let mut open: Vec<(JsonPath, Vec<Node>)> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once('{') {
        if !before.is_empty() {
            nodes.push(Node::Text(before.to_owned()));
        }
        let Some(end) = closing_brace(inside) else { return refuse("a brace is not closed") };
        let expression = inside[..end].trim();
        rest = &inside[end + 1..];
        if expression == "end" {
            let Some((path, before)) = open.pop() else { return refuse("{end} without {range}") };
            let body = std::mem::replace(&mut nodes, before);
            nodes.push(Node::Range(path, body));
        } else if let Some(over) = expression.strip_prefix("range ") {
            if open.len() >= RANGE_DEPTH_MAX {
                return fail(format!("ranges are nested more than {RANGE_DEPTH_MAX} deep"));
            }
            open.push((JsonPath::parse(over.trim())?, std::mem::take(&mut nodes)));
        } else {
            nodes.push(Node::Path(JsonPath::parse(expression)?));
        }
    }
    if !rest.is_empty() {
        nodes.push(Node::Text(rest.to_owned()));
    }
    if open.is_empty() { Ok(Template { nodes }) } else { refuse("{range} without {end}") }
}

/// Braces inside quotes do not count.
fn closing_brace(text: &str) -> Option<usize> {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}
