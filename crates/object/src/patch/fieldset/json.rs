//! `FieldsV1`: the JSON form of a set, a map of maps with `f:`, `k:`, `v:` and `i:` keys.

use serde_json::{Map, Value};

use super::{PathElement, Set, Slot};

/// Deeper sets are rejected; the objects they describe are not deeper.
const DEPTH_MAX: usize = 128;

impl Set {
    pub fn to_json(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, own: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if own && !self.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for entry in &self.entries {
            map.insert(entry.element.to_key(), Value::Object(entry.children.to_map(entry.member)));
        }
        map
    }

    pub fn from_json(value: &Value) -> Result<Self, String> {
        read(value, 0).map(|slot| slot.children)
    }
}

/// Reads one level: its children, and whether the level itself is a member (marked by `.`, or by being empty).
fn read(value: &Value, depth: usize) -> Result<Slot, String> {
    if depth > DEPTH_MAX {
        return Err(format!("fields are nested deeper than {DEPTH_MAX} levels"));
    }
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok(Slot { member: true, children: Set::default() }),
        other => return Err(format!("expected a map of fields, got {other}")),
    };
    let mut slot = Slot::default();
    for (key, inner) in map {
        if key == "." {
            slot.member = true;
            continue;
        }
        if let Some(element) = PathElement::from_key(key)? {
            slot.add_child(element, read(inner, depth + 1)?);
        }
    }
    slot.member |= slot.children.is_empty();
    Ok(slot)
}

impl PathElement {
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let map: Map<String, Value> = keys.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
                format!("k:{}", go_json(&Value::Object(map)))
            }
            Self::Value(value) => format!("v:{}", go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Returns `None` for an unknown kind of element, which is skipped.
    pub fn from_key(key: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = key.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
            return Err(format!("missing colon: {key}"));
        };
        let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
        Ok(match kind {
            "f" => Some(Self::field(rest)),
            "v" => Some(Self::Value(json(rest)?)),
            "i" => Some(Self::Index(rest.parse().map_err(|_| format!("invalid index: {rest}"))?)),
            "k" => match json(rest)? {
                Value::Object(map) => Some(Self::Key(map.into_iter().map(|(k, v)| (k.into(), v)).collect())),
                other => return Err(format!("expected a map of keys, got {other}")),
            },
            _ => None,
        })
    }
}

/// JSON as written by Go's encoder: HTML characters are escaped.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let escape = |c: char| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}
