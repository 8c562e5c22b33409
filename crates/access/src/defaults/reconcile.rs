//! Updates a stored default role or binding without removing what its owner added.

use object::Object;
use serde_json::Value;

use super::{AUTOUPDATE_ANNOTATION, EXACT_ANNOTATION};
use crate::rule::{PolicyRule, rules_of, uncovered};

/// The write needed to restore a default object.
#[derive(Clone, Debug, PartialEq)]
pub enum Correction {
    Update(Object),
    /// Delete and create: the `roleRef` of a binding is immutable.
    Recreate(Object),
}

/// The write after which `existing` grants all of `desired`; `None` if it already does or is protected.
pub fn reconcile(existing: &Object, desired: &Object) -> Option<Correction> {
    if existing.annotation(AUTOUPDATE_ANNOTATION) == Some("false") {
        return None;
    }
    let is_binding = desired.kind().ends_with("Binding");
    if is_binding && existing.get(&["roleRef"]) != desired.get(&["roleRef"]) {
        return Some(Correction::Recreate(desired.clone()));
    }
    let mut corrected = existing.clone();
    add_metadata(&mut corrected, desired);
    if is_binding {
        add_missing(&mut corrected, desired, &["subjects"]);
    } else {
        if desired.annotation(EXACT_ANNOTATION) == Some("true") {
            remove_extra_rules(&mut corrected, desired);
        }
        add_rules(&mut corrected, desired);
        add_aggregation(&mut corrected, desired);
    }
    (corrected != *existing).then_some(Correction::Update(corrected))
}

/// Existing labels and annotations keep their values.
fn add_metadata(corrected: &mut Object, desired: &Object) {
    for (key, value) in desired.labels() {
        if corrected.label(key).is_none() {
            corrected.set_label(key, value);
        }
    }
    for (key, value) in desired.annotations() {
        if corrected.annotation(key).is_none() {
            corrected.set_annotation(key, value);
        }
    }
}

fn add_rules(corrected: &mut Object, desired: &Object) {
    let mut held = rules_of(corrected);
    let missing = uncovered(&held, &rules_of(desired));
    if !missing.is_empty() {
        held.extend(missing);
        corrected.set(&["rules"], held.iter().map(PolicyRule::to_value).collect::<Vec<Value>>());
    }
}

/// Takes back what an earlier release granted by default.
fn remove_extra_rules(corrected: &mut Object, desired: &Object) {
    let wanted = rules_of(desired);
    if !uncovered(&wanted, &rules_of(corrected)).is_empty() {
        corrected.set(&["rules"], wanted.iter().map(PolicyRule::to_value).collect::<Vec<Value>>());
    }
}

fn add_aggregation(corrected: &mut Object, desired: &Object) {
    if desired.get(&["aggregationRule"]).is_none() {
        corrected.remove(&["aggregationRule"]);
    } else {
        add_missing(corrected, desired, &["aggregationRule", "clusterRoleSelectors"]);
    }
}

fn add_missing(corrected: &mut Object, desired: &Object, path: &[&str]) {
    let mut items = corrected.items(path).to_vec();
    let missing: Vec<Value> = desired.items(path).iter().filter(|item| !items.contains(item)).cloned().collect();
    if !missing.is_empty() {
        items.extend(missing);
        corrected.set(path, items);
    }
}
