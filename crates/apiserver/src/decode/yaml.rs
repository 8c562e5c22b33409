//! YAML bodies with keys that occur twice: the last one counts, and each repetition is reported with its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::REPORTED_MAX;

/// A document, and the keys that repeat an earlier one as `line 5: key "a" already set in map`.
pub(super) struct Repeated {
    pub value: Value,
    pub lines: Vec<String>,
}

/// Reads a document again that a strict reader refused. `None` when repeated keys are not what is wrong with it.
pub(super) fn read_repeated(text: &str) -> Option<Repeated> {
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let node: Node = serde_saphyr::from_str_with_options(text, options).ok()?;
    let mut lines = node.repeated;
    lines.sort_unstable();
    lines.truncate(REPORTED_MAX);
    let lines: Vec<String> =
        lines.into_iter().map(|(line, key)| format!("line {line}: key {key:?} already set in map")).collect();
    (!lines.is_empty()).then_some(Repeated { value: node.value, lines })
}

struct Node {
    value: Value,
    repeated: Vec<(u64, String)>,
}

impl Node {
    fn of(value: impl Into<Value>) -> Self {
        Self { value: value.into(), repeated: Vec::new() }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::of(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::of(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::of(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::of(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::of(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::of(value))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::of(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::of(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let (mut list, mut repeated) = (Vec::new(), Vec::new());
        while let Some(item) = items.next_element::<Node>()? {
            list.push(item.value);
            add(&mut repeated, item.repeated);
        }
        Ok(Node { value: Value::Array(list), repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let (mut map, mut repeated) = (Map::new(), Vec::new());
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let node = entries.next_value::<Node>()?;
            if map.contains_key(&key.value) {
                add(&mut repeated, vec![(key.referenced.line(), key.value.clone())]);
            }
            add(&mut repeated, node.repeated);
            map.insert(key.value, node.value);
        }
        Ok(Node { value: Value::Object(map), repeated })
    }
}

/// Only as many are kept as will be reported.
fn add(repeated: &mut Vec<(u64, String)>, more: Vec<(u64, String)>) {
    let remaining = REPORTED_MAX.saturating_sub(repeated.len());
    repeated.extend(more.into_iter().take(remaining));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_keys_are_reported_with_their_lines() {
        let text = "a: 1\nb:\n- x: 1\n  x: 2\na: 3\n";
        let read = read_repeated(text).expect("repeated keys");
        assert_eq!(read.value, json!({"a": 3, "b": [{"x": 2}]}));
        assert_eq!(read.lines, ["line 4: key \"x\" already set in map", "line 5: key \"a\" already set in map"]);
        assert!(read_repeated("a: 1").is_none());
        assert!(read_repeated("a: [").is_none());
    }
}
