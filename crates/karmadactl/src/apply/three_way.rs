//! The patch of `apply`: what differs from the live object, and what was in the last applied manifest but is no longer.
//!
//! Follows strategic merge patches of Kubernetes (apimachinery `strategicpatch`): without a schema it is a JSON merge
//! patch, as for custom resources.

use serde_json::{Map, Value, json};

use crate::openapi::Schema;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The differences that become part of a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Additions and changes.
    Changes,
    /// Deletions.
    Deletions,
}

/// Plans the patch that turns `current` into `modified`; fields that only others set are kept.
pub fn plan_patch(schema: Option<Schema<'_>>, original: Option<&Value>, modified: &Value, current: &Value) -> Value {
    let empty = Map::new();
    let map = |value: &'_ Value| value.as_object().cloned().unwrap_or_default();
    let (modified, current) = (map(modified), map(current));
    let original = original.and_then(Value::as_object).unwrap_or(&empty);
    let changes = diff_maps(schema, &current, &modified, Keep::Changes);
    let deletions = diff_maps(schema, original, &modified, Keep::Deletions);
    Value::Object(merge(schema, deletions, changes))
}

fn diff_maps(
    schema: Option<Schema<'_>>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    keep: Keep,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, new) in after {
        let field = schema.and_then(|schema| schema.field(key));
        match (before.get(key), new) {
            (None, Value::Null) => {}
            (None, _) if keep == Keep::Changes => {
                patch.insert(key.clone(), new.clone());
            }
            (None, _) => {}
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => diff_field(&mut patch, field, key, old, new, keep),
            (Some(Value::Array(old)), Value::Array(new)) => diff_lists(&mut patch, field, key, old, new, keep),
            (Some(_), _) if keep == Keep::Changes => {
                patch.insert(key.clone(), new.clone());
            }
            (Some(_), _) => {}
        }
    }
    if keep == Keep::Deletions {
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    }
    patch
}

/// Adds the difference of two maps.
fn diff_field(
    patch: &mut Map<String, Value>,
    schema: Option<Schema<'_>>,
    key: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    keep: Keep,
) {
    let rule = schema.map(Schema::merge_rule).unwrap_or_default();
    if rule.replaces {
        if keep == Keep::Changes {
            patch.insert(key.to_owned(), new.clone().into());
        }
        return;
    }
    let mut below = diff_maps(schema, old, new, keep);
    let has_other_keys = old.keys().any(|key| !new.contains_key(key));
    if rule.retains_keys && (!below.is_empty() || has_other_keys) && keep == Keep::Changes {
        let mut keys: Vec<&String> = new.keys().collect();
        keys.sort();
        below.insert(RETAIN_KEYS.to_owned(), json!(keys));
    }
    if !below.is_empty() {
        patch.insert(key.to_owned(), below.into());
    }
}

/// Adds the difference of two lists: item by item if the schema says how, else the new list.
fn diff_lists(
    patch: &mut Map<String, Value>,
    schema: Option<Schema<'_>>,
    key: &str,
    old: &[Value],
    new: &[Value],
    keep: Keep,
) {
    let rule = schema.map(Schema::merge_rule).unwrap_or_default();
    let are_maps = old.iter().chain(new).all(Value::is_object);
    let are_scalars = old.iter().chain(new).all(|item| !item.is_object() && !item.is_array());
    match rule.key {
        Some(merge_key) if rule.merges && are_maps => {
            let items = schema.and_then(Schema::items);
            diff_keyed(patch, items, (key, merge_key), (old, new), (keep, rule.retains_keys));
        }
        None if rule.merges && are_scalars => {
            let missing = |from: &[Value], of: &[Value]| -> Vec<Value> {
                of.iter().filter(|item| !from.contains(item)).cloned().collect()
            };
            match keep {
                Keep::Changes => {
                    let added = missing(old, new);
                    if !added.is_empty() {
                        patch.insert(key.to_owned(), added.into());
                        patch.insert(format!("{SET_ORDER}/{key}"), new.to_vec().into());
                    }
                }
                Keep::Deletions => {
                    let removed = missing(new, old);
                    if !removed.is_empty() {
                        patch.insert(format!("{DELETE_FROM}/{key}"), removed.into());
                    }
                }
            }
        }
        _ if keep == Keep::Changes => {
            patch.insert(key.to_owned(), new.to_vec().into());
        }
        _ => {}
    }
}

/// Adds the difference of two lists of maps that are identified by a key.
fn diff_keyed(
    patch: &mut Map<String, Value>,
    items: Option<Schema<'_>>,
    (key, merge_key): (&str, &str),
    (old, new): (&[Value], &[Value]),
    (keep, retains_keys): (Keep, bool),
) {
    let find = |list: &'_ [Value], id: &Value| list.iter().position(|item| item[merge_key] == *id);
    let mut changed: Vec<Value> = Vec::new();
    for item in new {
        let id = &item[merge_key];
        let Some(Value::Object(after)) = Some(item) else { continue };
        match find(old, id).and_then(|at| old[at].as_object()) {
            None if keep == Keep::Changes => changed.push(item.clone()),
            None => {}
            Some(before) => {
                let mut difference = diff_maps(items, before, after, keep);
                let has_other_keys = before.keys().any(|key| !after.contains_key(key));
                if retains_keys && keep == Keep::Changes && (!difference.is_empty() || has_other_keys) {
                    let mut keys: Vec<&String> = after.keys().collect();
                    keys.sort();
                    difference.insert(RETAIN_KEYS.to_owned(), json!(keys));
                }
                if !difference.is_empty() {
                    difference.insert(merge_key.to_owned(), id.clone());
                    changed.push(difference.into());
                }
            }
        }
    }
    if keep == Keep::Deletions {
        let gone = old.iter().filter(|item| find(new, &item[merge_key]).is_none());
        changed.extend(gone.map(|item| json!({PATCH: "delete", merge_key: item[merge_key]})));
    }
    let order = |list: &[Value], other: &[Value]| -> Vec<Value> {
        list.iter().map(|item| item[merge_key].clone()).filter(|id| find(other, id).is_some()).collect()
    };
    let is_reordered = keep == Keep::Changes && order(old, new) != order(new, old);
    if !changed.is_empty() || is_reordered {
        let ids: Vec<Value> = new.iter().map(|item| json!({merge_key: item[merge_key]})).collect();
        patch.insert(format!("{SET_ORDER}/{key}"), ids.into());
    }
    if !changed.is_empty() {
        patch.insert(key.to_owned(), changed.into());
    }
}

/// Merges two patches of the same object; the second one wins.
fn merge(schema: Option<Schema<'_>>, mut first: Map<String, Value>, second: Map<String, Value>) -> Map<String, Value> {
    for (key, new) in second {
        let field = schema.and_then(|schema| schema.field(&key));
        let merged = match (first.remove(&key), new) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(field, old, new).into(),
            (Some(Value::Array(old)), Value::Array(new)) if !key.starts_with('$') => merge_lists(field, old, new),
            (_, new) => new,
        };
        first.insert(key, merged);
    }
    first
}

fn merge_lists(schema: Option<Schema<'_>>, mut old: Vec<Value>, new: Vec<Value>) -> Value {
    let Some(key) = schema.and_then(|schema| schema.merge_rule().key) else { return new.into() };
    let items = schema.and_then(Schema::items);
    for item in new {
        let same = old.iter_mut().find(|other| other[key] == item[key]);
        match (same, item) {
            (Some(Value::Object(other)), Value::Object(item)) => *other = merge(items, std::mem::take(other), item),
            (_, item) => old.push(item),
        }
    }
    old.into()
}

#[cfg(test)]
mod tests {
    use object::GroupVersionKind;

    use super::*;
    use crate::openapi::Document;

    fn document() -> Document {
        let merge = |key: &str, item: Value| json!({"type": "array", "items": item, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key});
        Document::given(json!({"components": {"schemas": {
            "Thing": {
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
                "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}},
            },
            "Spec": {"properties": {
                "containers": merge("name", json!({"$ref": "#/components/schemas/Container"})),
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
                "args": {"type": "array", "items": {"type": "string"}},
                "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {}},
            }},
            "Container": {"properties": {"env": merge("name", json!({}))}},
        }}}))
    }

    #[track_caller]
    fn check(original: Value, modified: Value, current: Value, expected: Value) {
        let document = document();
        let schema = document.schema(&GroupVersionKind::new("", "v1", "Thing")).unwrap();
        let spec = |value: Value| json!({"spec": value});
        let patch = plan_patch(Some(schema), Some(&spec(original)), &spec(modified), &spec(current));
        let expected = if expected == json!({}) { json!({}) } else { json!({"spec": expected}) };
        assert_eq!(patch, expected);
    }

    #[test]
    fn fields_of_others_are_kept_and_removed_fields_are_deleted() {
        check(json!({"a": 1}), json!({"a": 1}), json!({"a": 1, "theirs": 2}), json!({}));
        check(json!({"a": 1}), json!({"a": 2}), json!({"a": 1, "theirs": 2}), json!({"a": 2}));
        check(json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 1, "b": 1}), json!({"b": null}));
        check(json!({}), json!({"a": null}), json!({}), json!({}));
        check(json!({}), json!({"args": ["x"]}), json!({"args": ["y", "z"]}), json!({"args": ["x"]}));
    }

    #[test]
    fn lists_are_merged_by_key() {
        let item = |name: &str, image: &str| json!({"name": name, "image": image});
        check(
            json!({"containers": [item("a", "1")]}),
            json!({"containers": [item("a", "2")]}),
            json!({"containers": [{"name": "a", "image": "1", "policy": "Always"}, item("sidecar", "9")]}),
            json!({"containers": [{"image": "2", "name": "a"}], "$setElementOrder/containers": [{"name": "a"}]}),
        );
        check(
            json!({"containers": [item("a", "1"), item("b", "1")]}),
            json!({"containers": [item("a", "1")]}),
            json!({"containers": [item("a", "1"), item("b", "1")]}),
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"$patch": "delete", "name": "b"}]}),
        );
        check(
            json!({"containers": [item("a", "1")]}),
            json!({"containers": [item("a", "1")]}),
            json!({"containers": [item("a", "1"), item("sidecar", "9")]}),
            json!({}),
        );
    }

    #[test]
    fn scalars_and_exclusive_keys_follow_the_schema() {
        check(
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["a", "c"]}),
            json!({"finalizers": ["a", "b", "theirs"]}),
            json!({
                "$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["c"],
                "$setElementOrder/finalizers": ["a", "c"],
            }),
        );
        check(
            json!({"strategy": {"type": "Rolling"}}),
            json!({"strategy": {"type": "Recreate"}}),
            json!({"strategy": {"type": "Rolling", "rolling": {"max": 1}}}),
            json!({"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}),
        );
    }

    #[test]
    fn custom_resources_get_a_merge_patch() {
        let patch = plan_patch(
            None,
            Some(&json!({"spec": {"a": [1], "b": 1}})),
            &json!({"spec": {"a": [2]}}),
            &json!({"spec": {"a": [1, 3], "b": 1, "c": 1}}),
        );
        assert_eq!(patch, json!({"spec": {"a": [2], "b": null}}));
    }
}
