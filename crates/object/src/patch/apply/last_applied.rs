//! The last-applied annotation of client-side apply, which `kubectl apply --server-side` migrates from and updates.

use serde_json::Value;

use crate::object::Object;
use crate::patch::fieldset::Set;
use crate::patch::typed;
use crate::schema::Schema;

/// The manager name of `kubectl apply --server-side`, the only one that uses the annotation.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum total size of an object's annotations.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// Fields that the last client-side apply set and that still have that value: kubectl may take them without force.
pub(super) fn allowed_conflicts(schema: &Schema, live: &Value, api_version: &str) -> Option<Set> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != api_version || typed::check_typed(schema, &last, false).is_err() {
        return None;
    }
    let changed = typed::compare(schema, last.as_object()?, live.as_object()?);
    let fields = typed::to_field_set(schema, &last);
    Some(fields.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}

/// Updates the annotation of an object that has one with the applied configuration, so that client-side apply keeps
/// working.
pub(super) fn refresh(object: &mut Object, applied: &Object) {
    if object.annotation(ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = applied.clone();
    config.remove(&["metadata", "annotations", ANNOTATION]);
    let text = format!("{}\n", config.to_value());
    let others: usize =
        object.annotations().filter(|(key, _)| *key != ANNOTATION).map(|(key, value)| key.len() + value.len()).sum();
    if others + ANNOTATION.len() + text.len() > ANNOTATIONS_BYTES_MAX {
        object.remove(&["metadata", "annotations", ANNOTATION]);
    } else {
        object.set_annotation(ANNOTATION, &text);
    }
}
