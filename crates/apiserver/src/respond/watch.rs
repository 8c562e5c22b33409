//! Watches on the wire: one JSON document per line, shared between watchers where they see the same, or protobuf frames.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::Response;
use kinds::protobuf;
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::{self, Body};
use super::negotiate::{Encoding, Format, Shape};
use super::object::metadata_only;
use super::table;
use crate::cache::Change;
use crate::convert;
use crate::served_resources::Resource;
use crate::server::Server;
use crate::verbs::watch::{Watch, WatchItem};

struct Streaming {
    server: Arc<Server>,
    resource: Arc<Resource>,
    watch: Watch,
    format: Format,
    shape: ChangeShape,
}

pub const STREAMED_TYPES: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

pub fn watch_response(
    server: Arc<Server>,
    resource: Arc<Resource>,
    watch: Watch,
    format: Format,
) -> Result<Response<Body>, Status> {
    if format.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable(STREAMED_TYPES));
    }
    server.metrics.watchers.fetch_add(1, Ordering::Relaxed);
    let state = Streaming { server, resource, watch, format, shape: ChangeShape::new(format.shape) };
    let frames = stream::unfold(state, |mut state| async move {
        let items = state.watch.next().await?;
        let bytes = state.encode(items).await;
        Some((Ok(bytes), state))
    });
    Ok(body::watch(format.encoding == Encoding::Protobuf, Body::stream(frames)))
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.server.metrics.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streaming {
    async fn encode(&mut self, items: Vec<WatchItem>) -> Bytes {
        let json_lines = self.format.encoding != Encoding::Protobuf;
        let unshaped = self.format.shape == Shape::Object && self.resource.served_is_stored();
        let plain = json_lines && unshaped;
        // The common case of one change goes out without being copied.
        if let ([WatchItem::Change(change)], true) = (&items[..], plain) {
            return change.frame();
        }
        let mut out = BytesMut::new();
        for item in items {
            let (change, object) = match item {
                WatchItem::Change(change) if plain => {
                    out.extend_from_slice(&change.frame());
                    continue;
                }
                WatchItem::Change(change) if unshaped => {
                    write_frame(&mut out, change.kind.name(), &change.entry.decode());
                    continue;
                }
                WatchItem::Change(change) => match self.shaped(&change).await {
                    Ok(value) => (change.kind.name(), value),
                    Err(status) => ("ERROR", status.to_value()),
                },
                WatchItem::Bookmark { revision, initial_events_end } => {
                    let version = revision.to_string();
                    ("BOOKMARK", bookmark(&self.resource, self.format.shape, &version, initial_events_end))
                }
                WatchItem::Error(status) => ("ERROR", status.to_value()),
            };
            if json_lines {
                write_line(&mut out, &json!({"type": change, "object": object}));
            } else {
                write_frame(&mut out, change, &Object::from_value(object).unwrap_or_default());
            }
        }
        out.freeze()
    }

    async fn shaped(&mut self, change: &Change) -> Result<Value, Status> {
        let object = convert::shared_to_served(&self.server, &self.resource, change.entry.decode()).await?;
        Ok(self.shape.of(&self.resource, &object))
    }
}

/// What is shown of a changed object.
pub struct ChangeShape {
    shape: Shape,
    /// The first row of a table watch brings the column definitions, the others leave them out.
    columns_sent: bool,
}

impl ChangeShape {
    pub fn new(shape: Shape) -> Self {
        Self { shape, columns_sent: false }
    }

    pub fn of(&mut self, resource: &Resource, object: &Arc<Object>) -> Value {
        match self.shape {
            Shape::Object => object.to_value(),
            Shape::Metadata => metadata_only(object),
            Shape::Table => {
                let with_columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = json!({"resourceVersion": object.resource_version()});
                table::table(resource, std::slice::from_ref(object), metadata, with_columns)
            }
        }
    }
}

pub fn bookmark(resource: &Resource, shape: Shape, version: &str, initial_events_end: bool) -> Value {
    let mut metadata = json!({"resourceVersion": version, "creationTimestamp": null});
    if initial_events_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let gvk = &resource.kind.gvk;
    match shape {
        Shape::Object => json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata}),
        Shape::Metadata => {
            let object = Object::from_value(json!({"metadata": metadata})).expect("a map");
            metadata_only(&object)
        }
        Shape::Table => {
            let row = json!({"cells": [], "object": {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}});
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": {"resourceVersion": version},
                "columnDefinitions": [], "rows": [row]})
        }
    }
}

pub fn write_line(out: &mut BytesMut, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.extend_from_slice(b"\n");
}

pub fn write_frame(out: &mut BytesMut, change: &str, object: &Object) {
    let frame = protobuf::watch_frame(change, object.as_map()).or_else(|error| {
        let status = Status::internal(format!("the change cannot be written as protobuf: {error}")).to_value();
        protobuf::watch_frame("ERROR", Object::from_value(status).unwrap_or_default().as_map())
    });
    out.extend_from_slice(&frame.unwrap_or_default());
}
