//! Whole objects inside a custom resource (`x-kubernetes-embedded-resource`): their apiVersion, kind and metadata.

use serde_json::Value;

use super::prune::UNKNOWN_REPORTED_MAX;
use super::{Schema, SchemaRef};
use crate::field::{FieldError, FieldPath};
use crate::{gvk::GroupVersion, names};

/// Checks the types of apiVersion, kind and metadata of a custom resource and its embedded objects, and drops a null
/// `creationTimestamp`.
pub fn coerce(schema: &Schema, value: &mut Value) -> Result<(), FieldError> {
    coerce_at(schema.root(), value, &FieldPath::root(), true)
}

fn coerce_at(at: SchemaRef<'_>, value: &mut Value, path: &FieldPath, root: bool) -> Result<(), FieldError> {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if root || at.node().embedded {
                    coerce_envelope(key, inner, path)?;
                }
                if !inner.is_object() && !inner.is_array() {
                    continue;
                }
                if let Some(below) = at.property(key) {
                    coerce_at(below, inner, &path.child(key), false)?;
                } else if let Some(below) = at.additional() {
                    coerce_at(below, inner, &path.key(key), false)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = at.items() else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                coerce_at(below, item, &path.index(index), false)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The fields of `metadata`; a custom resource has no others.
const METADATA_FIELDS: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes unknown fields of `metadata` from a custom resource and from its embedded objects, and returns their paths.
pub fn prune_metadata(schema: &Schema, value: &mut Value) -> (Vec<String>, Vec<String>) {
    let (mut own, mut embedded) = (Vec::new(), Vec::new());
    if let Some(metadata) = value.get_mut("metadata") {
        prune_one(metadata, &FieldPath::new("metadata"), &mut own);
    }
    prune_embedded(schema.root(), value, &FieldPath::root(), &mut embedded);
    (own, embedded)
}

fn prune_one(metadata: &mut Value, path: &FieldPath, unknown: &mut Vec<String>) {
    let Value::Object(map) = metadata else { return };
    map.retain(|key, _| {
        let is_known = METADATA_FIELDS.contains(&key.as_str());
        if !is_known && unknown.len() < UNKNOWN_REPORTED_MAX {
            unknown.push(path.child(key).to_string());
        }
        is_known
    });
}

fn prune_embedded(at: SchemaRef<'_>, value: &mut Value, path: &FieldPath, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if at.node().embedded
                && let Some(metadata) = map.get_mut("metadata")
            {
                prune_one(metadata, &path.child("metadata"), unknown);
            }
            for (key, inner) in map.iter_mut().filter(|(_, inner)| inner.is_object() || inner.is_array()) {
                if let Some(below) = at.property(key) {
                    prune_embedded(below, inner, &path.child(key), unknown);
                } else if let Some(below) = at.additional() {
                    prune_embedded(below, inner, &path.child(key), unknown);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = at.items() else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_embedded(below, item, &path.index(index), unknown);
            }
        }
        _ => {}
    }
}

fn coerce_envelope(key: &str, value: &mut Value, path: &FieldPath) -> Result<(), FieldError> {
    match (key, &mut *value) {
        ("apiVersion" | "kind", Value::String(_)) => Ok(()),
        ("apiVersion" | "kind", _) => Err(FieldError::invalid(path.child(key), value.take(), "must be a string")),
        ("metadata", Value::Object(metadata)) => {
            if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
                metadata.remove("creationTimestamp");
            }
            Ok(())
        }
        ("metadata", Value::Null) => Ok(()),
        ("metadata", _) => {
            let detail =
                format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", super::decode::word(value));
            Err(FieldError::invalid(path.child(key), value.take(), detail))
        }
        _ => Ok(()),
    }
}

pub(super) fn validate(at: SchemaRef<'_>, value: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    collect(at, value, path, &mut errors);
    errors
}

fn collect(at: SchemaRef<'_>, value: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if at.node().embedded {
                check_envelope(value, path, errors);
            }
            for (key, inner) in map.iter().filter(|(_, inner)| inner.is_array() || inner.is_object()) {
                if let Some(below) = at.property(key) {
                    collect(below, inner, &path.child(key), errors);
                } else if let Some(below) = at.additional() {
                    collect(below, inner, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = at.items() else { return };
            for (index, item) in items.iter().enumerate().filter(|(_, i)| i.is_array() || i.is_object()) {
                collect(below, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn check_envelope(value: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        match value.get(key) {
            None => errors.push(FieldError::required(path.child(key), "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(path.child(key), "", "must not be empty"));
            }
            Some(Value::String(_)) => {}
            Some(other) => errors.push(FieldError::invalid(path.child(key), other.clone(), "must be a string")),
        }
    }
    if let Some(api_version) =
        value["apiVersion"].as_str().filter(|v| !v.is_empty() && GroupVersion::parse(v).is_none())
    {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        errors.push(FieldError::invalid(path.child("apiVersion"), api_version, detail));
    }
    if let Some(kind) = value["kind"].as_str().filter(|kind| !kind.is_empty()) {
        let problems = names::dns1035_label(&kind.to_lowercase());
        if !problems.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            errors.push(FieldError::invalid(path.child("kind"), kind, detail));
        }
    }
    let metadata = path.child("metadata");
    for name in ["name", "generateName"] {
        if let Some(text) = value["metadata"][name].as_str() {
            let problems = names::path_segment(text);
            errors.extend(problems.into_iter().map(|p| FieldError::invalid(metadata.child(name), text, p)));
        }
    }
    let labels = metadata.child("labels");
    for (key, label) in value["metadata"]["labels"].as_object().into_iter().flatten() {
        let problems = names::qualified_name(key);
        errors.extend(problems.into_iter().map(|p| FieldError::invalid(labels.clone(), key.as_str(), p)));
        let text = label.as_str().unwrap_or_default();
        let problems = names::label_value(text);
        errors.extend(problems.into_iter().map(|p| FieldError::invalid(labels.clone(), text, p)));
    }
}
