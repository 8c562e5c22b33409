//! JSON patch (RFC 6902), with the habits of the library kube-apiserver uses: negative indices count from the end,
//! replacing a missing key adds it, null means absent on the way down.

use serde_json::{Map, Value};

use super::PatchError;

/// More operations than this are refused.
pub const OPERATIONS_MAX: usize = 10_000;
/// All `copy` operations of one patch together may not copy more.
pub const COPIED_BYTES_MAX: usize = 3 << 20;
/// Deeper paths than this are refused, so that a patch cannot build what no parser would accept.
const PATH_DEPTH_MAX: usize = 128;

/// Applies a patch to a document. On an error the document may be half patched: work on a copy.
pub fn apply(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let Value::Array(operations) = patch else {
        let word = kind_word(patch);
        let message =
            format!("error decoding patch: json: cannot unmarshal {word} into Go value of type []handlers.jsonPatchOp");
        return Err(PatchError::BadRequest(message));
    };
    if operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        let message = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}");
        return Err(PatchError::TooLarge(message));
    }
    let mut copied_bytes = 0;
    for operation in operations {
        let Value::Object(operation) = operation else {
            let word = kind_word(operation);
            let message = format!(
                "error decoding patch: json: cannot unmarshal {word} into Go value of type handlers.jsonPatchOp"
            );
            return Err(PatchError::BadRequest(message));
        };
        step(document, operation, &mut copied_bytes).map_err(PatchError::DoesNotApply)?;
    }
    Ok(())
}

fn step(document: &mut Value, operation: &Map<String, Value>, copied_bytes: &mut usize) -> Result<(), String> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let text = |field: &str| {
        let found = operation.get(field).and_then(Value::as_str);
        found.ok_or_else(|| format!("{kind} operation failed to decode {field}: missing value"))
    };
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => place(document, "add", text("path")?)?.add(value()),
        "remove" => place(document, "remove", text("path")?)?.remove().map(drop),
        "replace" if text("path")?.is_empty() => match value() {
            root @ (Value::Object(_) | Value::Array(_)) => {
                *document = root;
                Ok(())
            }
            _ => Err("replace operation value must be object or array".to_owned()),
        },
        "replace" => place(document, "replace", text("path")?)?.set(value()),
        "move" => {
            let moved = place(document, "move", text("from")?)?.remove()?;
            place(document, "move", text("path")?)?.add(moved)
        }
        "copy" => {
            let copied = place(document, "copy", text("from")?)?.get()?.unwrap_or(Value::Null);
            *copied_bytes += copied.to_string().len();
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the limit {COPIED_BYTES_MAX}"
                ));
            }
            place(document, "copy", text("path")?)?.add(copied)
        }
        "test" => {
            let path = text("path")?;
            let found = if path.is_empty() { Some(document.clone()) } else { place(document, "test", path)?.get()? };
            if found.unwrap_or(Value::Null) == value() {
                Ok(())
            } else {
                Err(format!("testing value {path} failed: test failed"))
            }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// A spot in a document: the container and the key in it, which need not exist yet.
enum Place<'d> {
    Field(&'d mut Map<String, Value>, String),
    Item(&'d mut Vec<Value>, String),
}

fn place<'d>(document: &'d mut Value, operation: &str, path: &str) -> Result<Place<'d>, String> {
    let missing = || format!("{operation} operation does not apply: doc is missing path: \"{path}\": missing value");
    let mut parts = path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    if path.split('/').count() > PATH_DEPTH_MAX {
        return Err(format!("{operation} operation has a path deeper than {PATH_DEPTH_MAX} levels"));
    }
    let mut key = parts.next().ok_or_else(missing)?;
    let mut at = document;
    for next in parts {
        at = match at {
            Value::Object(map) => map.get_mut(&key),
            Value::Array(items) => match index_of(&key, items.len()) {
                Ok(index) => items.get_mut(index),
                Err(_) => None,
            },
            _ => None,
        }
        .ok_or_else(missing)?;
        key = next;
    }
    match at {
        Value::Object(map) => Ok(Place::Field(map, key)),
        Value::Array(items) => Ok(Place::Item(items, key)),
        _ => Err(missing()),
    }
}

impl Place<'_> {
    fn add(self, value: Value) -> Result<(), String> {
        match self {
            Self::Field(map, key) => {
                map.insert(key, value);
            }
            Self::Item(items, key) if key == "-" => items.push(value),
            Self::Item(items, key) => {
                let index = index_of(&key, items.len() + 1)?;
                items.insert(index, value);
            }
        }
        Ok(())
    }

    fn set(self, value: Value) -> Result<(), String> {
        match self {
            Self::Field(map, key) => {
                map.insert(key, value);
            }
            Self::Item(items, key) => {
                let index = index_of(&key, items.len())?;
                items[index] = value;
            }
        }
        Ok(())
    }

    fn get(self) -> Result<Option<Value>, String> {
        match self {
            Self::Field(map, key) => Ok(map.get(&key).cloned()),
            Self::Item(items, key) => index_of(&key, items.len()).map(|index| items.get(index).cloned()),
        }
    }

    fn remove(self) -> Result<Value, String> {
        match self {
            Self::Field(map, key) => {
                map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
            }
            Self::Item(items, key) => index_of(&key, items.len()).map(|index| items.remove(index)),
        }
    }
}

/// An index below `length`; a negative one counts from the end.
fn index_of(key: &str, length: usize) -> Result<usize, String> {
    let index: i64 = key.parse().map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let from_start = if index < 0 { index + length as i64 } else { index };
    usize::try_from(from_start)
        .ok()
        .filter(|index| *index < length)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

/// What Go's decoder calls a JSON value it cannot store.
pub(super) fn kind_word(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: Value, patch: Value, expected: Option<Value>) {
        let mut patched = document.clone();
        let result = apply(&mut patched, &patch).ok().map(|()| patched);
        assert_eq!(result, expected, "{document} patched with {patch}");
    }

    #[test]
    fn operations_do_what_kube_apiserver_does() {
        let doc = || json!({"a": {"b": [1, 2]}, "n": null});
        let with_list = |list: Value| Some(json!({"a": {"b": list}, "n": null}));
        let cases = [
            (json!([{"op": "add", "path": "/a/b/-", "value": 3}]), with_list(json!([1, 2, 3]))),
            (json!([{"op": "add", "path": "/a/b/0", "value": 0}]), with_list(json!([0, 1, 2]))),
            (json!([{"op": "add", "path": "/a/b/2", "value": 3}]), with_list(json!([1, 2, 3]))),
            (json!([{"op": "add", "path": "/a/b/3", "value": 3}]), None),
            (json!([{"op": "add", "path": "/a/b/-1", "value": 9}]), with_list(json!([1, 2, 9]))),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), None),
            (json!([{"op": "add", "path": "/n/y", "value": 1}]), None),
            (json!([{"op": "add", "path": "", "value": {}}]), None),
            (
                json!([{"op": "add", "path": "/a~1b", "value": 1}]),
                Some(json!({"a": {"b": [1, 2]}, "n": null, "a/b": 1})),
            ),
            (json!([{"op": "remove", "path": "/a/b/-1"}]), with_list(json!([1]))),
            (json!([{"op": "remove", "path": "/a/zz"}]), None),
            (
                json!([{"op": "replace", "path": "/a/zz", "value": 1}]),
                Some(json!({"a": {"b": [1, 2], "zz": 1}, "n": null})),
            ),
            (json!([{"op": "replace", "path": "/a/b/5", "value": 1}]), None),
            (json!([{"op": "replace", "path": "", "value": {"r": 1}}]), Some(json!({"r": 1}))),
            (json!([{"op": "test", "path": "/a/b/0", "value": 1}]), with_list(json!([1, 2]))),
            (json!([{"op": "test", "path": "/a/b/0", "value": 2}]), None),
            (json!([{"op": "test", "path": "/zz", "value": null}]), with_list(json!([1, 2]))),
            (json!([{"op": "move", "from": "/a/b/0", "path": "/a/b/1"}]), with_list(json!([2, 1]))),
            (
                json!([{"op": "copy", "from": "/a/b", "path": "/c"}]),
                Some(json!({"a": {"b": [1, 2]}, "n": null, "c": [1, 2]})),
            ),
            (json!([{"op": "bogus", "path": "/a"}]), None),
            (json!([{"op": "remove"}]), None),
            (json!([1]), None),
            (json!({}), None),
        ];
        for (patch, expected) in cases {
            check(doc(), patch, expected);
        }
    }

    #[test]
    fn bombs_are_refused() {
        let many = Value::from(vec![json!({"op": "add", "path": "/a", "value": 1}); OPERATIONS_MAX + 1]);
        let refusal = apply(&mut json!({}), &many).expect_err("too many");
        assert_eq!(refusal.to_status().code, 413);
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::from(vec![double; 100]);
        let refusal = apply(&mut json!({"a": ["x"]}), &patch).expect_err("grows without end");
        assert_eq!(refusal.to_status().code, 422);
        let deep = json!([{"op": "add", "path": "/a".repeat(200), "value": 1}]);
        assert!(apply(&mut json!({}), &deep).is_err());
    }
}
