//! The depth limit of documents. Trees are walked by recursive code (parsers, encoders, drop), so their depth is bounded
//! by the stack; nothing deeper than the limit is stored, and nothing deeper than the parser's limit becomes a tree.

use serde_json::Value;

/// Maximum nesting of maps and lists in a stored object, its own map and its managedFields included.
///
/// Lower than [`READ_DEPTH_MAX`], so that a stored object can be read back inside a list, a watch event or a table row.
pub const DEPTH_MAX: usize = 100;

/// Maximum nesting of a part that is taken from one object and embedded into another, such as the status of a member's
/// object in a Work or in a binding. Leaves levels for the maps and lists around it.
pub const EMBEDDED_DEPTH_MAX: usize = DEPTH_MAX - 10;

/// Nesting that serde_json reads at most.
pub const READ_DEPTH_MAX: usize = 127;

/// Returns the number of nested maps and lists: 0 for a scalar, 1 for an empty map.
pub fn of(value: &Value) -> usize {
    let mut unlimited = usize::MAX;
    of_within(value, &mut unlimited).expect("a tree in memory has fewer nodes than usize counts")
}

/// Returns the depth, or `None` when the value has more nodes than are left to visit.
pub(crate) fn of_within(value: &Value, visits_left: &mut usize) -> Option<usize> {
    let mut deepest = 0;
    let mut pending = vec![(value, 0)];
    while let Some((value, above)) = pending.pop() {
        let level = above + usize::from(is_container(value));
        deepest = deepest.max(level);
        let length = match value {
            Value::Object(map) => {
                pending.extend(map.values().filter(|v| is_container(v)).map(|v| (v, level)));
                map.len()
            }
            Value::Array(items) => {
                pending.extend(items.iter().filter(|v| is_container(v)).map(|v| (v, level)));
                items.len()
            }
            _ => 0,
        };
        *visits_left = visits_left.checked_sub(length + 1)?;
    }
    Some(deepest)
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

/// Returns the depth of a JSON text without parsing it. The text must be valid JSON; of other text the answer means nothing.
pub fn of_json(json: &[u8]) -> usize {
    let (mut deepest, mut level) = (0_usize, 0_usize);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = string_end(json, at),
            b'{' | b'[' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' => level = level.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Copies a JSON text with every map and list below `depth_max` levels replaced by null.
pub fn cut_json(json: &[u8], depth_max: usize) -> Vec<u8> {
    let mut kept = Vec::with_capacity(json.len());
    let (mut level, mut at) = (0_usize, 0);
    while let Some(byte) = json.get(at) {
        let start = at;
        match byte {
            b'"' => at = string_end(json, at),
            b'{' | b'[' => level += 1,
            b'}' | b']' => level = level.saturating_sub(1),
            _ => {}
        }
        at += 1;
        let closes = matches!(byte, b'}' | b']');
        if level < depth_max || (level == depth_max && !closes) {
            kept.extend_from_slice(&json[start..at.min(json.len())]);
        } else if level == depth_max {
            kept.extend_from_slice(b"null");
        }
    }
    kept
}

/// Returns the position of the quote that ends the string starting at `start`.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match json.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_counts_maps_and_lists() {
        let cases = [
            (json!(null), 0),
            (json!("[[["), 0),
            (json!({}), 1),
            (json!([[]]), 2),
            (json!({"a": 1, "b": [{"c": {}}], "{[": "\\\"[{"}), 4),
        ];
        for (value, expected) in cases {
            assert_eq!(of(&value), expected, "{value}");
            assert_eq!(of_json(value.to_string().as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn text_is_cut_to_the_depth_and_stays_valid() {
        let value = json!({"a": [1, {"b": {"c": []}}, "]}"], "d": {}, "e\"": [[[]], []], "f": 1.5});
        let cases = [
            (0, json!(null)),
            (1, json!({"a": null, "d": null, "e\"": null, "f": 1.5})),
            (2, json!({"a": [1, null, "]}"], "d": {}, "e\"": [null, null], "f": 1.5})),
            (3, json!({"a": [1, {"b": null}, "]}"], "d": {}, "e\"": [[null], []], "f": 1.5})),
            (9, value.clone()),
        ];
        for (depth_max, expected) in cases {
            let cut = cut_json(value.to_string().as_bytes(), depth_max);
            let cut: Value = serde_json::from_slice(&cut).expect("valid JSON");
            assert_eq!(cut, expected, "cut to {depth_max}");
            assert!(of(&cut) <= depth_max);
        }
    }

    #[test]
    fn the_parser_reads_exactly_the_depth_we_assume() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(serde_json::from_str::<Value>(&nested(READ_DEPTH_MAX)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(READ_DEPTH_MAX + 1)).is_err());
        let deep = nested(500_000);
        assert_eq!(of_json(deep.as_bytes()), 500_000);
        let cut: Value = serde_json::from_slice(&cut_json(deep.as_bytes(), READ_DEPTH_MAX)).expect("readable");
        assert_eq!(of(&cut), READ_DEPTH_MAX);
    }
}
