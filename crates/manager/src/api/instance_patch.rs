//! Changes of an instance: a message of the API → a patch of its object.

use manager_api::Instance;
use manager_kinds::annotations::{DESCRIPTION, DISPLAY_NAME, EXPOSE, HIBERNATE_AFTER, PROTECTED};
use object::Status;
use serde_json::{Map, Value, json};

/// Fields of a message that an update can name.
pub const UPDATABLE: [&str; 9] = [
    "display_name",
    "description",
    "labels",
    "annotations",
    "suspended",
    "protected",
    "hibernate_after",
    "expose",
    "spec",
];
/// Fields of a message that are ignored in updates, because clients send back what they got.
pub const OUTPUT_ONLY: [&str; 17] = [
    "name",
    "namespace",
    "uid",
    "etag",
    "mode",
    "state",
    "phase",
    "message",
    "create_time",
    "start_time",
    "karmada_version",
    "kubernetes_version",
    "endpoint",
    "summary",
    "conditions",
    "role",
    "reduced",
];

/// The object that a message describes; `fields` names those that are written, or all when empty.
pub fn desired(instance: &Instance, fields: &[&str]) -> Result<Value, Status> {
    let has = |field: &str| fields.is_empty() || fields.contains(&field);
    let mut annotations = Map::new();
    for (field, key, value) in [
        ("display_name", DISPLAY_NAME, &instance.display_name),
        ("description", DESCRIPTION, &instance.description),
        ("hibernate_after", HIBERNATE_AFTER, &instance.hibernate_after),
        ("expose", EXPOSE, &instance.expose),
    ] {
        if has(field) && !(fields.is_empty() && value.is_empty()) {
            annotations.insert(key.to_owned(), if value.is_empty() { Value::Null } else { value.clone().into() });
        }
    }
    if has("protected") && (instance.protected || !fields.is_empty()) {
        let value = if instance.protected { "true".into() } else { Value::Null };
        annotations.insert(PROTECTED.to_owned(), value);
    }
    if has("annotations") {
        for (key, value) in &instance.annotations {
            if key.starts_with("flotilla.dev/") {
                return Err(Status::bad_request(format!("annotations: {key} has a field of its own")));
            }
            annotations.insert(key.clone(), value.clone().into());
        }
    }
    let mut spec = match (&instance.spec, has("spec")) {
        (Some(spec), true) => manager_api::json::object::to_json(spec),
        _ => Map::new(),
    };
    if has("suspended") && (instance.suspended || !fields.is_empty()) {
        spec.insert("suspend".into(), instance.suspended.into());
    }
    let mut patch = json!({"metadata": {"annotations": annotations}, "spec": spec});
    if has("labels") {
        patch["metadata"]["labels"] = json!(instance.labels);
    }
    Ok(patch)
}
