//! Lists in a strategic merge patch: items meet by merge key, plain values by value, and both sides' order is kept.

use serde_json::{Map, Value};

use super::{PATCH, SET_ORDER, bad_patch_type, list_name, merge_map, no_merge_key, strategy_of, without_directives};
use crate::field::go_value;
use crate::patch::PatchError;
use crate::schema::SchemaRef;

/// Merges a list of the patch into the list it changes.
pub(super) fn merge_list(
    at: Option<SchemaRef<'_>>,
    original: Vec<Value>,
    patch: Vec<Value>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    let merges = strategy_of(at).is_some_and(|strategy| strategy.merge);
    if !merges && !deletes {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !items_are_maps(&original, &patch)? {
        return Ok(if deletes { delete_values(original, &patch) } else { merge_values(original, patch) });
    }
    let Some(key) = strategy_of(at).and_then(|strategy| strategy.merge_key.as_deref()) else {
        return Err(PatchError::Unexpected("cannot merge lists without merge key for map".to_owned()));
    };
    merge_keyed(at, original, patch, key)
}

/// Applies every `$setElementOrder/field` of a map: merges the list, then puts it into the order given.
pub(super) fn merge_ordered(
    at: Option<SchemaRef<'_>>,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let order = expect_list(order)?;
        let complaint = "invalid patch format of setElementOrder list";
        let name = list_name(&directive[SET_ORDER.len()..], complaint)?;
        let old = original.get(&name).cloned().map(expect_list).transpose()?;
        let new = patch.get(&name).cloned().map(expect_list).transpose()?;
        let below = at.and_then(|at| at.field(&name));
        let key = strategy_of(below).and_then(|strategy| strategy.merge_key.as_deref());
        check_order(new.as_deref().unwrap_or_default(), &order, key)?;
        let (server_order, merged) = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => (old.clone(), old),
            (None, Some(new)) => match without_directives(Value::Array(new)) {
                Some(Value::Array(new)) => (Vec::new(), new),
                _ => continue,
            },
            (Some(old), Some(new)) => {
                let merged = merge_list(below, old.clone(), new, false)?;
                (old, merged)
            }
        };
        let ordered = put_in_order(merged, &order, &server_order, key)?;
        original.insert(name.clone(), Value::Array(ordered));
        patch.remove(&name);
    }
    Ok(())
}

fn expect_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => {
            let actual = match other {
                Value::Null => "%!s(<nil>)",
                Value::Bool(_) => "bool",
                Value::Number(number) if number.is_f64() => "float64",
                Value::Number(_) => "int64",
                Value::Object(_) => "map[string]interface {}",
                _ => "string",
            };
            Err(PatchError::Unexpected(format!("expected a []interface {{}}, but received a {actual}")))
        }
    }
}

/// Returns true when the items are maps; mixed lists and lists of lists are refused.
fn items_are_maps(original: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(PatchError::Unexpected("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(PatchError::DoesNotApply("lists of lists are not supported".to_owned()));
    }
    if items.any(|item| std::mem::discriminant(item) != std::mem::discriminant(first)) {
        let lists = [original, patch].map(|list| go_value(&Value::Array(list.to_vec())));
        return Err(PatchError::Unexpected(format!("list element types are not identical: [{}]", lists.join(" "))));
    }
    Ok(first.is_object())
}

fn delete_values(mut original: Vec<Value>, doomed: &[Value]) -> Vec<Value> {
    original.retain(|value| !doomed.contains(value));
    original
}

fn merge_values(original: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
    for value in original.iter().chain(&patch) {
        if !merged.contains(value) {
            merged.push(value.clone());
        }
    }
    let (patched, server_only) = merged.into_iter().partition(|value| patch.contains(value));
    weave(sorted(server_only, &original, None), sorted(patched, &patch, None), &original, None)
}

fn merge_keyed(
    at: Option<SchemaRef<'_>>,
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    let mut changes = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        match item.get(PATCH) {
            None => changes.push(item),
            Some(directive) if directive == "delete" => {
                let doomed = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                original.retain(|old| old.get(key) != Some(doomed));
            }
            Some(directive) if directive == "replace" => replace = true,
            Some(directive) if directive == "merge" => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Unexpected(message.to_owned()));
            }
            Some(directive) => return Err(bad_patch_type(directive, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    if replace {
        (original, changes) = (changes, Vec::new());
    }
    let items = at.and_then(SchemaRef::items);
    let mut merged = original.clone();
    for change in &changes {
        let wanted = change.get(key).ok_or_else(|| no_merge_key(change, key))?;
        match merged.iter_mut().find(|old| old.get(key) == Some(wanted)) {
            Some(old) => {
                let (Value::Object(into), Value::Object(change)) = (old.take(), change.clone()) else { continue };
                *old = Value::Object(merge_map(items, into, change)?);
            }
            None => merged.push(change.clone()),
        }
    }
    put_in_order(merged, &changes, &original, Some(key))
}

/// Items named by the patch in the patch's order, the rest in the server's, woven together.
fn put_in_order(
    merged: Vec<Value>,
    order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    if let Some(key) = key
        && let Some(item) = merged.iter().chain(order).chain(server_order).find(|item| item.get(key).is_none())
    {
        return Err(no_merge_key(item, key));
    }
    let named = |item: &Value| position(order, item, key).is_some();
    let (patched, server_only): (Vec<Value>, Vec<Value>) = merged.into_iter().partition(named);
    Ok(weave(sorted(server_only, server_order, key), sorted(patched, order, key), server_order, key))
}

fn sorted(mut items: Vec<Value>, order: &[Value], key: Option<&str>) -> Vec<Value> {
    items.sort_by_cached_key(|item| position(order, item, key).unwrap_or(usize::MAX));
    items
}

/// Merges two sorted lists: an item only the server has comes first where it stood before in the server's list.
fn weave(server_only: Vec<Value>, patched: Vec<Value>, server_order: &[Value], key: Option<&str>) -> Vec<Value> {
    let mut out = Vec::with_capacity(server_only.len() + patched.len());
    let (mut left, mut right) = (server_only.into_iter().peekable(), patched.into_iter().peekable());
    while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
        let before = match (position(server_order, l, key), position(server_order, r, key)) {
            (Some(l), Some(r)) => l < r,
            _ => false,
        };
        out.extend(if before { left.next() } else { right.next() });
    }
    out.extend(left);
    out.extend(right);
    out
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    match key {
        Some(key) => list.iter().position(|other| other.get(key) == item.get(key)),
        None => list.iter().position(|other| other == item),
    }
}

/// The items of the patch must come in the order given, as far as the order names them.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        if let Some(key) = key
            && item.get(key).is_none()
        {
            return Err(no_merge_key(item, key));
        }
        if !rest.any(|named| position(std::slice::from_ref(named), item, key).is_some()) {
            let (patch, order) = (go_value(&Value::from(patch.to_vec())), go_value(&Value::from(order.to_vec())));
            let message = format!("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n");
            return Err(PatchError::Unexpected(message));
        }
    }
    Ok(())
}
