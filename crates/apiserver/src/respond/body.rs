//! The body of a response: bytes at hand, or a stream of them for watches and proxied connections.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use object::Status;
use serde_json::Value;

/// What a handler answers with. An enum rather than a boxed trait, since nearly all bodies are one piece.
pub enum Body {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>),
}

impl Body {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub fn stream(stream: impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }
}

impl Body {
    /// Keeps `held` (a place among the requests in flight) until a stream has ended; whole bodies need no keeping.
    pub fn holding<T: Send + 'static>(self, held: T) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Stream(stream) => Self::stream(stream.inspect(move |_| {
                let _ = &held;
            })),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b)))),
            Self::Stream(stream) => stream.as_mut().poll_next(cx).map(|item| item.map(|r| r.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

fn respond(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

pub fn json(code: u16, bytes: impl Into<Bytes>) -> Response<Body> {
    respond(code, "application/json", Body::whole(bytes))
}

/// Frames as they come, in JSON lines unless they are protobuf.
pub fn watch(protobuf: bool, frames: Body) -> Response<Body> {
    let content_type = if protobuf { "application/vnd.kubernetes.protobuf;stream=watch" } else { "application/json" };
    respond(200, content_type, frames)
}

pub fn protobuf(code: u16, bytes: impl Into<Bytes>) -> Response<Body> {
    respond(code, "application/vnd.kubernetes.protobuf", Body::whole(bytes))
}

pub fn value(code: u16, value: &Value) -> Response<Body> {
    json(code, value.to_string())
}

pub fn text(code: u16, content_type: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    respond(code, content_type, Body::whole(text))
}

/// What a Go server says of a path that leads nowhere.
pub fn no_such_page() -> Response<Body> {
    text(404, "text/plain; charset=utf-8", "404 page not found\n")
}

/// The client has it already. Nothing is said of the content, or caches would take it for the new truth.
pub fn not_modified(etag: &str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    if let Ok(etag) = http::HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// A `Status` with the headers clients act on.
pub fn status(status: &Status) -> Response<Body> {
    let mut response = value(status.code, &status.to_value());
    set_retry_after(status, &mut response);
    response
}

pub fn set_retry_after(status: &Status, response: &mut Response<Body>) {
    let retry_after = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    if retry_after > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, retry_after.into());
    }
}
