//! JSON merge patch (RFC 7396): maps merge, null removes, everything else replaces.

use serde_json::{Map, Value};

use super::PatchError;
use super::json::kind_word;

/// Applies a merge patch to a document.
pub fn apply(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    PatchError::check_depth(patch)?;
    let Value::Object(patch) = patch else {
        let word = kind_word(patch);
        let message = format!(
            "error decoding patch: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        );
        return Err(PatchError::BadRequest(message));
    };
    match document {
        Value::Object(document) => merge_maps(document, patch),
        other => *other = without_nulls(&Value::Object(patch.clone())),
    }
    Ok(())
}

fn merge_maps(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, change) in patch {
        match (change, document.get_mut(key)) {
            (Value::Null, _) => {
                document.remove(key);
            }
            (Value::Object(change), Some(Value::Object(current))) => merge_maps(current, change),
            (_, Some(current @ Value::Object(_))) => *current = change.clone(),
            (_, Some(current)) => *current = without_nulls(change),
            (_, None) => {
                document.insert(key.clone(), without_nulls(change));
            }
        }
    }
}

/// A null in the patch that has nothing to remove is dropped. Nulls in lists are items and stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, inner)| !inner.is_null());
            Value::Object(kept.map(|(key, inner)| (key.clone(), without_nulls(inner))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of RFC 7396, appendix A, as far as documents that are maps go.
    #[test]
    fn examples_of_the_standard_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (document, patch, expected) in cases {
            let mut patched = document.clone();
            apply(&mut patched, &patch).expect("a map");
            assert_eq!(patched, expected, "{document} patched with {patch}");
        }
        let refusal = apply(&mut json!({}), &json!([1])).expect_err("not a map").to_status();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}")
        );
    }
}
