//! Watches on the wire: one JSON document per line, shared between watchers where they see the same, or protobuf frames.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::Response;
use kinds::protobuf;
use object::request::User;
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::{self, Body, PIECE_BYTES, PIECES_FROM_BYTES};
use super::negotiate::{Encoding, Format, Shape};
use super::object::metadata_only;
use super::table;
use crate::cache::Change;
use crate::convert;
use crate::limits::Backlog;
use crate::served_resources::Resource;
use crate::server::Server;
use crate::verbs::watch::{Watch, WatchItem};

struct Streaming {
    server: Arc<Server>,
    user: Arc<User>,
    resource: Arc<Resource>,
    watch: Watch,
    format: Format,
    shape: ChangeShape,
    /// The rest of a large frame, which is given out in pieces.
    unsent: Option<Arc<Backlog<Bytes>>>,
    is_over: bool,
}

pub const STREAMED_TYPES: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

pub fn watch_response(
    server: Arc<Server>,
    user: Arc<User>,
    resource: Arc<Resource>,
    watch: Watch,
    format: Format,
) -> Result<Response<Body>, Status> {
    if format.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable(STREAMED_TYPES));
    }
    server.metrics.watchers.fetch_add(1, Ordering::Relaxed);
    let shape = ChangeShape::new(format.shape);
    let state = Streaming { server, user, resource, watch, format, shape, unsent: None, is_over: false };
    let frames = stream::unfold(state, |mut state| async move {
        let bytes = state.next_bytes().await?;
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
    /// The next bytes on the wire; `None` when the watch is over.
    async fn next_bytes(&mut self) -> Option<Bytes> {
        if let Some(piece) = self.next_piece() {
            return Some(piece);
        }
        if self.is_over {
            return None;
        }
        let items = self.watch.next().await?;
        let bytes = self.encode(items).await;
        if bytes.len() < PIECES_FROM_BYTES {
            return Some(bytes);
        }
        match self.server.limits.reserve(&self.user, bytes.len()) {
            Ok(reservation) => {
                let backlog = Backlog::new(bytes, Some(reservation));
                self.server.limits.backlogs.watch_over(&backlog);
                self.unsent = Some(backlog);
                self.next_piece()
            }
            // The client has too much unread already: it must start over.
            Err(_) => {
                self.is_over = true;
                let status = Status::gone("the client does not read its watches fast enough");
                Some(self.encode(vec![WatchItem::Error(status)]).await)
            }
        }
    }

    fn next_piece(&mut self) -> Option<Bytes> {
        let piece = self.unsent.as_ref()?.next(|bytes| {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            Bytes::copy_from_slice(&piece)
        });
        match piece {
            Some(piece) if !piece.is_empty() => return Some(piece),
            Some(_) => {}
            // The frame was dropped in its middle, so nothing can follow it.
            None => self.is_over = true,
        }
        self.unsent = None;
        None
    }

    async fn encode(&mut self, items: Vec<WatchItem>) -> Bytes {
        let json_lines = self.format.encoding != Encoding::Protobuf;
        let unshaped = self.format.shape == Shape::Object && self.resource.served_is_stored();
        let plain = json_lines && unshaped;
        // The common case of one change is sent without a copy.
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
                    ("BOOKMARK", self.shape.bookmark(&self.resource, &version, initial_events_end))
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
        let object = convert::shared_to_served(self.server.resources(), &self.resource, change.entry.decode()).await?;
        Ok(self.shape.of(&self.resource, &object))
    }
}

/// The form of a changed object.
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

    /// An object without content that carries a version, in the form of the others.
    pub fn bookmark(&mut self, resource: &Resource, version: &str, initial_events_end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": version});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let gvk = &resource.kind.gvk;
        let bare = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata});
        self.of(resource, &Arc::new(Object::from_value(bare).expect("a map")))
    }
}

pub fn write_line(out: &mut BytesMut, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.extend_from_slice(b"\n");
}

pub fn write_frame(out: &mut BytesMut, change: &str, object: &Object) {
    let frame = protobuf::watch_frame(change, object.as_map()).or_else(|error| {
        let status = Status::internal(format!("the change cannot be encoded as protobuf: {error}")).to_value();
        protobuf::watch_frame("ERROR", Object::from_value(status).unwrap_or_default().as_map())
    });
    out.extend_from_slice(&frame.unwrap_or_default());
}
