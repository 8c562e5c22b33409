//! JSON patch (RFC 6902) as kube-apiserver's library applies it (json-patch v4): negative indices count from the end,
//! replacing a missing key adds it, and null on the way to a target counts as absent. Karmada uses the next version of that
//! library (v5), where replacing a missing key fails and adding at the root replaces the document.

use serde_json::{Map, Value};

use super::PatchError;
use crate::depth;

/// Maximum number of operations in one patch.
pub const OPERATIONS_MAX: usize = 10_000;
/// Maximum number of bytes that all `copy` operations of one patch add together.
pub const COPIED_BYTES_MAX: usize = 3 << 20;
/// Maximum number of nodes visited to find the depth of moved values in one patch.
const MOVED_NODES_MAX: usize = 1 << 20;

/// The version of the library that is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// Of kube-apiserver.
    V4,
    /// Of Karmada.
    V5,
}

/// Applies a patch to a document as kube-apiserver does. On an error the document may be half patched: work on a copy.
///
/// No operation makes the document deeper than [`depth::DEPTH_MAX`], or deeper than it was if it already passes that.
pub fn apply(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    apply_as(Dialect::V4, document, patch)
}

/// The same, as Karmada applies overrides and the patches of interpreter webhooks.
pub fn apply_strict(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    apply_as(Dialect::V5, document, patch)
}

fn apply_as(dialect: Dialect, document: &mut Value, patch: &Value) -> Result<(), PatchError> {
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
    let mut budget = Budget::of(document);
    for operation in operations {
        let Value::Object(operation) = operation else {
            let word = kind_word(operation);
            let message = format!(
                "error decoding patch: json: cannot unmarshal {word} into Go value of type handlers.jsonPatchOp"
            );
            return Err(PatchError::BadRequest(message));
        };
        step(dialect, document, operation, &mut budget)?;
    }
    Ok(())
}

fn step(
    dialect: Dialect,
    document: &mut Value,
    operation: &Map<String, Value>,
    budget: &mut Budget,
) -> Result<(), PatchError> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let text = |field: &str| {
        let found = operation.get(field).and_then(Value::as_str);
        found.ok_or_else(|| refused(format!("{kind} operation failed to decode {field}: missing value")))
    };
    let value = operation.get("value").unwrap_or(&Value::Null);
    match kind {
        "add" => {
            let path = text("path")?;
            budget.add(path, value)?;
            match dialect {
                Dialect::V5 if path.is_empty() => replace_root(document, kind, value),
                _ => {
                    locate(document, kind, path)?.add(value.clone()).map_err(|error| within(dialect, kind, path, error))
                }
            }
        }
        "remove" => {
            let path = text("path")?;
            let removed = locate(document, kind, path)?.remove();
            removed.map(drop).map_err(|error| within(dialect, kind, path, error))
        }
        "replace" => {
            let path = text("path")?;
            budget.add(path, value)?;
            if path.is_empty() {
                return replace_root(document, kind, value);
            }
            if dialect == Dialect::V5 {
                check_replaceable(document, path)?;
            }
            locate(document, kind, path)?.set(value.clone())
        }
        "move" => {
            let (from, path) = (text("from")?, text("path")?);
            let moved = locate(document, "move", from)?.remove()?;
            budget.move_value(from, path, &moved)?;
            locate(document, "move", path)?.add(moved)
        }
        "copy" => {
            let copied = locate(document, "copy", text("from")?)?.get()?.unwrap_or(&Value::Null);
            budget.copy(copied)?;
            budget.add(text("path")?, copied)?;
            let copied = copied.clone();
            locate(document, "copy", text("path")?)?.add(copied)
        }
        "test" => {
            let path = text("path")?;
            let found = if path.is_empty() { Some(&*document) } else { locate(document, "test", path)?.get()? };
            if found.unwrap_or(&Value::Null) == value {
                Ok(())
            } else {
                Err(PatchError::TestFailed { path: path.to_owned() })
            }
        }
        other => Err(refused(format!("Unexpected kind: {other}"))),
    }
}

/// Refuses to replace what is not there.
fn check_replaceable(document: &mut Value, path: &str) -> Result<(), PatchError> {
    let missing =
        |part: &str| refused(format!("replace operation does not apply: doc is missing {part}: {path}: missing value"));
    match locate(document, "replace", path).map_err(|_| missing("path"))?.get() {
        Ok(Some(_)) => Ok(()),
        Ok(None) | Err(_) => Err(missing("key")),
    }
}

fn replace_root(document: &mut Value, operation: &str, value: &Value) -> Result<(), PatchError> {
    if !matches!(value, Value::Object(_) | Value::Array(_)) {
        return Err(refused(format!("{operation} operation value must be object or array")));
    }
    *document = value.clone();
    Ok(())
}

/// Adds the operation and its path to an error, as the newer library does.
fn within(dialect: Dialect, operation: &str, path: &str, error: PatchError) -> PatchError {
    match (dialect, error) {
        (Dialect::V5, PatchError::DoesNotApply(reason)) => {
            refused(format!("error in {operation} for path: '{path}': {reason}"))
        }
        (_, error) => error,
    }
}

fn refused(reason: String) -> PatchError {
    PatchError::DoesNotApply(reason)
}

/// Limits on the result of a patch, checked before each operation without walking the document.
struct Budget {
    depth_max: usize,
    /// Upper bound of the document's depth. Operations that remove values leave it as it is.
    depth: usize,
    copied_bytes: usize,
    moved_nodes_left: usize,
}

impl Budget {
    fn of(document: &Value) -> Self {
        let depth = depth::of(document);
        let depth_max = depth.max(depth::DEPTH_MAX);
        Self { depth_max, depth, copied_bytes: 0, moved_nodes_left: MOVED_NODES_MAX }
    }

    fn add(&mut self, path: &str, value: &Value) -> Result<(), PatchError> {
        self.reach(segments(path) + depth::of(value))
    }

    /// A move to a path that is not longer cannot make the document deeper. Others are first judged by the bound, so that
    /// the moved value is only walked when the bound reaches the limit.
    fn move_value(&mut self, from: &str, path: &str, moved: &Value) -> Result<(), PatchError> {
        let bound = self.depth.saturating_sub(segments(from)) + segments(path);
        if bound <= self.depth_max {
            return self.reach(bound);
        }
        let Some(exact) = depth::of_within(moved, &mut self.moved_nodes_left) else {
            let message = format!("the moved values have more than {MOVED_NODES_MAX} fields and items together");
            return Err(PatchError::TooLarge(message));
        };
        self.reach(segments(path) + exact)
    }

    fn copy(&mut self, copied: &Value) -> Result<(), PatchError> {
        self.copied_bytes += copied.to_string().len();
        if self.copied_bytes <= COPIED_BYTES_MAX {
            return Ok(());
        }
        let copied_bytes = self.copied_bytes;
        Err(refused(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the limit {COPIED_BYTES_MAX}"
        )))
    }

    fn reach(&mut self, depth: usize) -> Result<(), PatchError> {
        if depth > self.depth_max {
            return Err(PatchError::too_deep(depth));
        }
        self.depth = self.depth.max(depth);
        Ok(())
    }
}

/// Number of maps and lists above the value that the path names.
fn segments(path: &str) -> usize {
    path.split('/').count() - 1
}

/// A target in a document: the container and the key in it, which may be absent.
enum Target<'d> {
    Field(&'d mut Map<String, Value>, String),
    Item(&'d mut Vec<Value>, String),
}

fn locate<'d>(document: &'d mut Value, operation: &str, path: &str) -> Result<Target<'d>, PatchError> {
    let missing =
        || refused(format!("{operation} operation does not apply: doc is missing path: \"{path}\": missing value"));
    let mut parts = path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
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
        Value::Object(map) => Ok(Target::Field(map, key)),
        Value::Array(items) => Ok(Target::Item(items, key)),
        _ => Err(missing()),
    }
}

impl<'d> Target<'d> {
    fn add(self, value: Value) -> Result<(), PatchError> {
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

    fn set(self, value: Value) -> Result<(), PatchError> {
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

    fn get(self) -> Result<Option<&'d Value>, PatchError> {
        match self {
            Self::Field(map, key) => Ok(map.get(&key)),
            Self::Item(items, key) => index_of(&key, items.len()).map(|index| items.get(index)),
        }
    }

    fn remove(self) -> Result<Value, PatchError> {
        match self {
            Self::Field(map, key) => {
                let missing = || refused(format!("Unable to remove nonexistent key: {key}: missing value"));
                map.remove(&key).ok_or_else(missing)
            }
            Self::Item(items, key) => index_of(&key, items.len()).map(|index| items.remove(index)),
        }
    }
}

/// An index below `length`; a negative one counts from the end.
fn index_of(key: &str, length: usize) -> Result<usize, PatchError> {
    let index: i64 = key.parse().map_err(|_| refused(format!("value was not a proper array index: '{key}'")))?;
    let from_start = if index < 0 { index + length as i64 } else { index };
    usize::try_from(from_start)
        .ok()
        .filter(|index| *index < length)
        .ok_or_else(|| refused(format!("Unable to access invalid index: {index}: invalid index referenced")))
}

/// The name Go's decoder gives to a JSON value it cannot store.
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
    fn strict_operations_behave_as_in_karmada() {
        let doc = || json!({"spec": {"replicas": 1, "list": [1, 2], "n": null}});
        let with_spec = |spec: Value| Ok(json!({"spec": spec}));
        let missing = |text: &str| Err(format!("{text}: missing value"));
        let cases = [
            (
                json!({"op": "replace", "path": "/spec/replicas", "value": 5}),
                with_spec(json!({"replicas": 5, "list": [1, 2], "n": null})),
            ),
            (
                json!({"op": "replace", "path": "/spec/n", "value": 5}),
                with_spec(json!({"replicas": 1, "list": [1, 2], "n": 5})),
            ),
            (
                json!({"op": "replace", "path": "/spec/list/-1", "value": 9}),
                with_spec(json!({"replicas": 1, "list": [1, 9], "n": null})),
            ),
            (
                json!({"op": "replace", "path": "/spec/replica", "value": 5}),
                missing("replace operation does not apply: doc is missing key: /spec/replica"),
            ),
            (
                json!({"op": "replace", "path": "/spec/list/2", "value": 5}),
                missing("replace operation does not apply: doc is missing key: /spec/list/2"),
            ),
            (
                json!({"op": "replace", "path": "/specs/replicas", "value": 5}),
                missing("replace operation does not apply: doc is missing path: /specs/replicas"),
            ),
            (
                json!({"op": "remove", "path": "/spec/replica"}),
                missing("error in remove for path: '/spec/replica': Unable to remove nonexistent key: replica"),
            ),
            (
                json!({"op": "add", "path": "/spec/new", "value": 5}),
                with_spec(json!({"replicas": 1, "list": [1, 2], "n": null, "new": 5})),
            ),
            (
                json!({"op": "add", "path": "/spec/list/7", "value": 5}),
                Err("error in add for path: '/spec/list/7': Unable to access invalid index: 7: invalid index referenced"
                    .to_owned()),
            ),
            (json!({"op": "add", "path": "", "value": {"all": "new"}}), Ok(json!({"all": "new"}))),
            (
                json!({"op": "add", "path": "", "value": 7}),
                Err("add operation value must be object or array".to_owned()),
            ),
        ];
        for (operation, expected) in cases {
            let mut patched = doc();
            let result = apply_strict(&mut patched, &json!([operation])).map(|()| patched);
            let expected = expected.map_err(PatchError::DoesNotApply);
            assert_eq!(result, expected, "{operation}");
        }
    }

    #[test]
    fn operations_behave_as_in_kube_apiserver() {
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
    fn patches_of_unbounded_size_or_cost_are_refused() {
        let many = Value::from(vec![json!({"op": "add", "path": "/a", "value": 1}); OPERATIONS_MAX + 1]);
        let refusal = apply(&mut json!({}), &many).expect_err("too many");
        assert_eq!(refusal.to_status().code, 413);
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::from(vec![double; 100]);
        let refusal = apply(&mut json!({"a": ["x"]}), &patch).expect_err("grows without end");
        assert_eq!(refusal.to_status().code, 422);
        let mut names = json!({"a": (0..50_000).collect::<Vec<_>>(), "b": {}});
        let deepest = (2..depth::DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
        let fill = json!({"op": "add", "path": "/b/x", "value": deepest});
        let down = json!({"op": "move", "from": "/a", "path": "/b/a"});
        let up = json!({"op": "move", "from": "/b/a", "path": "/a"});
        let patch = Value::from([vec![fill], vec![[down, up]; 100].concat()].concat());
        assert_eq!(apply(&mut names, &patch).expect_err("walks without end").to_status().code, 413);
        let deep = json!([{"op": "add", "path": "/a".repeat(200), "value": 1}]);
        assert!(apply(&mut json!({}), &deep).is_err());
    }
}
