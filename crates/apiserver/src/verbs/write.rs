//! Shared parts of all writes: metadata that the server sets, and comparisons with the stored object.

use object::request::WriteOptions;
use object::{FieldError, Object, Status};
use serde_json::Value;

use super::Target;
use crate::admission::policies::PolicyRounds;
use crate::admission::{Attributes, Operation};
use crate::context::Context;
use crate::served_resources::Resource;

/// Returns the options of a write as admission receives them.
pub fn options_value(kind: &str, options: &WriteOptions) -> Value {
    let mut value = serde_json::json!({"apiVersion": "meta.k8s.io/v1", "kind": kind});
    if options.dry_run {
        value["dryRun"] = serde_json::json!(["All"]);
    }
    if let Some(manager) = &options.field_manager {
        value["fieldManager"] = manager.as_str().into();
    }
    value
}

pub fn attributes<'a>(
    target: &'a Target,
    operation: Operation,
    old: Option<&'a Object>,
    options: Value,
    dry_run: bool,
) -> Attributes<'a> {
    Attributes {
        operation,
        resource: &target.resource,
        subresource: target.subresource.as_ref(),
        namespace: &target.namespace,
        name: &target.name,
        old,
        options,
        dry_run,
        policy_rounds: PolicyRounds::default(),
    }
}

/// Sets the namespace of the request on the object; an error when the object names another.
pub fn place_in_namespace(target: &Target, object: &mut Object) -> Result<(), Status> {
    if !target.resource.kind.namespaced {
        object.remove(&["metadata", "namespace"]);
        return Ok(());
    }
    let named = object.namespace();
    if target.namespace.is_empty() {
        return Err(Status::bad_request("an empty namespace may not be set during creation"));
    }
    if !named.is_empty() && named != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object.set_namespace(&target.namespace);
    Ok(())
}

/// Sets the metadata that a client may not choose.
pub fn stamp_new(ctx: &Context, object: &mut Object, counts_generation: bool) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        object.remove(&["metadata", field]);
    }
    object.set(&["metadata", "creationTimestamp"], object::time::format_seconds(ctx.now));
    object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    if counts_generation {
        object.set_generation(1);
    } else {
        object.remove(&["metadata", "generation"]);
    }
}

pub fn counts_generation(resource: &Resource) -> bool {
    resource.custom.is_some() || resource.kind.strategy.counts_generation()
}

/// Refuses a write that is meant for another object of the same name. An empty `uid` means any object.
pub fn check_uid(target: &Target, uid: &str, current: &Object) -> Result<(), Status> {
    if uid.is_empty() || uid == current.uid() { Ok(()) } else { Err(uid_conflict(target, uid, current)) }
}

pub fn uid_conflict(target: &Target, uid: &str, current: &Object) -> Status {
    let detail = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", current.uid());
    Status::conflict(&target.resource.kind.group_resource(), &target.name, detail)
}

/// Restores the metadata that a client cannot change.
pub fn keep_system_fields(new: &mut Object, old: &Object) {
    for field in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName"]
    {
        copy(new, old, &["metadata", field]);
    }
    new.remove(&["metadata", "selfLink"]);
}

/// True when anything but metadata (and, where it is a subresource, status) differs.
pub fn spec_differs(resource: &Resource, new: &Object, old: &Object) -> bool {
    let counted = |key: &str| match key {
        "apiVersion" | "kind" | "metadata" => false,
        "status" => !resource.kind.has_status(),
        _ => true,
    };
    let new_parts = new.as_map().iter().filter(|(key, _)| counted(key));
    let old_parts = old.as_map().iter().filter(|(key, _)| counted(key));
    !new_parts.eq(old_parts)
}

/// Makes `new` equal to `old` at one path, absent included.
pub fn copy(new: &mut Object, old: &Object, path: &[&str]) {
    match old.get(path) {
        Some(value) => new.set(path, value.clone()),
        None => {
            new.remove(path);
        }
    }
}

/// Refuses an object with the fields that are wrong.
pub fn refuse_invalid(resource: &Resource, object: &Object, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&resource.kind.group_kind(), object.name(), &errors))
}
