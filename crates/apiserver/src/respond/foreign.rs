//! Objects of other servers, such as members, in the form the client accepts.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::Response;
use object::{Object, Status};
use serde_json::json;

use super::body::{self, Body};
use super::negotiate::{Encoding, Format};
use super::object::shaped;
use super::watch::{ChangeShape, STREAMED_TYPES, write_frame, write_line};
use crate::served_resources::Resource;

/// One item of a watch.
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

/// The object of another server. `resource` is this server's resource of the same name and has the columns.
pub fn foreign_object(resource: &Resource, object: &Arc<Object>, format: Format) -> Response<Body> {
    shaped(resource, 200, object, format)
}

/// Frames of a watch of another server; the response ends with the stream.
pub fn foreign_watch(
    resource: Arc<Resource>,
    events: impl Stream<Item = Vec<ForeignEvent>> + Send + 'static,
    format: Format,
) -> Result<Response<Body>, Status> {
    if format.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable(STREAMED_TYPES));
    }
    let mut frames = Frames { resource, format, shape: ChangeShape::new(format.shape) };
    let frames = events.map(move |events| Ok(frames.encode(events)));
    Ok(body::watch(format.encoding == Encoding::Protobuf, Body::stream(frames)))
}

struct Frames {
    resource: Arc<Resource>,
    format: Format,
    shape: ChangeShape,
}

impl Frames {
    fn encode(&mut self, events: Vec<ForeignEvent>) -> Bytes {
        let mut out = BytesMut::new();
        for event in events {
            let (change, object) = match event {
                ForeignEvent::Change(change, object) => (change, self.shape.of(&self.resource, &object)),
                ForeignEvent::Bookmark { version, initial_events_end } => {
                    ("BOOKMARK", self.shape.bookmark(&self.resource, &version, initial_events_end))
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
}
