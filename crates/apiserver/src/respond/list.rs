//! Lists on the wire: stored bytes joined without decoding where the client accepts the stored form.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use kinds::protobuf;
use object::request::User;
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::Body;
use super::list_stream::{counted_bytes, is_streamable, streamed_list};
use super::negotiate::{Encoding, Format, Shape};
use super::object::{encoded, finish, metadata_only, protobuf_bytes};
use super::table;
use crate::convert;
use crate::scope::ReadScope;
use crate::served_resources::Resource;
use crate::storage::Stored;
use crate::verbs::list::Listed;

/// A list but for its items.
pub struct ListHead {
    pub api_version: String,
    pub kind: String,
    /// `resourceVersion` and `continue`.
    pub metadata: Value,
    /// Items of built-in lists leave out apiVersion and kind, which the list has.
    pub is_kind_on_items: bool,
}

impl ListHead {
    fn of(resource: &Resource, metadata: Value) -> Self {
        Self {
            api_version: resource.kind.gvk.api_version(),
            kind: resource.kind.list_kind.clone(),
            metadata,
            is_kind_on_items: resource.custom.is_some(),
        }
    }
}

/// Memory a list takes while it is decoded and encoded as a whole, for each byte of its stored form.
const WHOLE_LIST_FACTOR: usize = 4;
/// Objects of a list that are decoded before other requests get their turn.
const DECODED_BETWEEN_YIELDS: usize = 32;

/// The list in the form the client accepts. Large ones are given out in pieces where the form allows it.
pub async fn list_response(
    scope: ReadScope<'_>,
    user: &Arc<User>,
    resource: &Arc<Resource>,
    listed: Listed,
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    let head = ListHead::of(resource, list_metadata(&listed));
    let size = listed.entries.iter().map(|entry| entry.stored.size() + 48).sum();
    let counted_while_streamed = counted_bytes(size);
    if let Some(counted) = counted_while_streamed.filter(|_| is_streamable(resource, format)) {
        let reservation = scope.limits.reserve(user, counted)?;
        let counted = (scope.limits, reservation);
        return streamed_list(resource, &head, listed.entries, format, include_object, counted, scope.parts);
    }
    if format.is_plain() && resource.served_is_stored() {
        let write = |stored: &Stored, out: &mut Vec<u8>| match head.is_kind_on_items {
            false => stored.write_json_item(out),
            true => stored.write_json(out),
        };
        let bytes = joined(&head, listed.entries.iter().map(|entry| &entry.stored), size, write);
        return Ok(finish(200, bytes.into(), format));
    }
    let reservation =
        counted_while_streamed.map(|_| scope.limits.reserve(user, size * WHOLE_LIST_FACTOR)).transpose()?;
    let mut objects = Vec::with_capacity(listed.entries.len());
    for (index, entry) in listed.entries.iter().enumerate() {
        if index % DECODED_BETWEEN_YIELDS == 0 {
            tokio::task::yield_now().await;
        }
        objects.push(convert::shared_to_served(scope.resources, resource, entry.decode()).await?);
    }
    let Some(reservation) = reservation else {
        return shaped_list(resource, head, &objects, format, include_object);
    };
    // On a thread of its own: the threads of requests would serve no others for as long as it takes.
    let turn = scope.limits.encoding_turn().await;
    let (resource, include_object) = (Arc::clone(resource), include_object.map(str::to_owned));
    let encode = move || {
        let _while_encoded = (reservation, turn);
        shaped_list(&resource, head, &objects, format, include_object.as_deref())
    };
    let failed = |_| Err(Status::internal("the list could not be encoded; the log of the server has the details"));
    tokio::task::spawn_blocking(encode).await.unwrap_or_else(failed)
}

/// The same for objects that are computed on request and have no version of their own.
pub fn objects_response(
    resource: &Resource,
    objects: &[Arc<Object>],
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    shaped_list(resource, ListHead::of(resource, json!({})), objects, format, include_object)
}

/// The same for objects of others, such as members. Items are encoded objects; clients that take them as they are get them
/// so. The resource is this server's of the same name: it knows the columns.
pub fn foreign_list(
    resource: &Resource,
    head: ListHead,
    items: &[Bytes],
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    if format.is_plain() {
        let size = items.iter().map(|item| item.len() + 1).sum();
        let bytes = joined(&head, items.iter(), size, |item, out| out.extend_from_slice(item));
        return Ok(finish(200, bytes.into(), format));
    }
    let decode = |item: &Bytes| Object::decode(item).map(Arc::new).map_err(Status::internal);
    let objects: Vec<Arc<Object>> = items.iter().map(decode).collect::<Result<_, _>>()?;
    shaped_list(resource, head, &objects, format, include_object)
}

fn shaped_list(
    resource: &Resource,
    head: ListHead,
    objects: &[Arc<Object>],
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    let ListHead { api_version, kind, metadata, is_kind_on_items } = head;
    let value = match format.shape {
        Shape::Object if format.encoding == Encoding::Protobuf => {
            let items = objects.iter().map(|object| object.as_map());
            return Ok(protobuf_bytes(200, protobuf::encode_list(&api_version, &kind, &metadata, items), format));
        }
        Shape::Object => {
            let items: Vec<Value> = objects.iter().map(|object| item(object, is_kind_on_items)).collect();
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items})
        }
        Shape::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| metadata_only(object)).collect();
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
        }
        Shape::Table => table::table_with(resource, objects, metadata, true, include_object)?,
    };
    Ok(encoded(200, &value, format))
}

fn item(object: &Object, is_kind_shown: bool) -> Value {
    let mut object = object.clone();
    if !is_kind_shown {
        object.remove(&["apiVersion"]);
        object.remove(&["kind"]);
    }
    object.into_value()
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

/// The head of the list, followed by the bytes of every item.
fn joined<T>(head: &ListHead, items: impl Iterator<Item = T>, size: usize, write: impl Fn(T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 256);
    let head = json!({"apiVersion": head.api_version, "kind": head.kind, "metadata": head.metadata}).to_string();
    out.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
    out.extend_from_slice(b",\"items\":[");
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, &mut out);
    }
    out.extend_from_slice(b"]}");
    out
}
