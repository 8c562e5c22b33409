//! Lists on the wire: stored bytes joined without decoding where the client takes them as they are.

use std::sync::Arc;

use http::Response;
use kinds::protobuf;
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::Body;
use super::negotiate::{Encoding, Format, Shape};
use super::object::{encoded, finish, metadata_only, protobuf_bytes};
use super::table;
use crate::convert;
use crate::registry::Resource;
use crate::server::Server;
use crate::verbs::list::Listed;

pub async fn list_response(
    server: &Server,
    resource: &Resource,
    listed: Listed,
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    if format.is_plain() && resource.served_is_stored() {
        return Ok(finish(200, joined(resource, &listed).into(), format));
    }
    let objects = served(server, resource, &listed).await?;
    let metadata = list_metadata(&listed);
    let value = match format.shape {
        Shape::Object if format.encoding == Encoding::Protobuf => {
            let (api_version, items) = (resource.kind.gvk.api_version(), objects.iter().map(|object| object.as_map()));
            let encoded = protobuf::encode_list(&api_version, &resource.kind.list_kind, &metadata, items);
            return Ok(protobuf_bytes(200, encoded, format));
        }
        Shape::Object => list_document(resource, &objects, metadata),
        Shape::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| metadata_only(object)).collect();
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
        }
        Shape::Table => table::table_with(resource, &objects, metadata, true, include_object)?,
    };
    Ok(encoded(200, &value, format))
}

/// The same for objects that are made when they are asked for. They have no version of their own.
pub fn objects_response(
    resource: &Resource,
    objects: &[Arc<Object>],
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    let value = match format.shape {
        Shape::Object => list_document(resource, objects, json!({})),
        Shape::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| metadata_only(object)).collect();
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": items})
        }
        Shape::Table => table::table_with(resource, objects, json!({}), true, include_object)?,
    };
    Ok(encoded(200, &value, format))
}

async fn served(server: &Server, resource: &Resource, listed: &Listed) -> Result<Vec<Arc<Object>>, Status> {
    let mut objects = Vec::with_capacity(listed.entries.len());
    for entry in &listed.entries {
        let object = entry.decode();
        objects.push(if resource.served_is_stored() {
            object
        } else {
            Arc::new(convert::to_served(server, resource, (*object).clone()).await?)
        });
    }
    Ok(objects)
}

fn list_document(resource: &Resource, objects: &[Arc<Object>], metadata: Value) -> Value {
    let item = |object: &Arc<Object>| {
        let mut object = (**object).clone();
        // Items of built-in lists leave out what the list says for all of them.
        if resource.custom.is_none() {
            object.remove(&["apiVersion"]);
            object.remove(&["kind"]);
        }
        object.into_value()
    };
    let items: Vec<Value> = objects.iter().map(item).collect();
    let kind = &resource.kind;
    json!({"apiVersion": kind.gvk.api_version(), "kind": kind.list_kind, "metadata": metadata, "items": items})
}

fn list_metadata(listed: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
    if let Some(token) = &listed.continue_token {
        metadata["continue"] = token.clone().into();
    }
    if let Some(remaining) = listed.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// The stored bytes of every item behind the head of the list.
fn joined(resource: &Resource, listed: &Listed) -> Vec<u8> {
    let size: usize = listed.entries.iter().map(|entry| entry.stored.bytes().len() + 48).sum();
    let mut out = Vec::with_capacity(size + 256);
    let kind = &resource.kind;
    let head = json!({"apiVersion": kind.gvk.api_version(), "kind": kind.list_kind, "metadata": list_metadata(listed)});
    let head = head.to_string();
    out.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
    out.extend_from_slice(b",\"items\":[");
    for (index, entry) in listed.entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if resource.custom.is_none() {
            entry.stored.write_json_item(&mut out);
        } else {
            entry.stored.write_json(&mut out);
        }
    }
    out.extend_from_slice(b"]}");
    out
}
