//! Objects that are not this server's own, such as those of members, in the form a client asked for.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::Response;
use kinds::protobuf;
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::{self, Body};
use super::negotiate::{Encoding, Format, Shape};
use super::object::{encoded, finish, metadata_only, protobuf_bytes, shaped};
use super::table;
use super::watch::{STREAMED_TYPES, write_frame, write_line};
use crate::registry::Resource;

/// A list but for its items.
pub struct ForeignList {
    pub api_version: String,
    pub kind: String,
    /// `resourceVersion` and `continue`.
    pub metadata: Value,
}

/// What a watcher is told.
pub enum ForeignEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    Change(&'static str, Arc<Object>),
    Bookmark {
        version: String,
        initial_events_end: bool,
    },
    /// Always the last.
    Error(Status),
}

/// The resource is this server's of the same name: it knows the columns.
pub fn foreign_object(resource: &Resource, object: &Arc<Object>, format: Format) -> Response<Body> {
    shaped(resource, 200, object, format)
}

/// Items are encoded objects; clients that take them as they are get them so.
pub fn foreign_list(
    resource: &Resource,
    list: &ForeignList,
    items: &[Bytes],
    format: Format,
    include_object: Option<&str>,
) -> Result<Response<Body>, Status> {
    if format.is_plain() {
        return Ok(finish(200, joined(list, items).into(), format));
    }
    let decode = |item: &Bytes| Object::decode(item).map(Arc::new).map_err(Status::internal);
    let objects: Vec<Arc<Object>> = items.iter().map(decode).collect::<Result<_, _>>()?;
    let metadata = list.metadata.clone();
    let value = match format.shape {
        Shape::Object if format.encoding == Encoding::Protobuf => {
            let items = objects.iter().map(|object| object.as_map());
            let encoded = protobuf::encode_list(&list.api_version, &list.kind, &metadata, items);
            return Ok(protobuf_bytes(200, encoded, format));
        }
        Shape::Object => {
            let items: Vec<Value> = objects.iter().map(|object| object.to_value()).collect();
            json!({"apiVersion": list.api_version, "kind": list.kind, "metadata": metadata, "items": items})
        }
        Shape::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| metadata_only(object)).collect();
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
        }
        Shape::Table => table::table_with(resource, &objects, metadata, true, include_object)?,
    };
    Ok(encoded(200, &value, format))
}

fn joined(list: &ForeignList, items: &[Bytes]) -> Vec<u8> {
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = json!({"apiVersion": list.api_version, "kind": list.kind, "metadata": list.metadata}).to_string();
    out.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
    out.extend_from_slice(b",\"items\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.extend_from_slice(b"]}");
    out
}

/// Frames as events come; the answer ends with the stream.
pub fn foreign_watch(
    resource: Arc<Resource>,
    events: impl Stream<Item = Vec<ForeignEvent>> + Send + 'static,
    format: Format,
) -> Result<Response<Body>, Status> {
    if format.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable(STREAMED_TYPES));
    }
    let mut frames = Frames { resource, format, columns_sent: false };
    let frames = events.map(move |events| Ok(frames.encode(events)));
    Ok(body::watch(format.encoding == Encoding::Protobuf, Body::stream(frames)))
}

struct Frames {
    resource: Arc<Resource>,
    format: Format,
    /// The first row of a table watch brings the column definitions, the others leave them out.
    columns_sent: bool,
}

impl Frames {
    fn encode(&mut self, events: Vec<ForeignEvent>) -> Bytes {
        let mut out = BytesMut::new();
        for event in events {
            let (change, object) = match event {
                ForeignEvent::Change(change, object) => (change, self.shaped(object)),
                ForeignEvent::Bookmark { version, initial_events_end } => {
                    ("BOOKMARK", self.bookmark(&version, initial_events_end))
                }
                ForeignEvent::Error(status) => ("ERROR", status.to_value()),
            };
            if self.format.encoding == Encoding::Protobuf {
                write_frame(&mut out, change, &Object::from_value(object).unwrap_or_default());
            } else {
                write_line(&mut out, &json!({"type": change, "object": object}));
            }
        }
        out.freeze()
    }

    fn shaped(&mut self, object: Arc<Object>) -> Value {
        match self.format.shape {
            Shape::Object => object.to_value(),
            Shape::Metadata => metadata_only(&object),
            Shape::Table => {
                let with_columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = json!({"resourceVersion": object.resource_version()});
                table::table(&self.resource, &[object], metadata, with_columns)
            }
        }
    }

    fn bookmark(&self, version: &str, initial_events_end: bool) -> Value {
        super::watch::bookmark(&self.resource, self.format.shape, version, initial_events_end)
    }
}
