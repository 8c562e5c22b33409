//! Defaults in a schema must be valid for the schema, without unknown fields.

use object::schema::{self, Schema};
use object::{FieldError, FieldPath};
use serde_json::Value;

use super::schema_tree::flag;

/// Checks every default in a resource's schema.
pub(super) fn validate(base: &FieldPath, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(base, schema, true, false, &mut errors);
    errors
}

/// `resource` is true where the schema describes a whole object, `in_metadata` below its metadata.
fn check(path: &FieldPath, schema: &Value, resource: bool, in_metadata: bool, errors: &mut Vec<FieldError>) {
    let resource = resource || flag(schema, "x-kubernetes-embedded-resource");
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        check_default(&path.child("default"), schema, default, in_metadata && !resource, errors);
    }
    if schema["items"].is_object() {
        check(&path.child("items"), &schema["items"], false, in_metadata, errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let in_metadata =
            (in_metadata && !resource) || (resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind"));
        check(&path.child("properties").key(name), property, false, in_metadata, errors);
    }
}

fn check_default(path: &FieldPath, schema: &Value, default: &Value, in_metadata: bool, errors: &mut Vec<FieldError>) {
    let Ok(compiled) = Schema::from_openapi(schema) else { return };
    if !in_metadata && !schema::unknown_fields(&compiled, default).is_empty() {
        errors.push(FieldError::invalid(path.clone(), default.clone(), "must not have unknown fields"));
    }
    errors.extend(schema::validate(&compiled, default, path));
}
