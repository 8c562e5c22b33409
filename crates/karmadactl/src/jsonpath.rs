//! JSONPath templates as kubectl knows them: text with `{expressions}` in it.

use serde_json::Value;

mod parse;

pub use parse::ParseError;
use parse::{Comparison, Node, Operand, Step};

/// Deeper nesting of `range` is refused.
const RANGE_DEPTH_MAX: usize = 16;

/// A template such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
#[derive(Debug)]
pub struct Template {
    nodes: Vec<Node>,
    allow_missing: bool,
}

/// A single path, such as `.metadata.name`.
#[derive(Debug)]
pub struct Path {
    steps: Vec<Step>,
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut nodes = parse::template(text)?;
        // A bare path is an expression too.
        if let [Node::Text(text)] = &nodes[..]
            && text.starts_with('.')
        {
            nodes = parse::template(&format!("{{{text}}}"))?;
        }
        Ok(Self { nodes, allow_missing: true })
    }

    /// The text of the template for one value.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        let mut out = String::new();
        self.run(&self.nodes, value, value, 0, &mut out)?;
        Ok(out)
    }

    fn run(&self, nodes: &[Node], root: &Value, current: &Value, depth: usize, out: &mut String) -> Result<(), String> {
        if depth > RANGE_DEPTH_MAX {
            return Err(format!("ranges are nested more than {RANGE_DEPTH_MAX} deep"));
        }
        for node in nodes {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Path(steps) => {
                    let found = evaluate(steps, root, current);
                    if found.is_empty() && !self.allow_missing {
                        return Err(format!("{steps:?} is not found"));
                    }
                    let texts: Vec<String> = found.iter().map(|value| text_of(value)).collect();
                    out.push_str(&texts.join(" "));
                }
                Node::Range(steps, body) => {
                    for item in evaluate(steps, root, current) {
                        self.run(body, root, item, depth + 1, out)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Path {
    /// Accepts `.a.b`, `a.b`, `{.a.b}`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let inner = text.trim().trim_start_matches('{').trim_end_matches('}');
        let dotted = if inner.starts_with(['.', '[', '$', '@']) { inner.to_owned() } else { format!(".{inner}") };
        Ok(Self { steps: parse::path(&dotted)? })
    }

    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        evaluate(&self.steps, value, value)
    }
}

/// A value as people read it: strings as they are, the rest as JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Which of two values comes first by what a path finds in them; numbers by size, what has nothing there first.
pub fn compare(path: &Path, a: &Value, b: &Value) -> std::cmp::Ordering {
    let (a, b) = (path.find(a), path.find(b));
    match (a.first(), b.first()) {
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => text_of(a).cmp(&text_of(b)),
        },
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn evaluate<'a>(steps: &[Step], root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![current];
    for step in steps {
        found = match step {
            Step::Root => vec![root],
            Step::Current => vec![current],
            Step::Key(key) => found.into_iter().filter_map(|value| value.get(key)).collect(),
            Step::Keys(keys) => {
                found.into_iter().flat_map(|value| keys.iter().filter_map(|key| value.get(key))).collect()
            }
            Step::All => found.into_iter().flat_map(children).collect(),
            Step::Everywhere => found.into_iter().flat_map(descendants).collect(),
            Step::Slice { start, end, stride } => {
                found.into_iter().flat_map(|value| slice(value, *start, *end, *stride)).collect()
            }
            Step::Indexes(indexes) => {
                found.into_iter().flat_map(|value| indexes.iter().filter_map(|index| at(value, *index))).collect()
            }
            Step::Filter(comparison) => {
                let kept = |item: &&Value| comparison.holds(root, item);
                found.into_iter().flat_map(children).filter(kept).collect()
            }
        };
    }
    found
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn descendants(value: &Value) -> Vec<&Value> {
    let mut found = vec![value];
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found
}

fn at(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let index = if index < 0 { index + i64::try_from(items.len()).ok()? } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn slice(value: &Value, start: Option<i64>, end: Option<i64>, stride: usize) -> Vec<&Value> {
    let Some(items) = value.as_array() else { return Vec::new() };
    let length = items.len() as i64;
    let place = |index: i64| (if index < 0 { index + length } else { index }).clamp(0, length) as usize;
    let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(length)));
    if start >= end { Vec::new() } else { items[start..end].iter().step_by(stride.max(1)).collect() }
}

impl Comparison {
    fn holds(&self, root: &Value, item: &Value) -> bool {
        let left = self.left.values(root, item);
        let Some((operator, right)) = &self.right else { return !left.is_empty() };
        let right = right.values(root, item);
        let (Some(left), Some(right)) = (left.first(), right.first()) else { return false };
        let order = match (left.as_f64(), right.as_f64()) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => Some(text_of(left).cmp(&text_of(right))),
        };
        let Some(order) = order else { return false };
        match operator.as_str() {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        }
    }
}

impl Operand {
    fn values<'a>(&'a self, root: &'a Value, item: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Literal(value) => vec![value],
            Self::Path(steps) => evaluate(steps, root, item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_render_as_with_kubectl() {
        let value = json!({
            "kind": "List",
            "items": [
                {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "spec": {"replicas": 2}, "ports": [1, 2, 3]},
                {"metadata": {"name": "b"}, "spec": {"replicas": 5}, "status": {"ready": true}},
            ],
        });
        let cases = [
            ("{.kind}", "List"),
            (".kind", "List"),
            ("{$.kind}", "List"),
            ("name: {.items[0].metadata.name}!", "name: a!"),
            ("{.items[*].metadata.name}", "a b"),
            ("{.items[-1].metadata.name}", "b"),
            ("{.items[0]['metadata'].name}", "a"),
            ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
            ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
            ("{..name}", "a b"),
            ("{.items[0].ports[0:2]}", "1 2"),
            ("{.items[0].ports[::2]}", "1 3"),
            ("{.items[0].ports[0,2]}", "1 3"),
            ("{.items[?(@.spec.replicas>3)].metadata.name}", "b"),
            ("{.items[?(@.metadata.name==\"a\")].spec.replicas}", "2"),
            ("{.items[?(@.status)].metadata.name}", "b"),
            ("{.items[?(@.status.ready==true)].metadata.name}", "b"),
            ("{range .items[*]}{.metadata.name}={.spec.replicas}{\"\\n\"}{end}", "a=2\nb=5\n"),
            ("{range .items[*]}{@.metadata.name},{$.kind};{end}", "a,List;b,List;"),
            ("{.items[0].spec}", "{\"replicas\":2}"),
            ("{.missing.path}", ""),
            ("{.items[0].metadata['name','namespace']}", "a"),
        ];
        for (template, expected) in cases {
            let rendered = Template::parse(template).unwrap_or_else(|e| panic!("{template}: {e}")).render(&value);
            assert_eq!(rendered.unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for template in ["{.a", "{range .items}", "{.a[}", "{.a[?(@.b==)]}", "{end}", "{.a['b}", "{foo bar}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
