//! `Table` responses, the form `kubectl get` prints.

use std::sync::Arc;

use object::{Object, Status};
use serde_json::{Value, json};

use super::object::metadata_only;
use crate::served_resources::Resource;

/// A table whose rows carry the objects' metadata, the default.
pub fn table(resource: &Resource, objects: &[Arc<Object>], metadata: Value, with_columns: bool) -> Value {
    build(resource, objects, metadata, with_columns, metadata_only)
}

/// A table whose rows carry the part of the object that `includeObject` names.
pub fn table_with(
    resource: &Resource,
    objects: &[Arc<Object>],
    metadata: Value,
    with_columns: bool,
    include_object: Option<&str>,
) -> Result<Value, Status> {
    match include_object {
        None | Some("Metadata") => Ok(table(resource, objects, metadata, with_columns)),
        Some("None") => Ok(build(resource, objects, metadata, with_columns, |_| Value::Null)),
        Some("Object") => Ok(build(resource, objects, metadata, with_columns, Object::to_value)),
        Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
    }
}

fn build(
    resource: &Resource,
    objects: &[Arc<Object>],
    metadata: Value,
    with_columns: bool,
    show: impl Fn(&Object) -> Value,
) -> Value {
    let printer = &resource.kind.printer;
    let now = jiff::Timestamp::now();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": printer.cells(object, now), "object": show(object)});
            let conditions = printer.conditions(object);
            if !conditions.is_empty() {
                row["conditions"] = conditions.into();
            }
            row
        })
        .collect();
    let columns = if with_columns { Some(printer.columns().iter().map(column).collect::<Vec<Value>>()) } else { None };
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn column(column: &kinds::Column) -> Value {
    json!({
        "name": column.name, "type": column.ty, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}
