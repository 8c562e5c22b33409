//! Rules for `metadata`, common to all kinds including custom ones.
//!
//! Server-set fields (uid, resourceVersion, generation, the timestamps of an update) must be set before these run.

use object::{FieldError, GroupVersion, Object, names};

use super::fields::{Field, Report};

const SUBRESOURCE_BYTES_MAX: usize = 256;
pub const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Rules for a new object. `name_rule` is the kind's own.
pub fn validate_object_meta(
    object: &Object,
    namespaced: bool,
    name_rule: impl Fn(&str) -> Vec<String>,
) -> Vec<FieldError> {
    let report = Report::new();
    let meta = report.field(object, "metadata");
    let generate_name = meta.field("generateName");
    if !generate_name.is_empty() {
        generate_name.problems(name_rule(&as_prefix(generate_name.text())));
    }
    if meta.field("name").require_because("name or generateName is required") {
        meta.field("name").problems(name_rule(meta.field("name").text()));
    }
    let namespace = meta.field("namespace");
    if namespaced {
        if namespace.require() {
            namespace.dns1123_label();
        }
    } else if !namespace.is_empty() {
        namespace.forbidden("not allowed on this type");
    }
    meta.field("generation").non_negative();
    validate_shared(meta);
    validate_finalizers(meta.field("finalizers"));
    report.finish()
}

/// Rules for changing an object.
pub fn validate_object_meta_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let report = Report::new();
    let meta = report.field(new, "metadata");
    if old.is_deleting() {
        refuse_new_finalizers(meta.field("finalizers"), old);
    }
    if new.generation() < old.generation() {
        meta.field("generation").invalid_as(new.generation(), "must not be decremented");
    }
    for name in ["name", "namespace", "uid"] {
        let (field, stored) = (meta.field(name), old.str_at(&["metadata", name]));
        if field.text() != stored {
            field.invalid_as(field.text(), super::fields::IMMUTABLE);
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        meta.field(name).immutable(old.get(&["metadata", name]));
    }
    validate_shared(meta);
    report.finish()
}

/// Finalizers of built-in kinds must be standard or fully qualified; for custom kinds others only cause a warning.
pub fn validate_built_in_finalizers(object: &Object, report: &Report<'_>) {
    for (index, name) in object.finalizers().enumerate() {
        if !is_standard_or_qualified(name) {
            report.push(FieldError::invalid(
                object::FieldPath::new(format!("metadata.finalizers[{index}]")),
                name,
                UNQUALIFIED_FINALIZER,
            ));
        }
    }
}

pub const UNQUALIFIED_FINALIZER: &str = "name is neither a standard finalizer name nor is it fully qualified";

pub fn is_standard_or_qualified(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
}

fn validate_shared(meta: Field<'_>) {
    meta.field("labels").labels();
    meta.field("annotations").annotations();
    validate_owners(meta.field("ownerReferences"));
    for entry in meta.field("managedFields").items() {
        validate_managed_fields(entry);
    }
}

/// A generated name gets characters appended, so a trailing dash is valid.
fn as_prefix(name: &str) -> String {
    match name.len() > 1 && name.ends_with('-') {
        true => {
            let mut end = name.len() - 2;
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}a", &name[..end])
        }
        false => name.to_owned(),
    }
}

fn validate_owners(owners: Field<'_>) {
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        let (api_version, kind, name) = (owner.field("apiVersion"), owner.field("kind"), owner.field("name"));
        // Errors about one owner name the list, not the entry, as in kube-apiserver.
        let version = GroupVersion::parse(api_version.text()).map(|gv| gv.version).unwrap_or_default();
        let at = |child: &str| owners.field_path().child(child);
        if version.is_empty() {
            owners.push(FieldError::invalid(at("apiVersion"), api_version.text(), "version must not be empty"));
        }
        for (field, child) in [(kind, "kind"), (name, "name"), (owner.field("uid"), "uid")] {
            if field.is_empty() {
                owners.push(FieldError::invalid(at(child), "", "must not be empty"));
            }
        }
        if api_version.text() == "v1" && kind.text() == "Event" {
            owners
                .with(owner.value())
                .invalid_internal("SOwnerReference", "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.field("controller").flag() {
            let this = format!("{}/{}", kind.text(), name.text());
            match &controller {
                Some(first) => owners.invalid_internal("[]SOwnerReference", &format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                )),
                None => controller = Some(this),
            }
        }
    }
}

fn validate_finalizers(finalizers: Field<'_>) {
    for name in finalizers.texts() {
        finalizers.problems_as(name, names::qualified_name(name));
    }
    let has = |wanted: &str| finalizers.texts().any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn refuse_new_finalizers(finalizers: Field<'_>, old: &Object) {
    let mut added: Vec<&str> = finalizers.texts().filter(|name| !old.has_finalizer(name)).collect();
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let quoted: Vec<String> = added.iter().map(|name| object::field::go_quote(name)).collect();
        finalizers.forbidden(format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        ));
    }
}

fn validate_managed_fields(entry: Field<'_>) {
    let operation = entry.field("operation");
    if !matches!(operation.text(), "Apply" | "Update") {
        operation.invalid("must be `Apply` or `Update`");
    }
    let fields_type = entry.field("fieldsType");
    if !matches!(fields_type.text(), "" | "FieldsV1") {
        fields_type.invalid("must be `FieldsV1`");
    }
    let manager = entry.field("manager");
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        manager.too_long(FIELD_MANAGER_BYTES_MAX);
    }
    for (position, c) in manager.text().char_indices().filter(|(_, c)| c.is_control()) {
        manager.invalid(format!("invalid character U+{:04X} (at position {position})", c as u32));
    }
    let subresource = entry.field("subresource");
    if subresource.len() > SUBRESOURCE_BYTES_MAX {
        subresource.too_long(SUBRESOURCE_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(meta: Value) -> Object {
        Object::from_value(json!({"metadata": meta})).expect("a map")
    }

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn new_metadata_is_checked() {
        let cases: [(Value, &[&str]); 6] = [
            (json!({"name": "a", "namespace": "b"}), &[]),
            (json!({"name": "a-1", "generateName": "a-", "namespace": "b"}), &[]),
            (json!({"namespace": "b"}), &["metadata.name: Required value: name or generateName is required"]),
            (json!({"name": "a"}), &["metadata.namespace: Required value"]),
            (
                json!({"name": "a", "namespace": "b", "finalizers": ["orphan", "foregroundDeletion"]}),
                &["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: \
                   finalizer orphan and foregroundDeletion cannot be both set"],
            ),
            (
                json!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}]}),
                &[
                    "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                    "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
                ],
            ),
        ];
        for (meta, expected) in cases {
            let errors = validate_object_meta(&object(meta.clone()), true, names::dns1123_subdomain);
            assert_eq!(texts(errors), expected, "{meta}");
        }
    }

    #[test]
    fn finalizers_cannot_be_added_while_deleting() {
        let old = object(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/a"]}));
        let new =
            object(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/a", "x/b"]}));
        assert_eq!(
            texts(validate_object_meta_update(&new, &old)),
            ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
              found new finalizers []string{\"x/b\"}"]
        );
        assert_eq!(texts(validate_object_meta_update(&old, &old)), Vec::<String>::new());
    }
}
