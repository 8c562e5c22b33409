//! The body of a response: bytes at hand, or a stream of them for watches, large answers and proxied connections.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use object::Status;
use object::request::User;
use serde_json::Value;

use crate::limits::{Backlog, Limits, Reservation, Slot};

/// Bodies from this size on are counted until they are sent. Smaller ones cost about as much as the counting.
const COUNTED_FROM_BYTES: usize = 8 << 10;
/// Bodies from this size on are handed to the connection in pieces.
pub const PIECES_FROM_BYTES: usize = 64 << 10;
/// The piece of a large body a connection gets at a time.
pub const PIECE_BYTES: usize = 32 << 10;

/// Frames of a body: data, and trailers at its end.
pub type FrameStream = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send>>;
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// A handler's answer. An enum rather than a boxed trait, since nearly all bodies are one piece.
pub enum Body {
    Whole(Option<Bytes>),
    Stream(ByteStream),
    /// A stream that may end with trailers.
    Frames(FrameStream),
    /// Content in memory, given out in pieces as the client reads it.
    Pieces {
        stream: ByteStream,
        /// Bytes to come, where that is known.
        remaining: Option<u64>,
    },
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
    /// Runs `ended` when a stream has ended or was dropped, and at once for other bodies.
    pub fn on_end(self, ended: impl FnOnce() + Send + 'static) -> Self {
        let guard = OnDrop(Some(ended));
        match self {
            Self::Stream(stream) => Self::stream(stream.inspect(move |_| {
                let _ = &guard;
            })),
            Self::Frames(frames) => Self::Frames(Box::pin(frames.inspect(move |_| {
                let _ = &guard;
            }))),
            body => body,
        }
    }
}

struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

/// Counts the response against the memory of its user until the client has read it.
///
/// A stream keeps its slot: its content is still being made. Reads are refused when the user holds too much; a write
/// has happened, so its response is sent and keeps the slot instead.
pub fn counted(
    response: Response<Body>,
    limits: &Limits,
    user: &Arc<User>,
    slot: Option<Slot>,
    is_read: bool,
) -> Result<Response<Body>, Status> {
    let (parts, body) = response.into_parts();
    let body = match body {
        Body::Whole(Some(bytes)) if bytes.len() >= COUNTED_FROM_BYTES => {
            let held = match limits.reserve(user, bytes.len()) {
                Ok(reservation) => (Some(reservation), None),
                Err(refused) if is_read => return Err(refused),
                Err(_) => (None, slot),
            };
            if bytes.len() < PIECES_FROM_BYTES {
                Body::whole(Bytes::from_owner(CountedBytes { bytes, _held: held }))
            } else {
                in_pieces(limits, bytes, held)
            }
        }
        Body::Stream(stream) => Body::stream(stream.inspect(move |_| {
            let _ = &slot;
        })),
        Body::Frames(frames) => Body::Frames(Box::pin(frames.inspect(move |_| {
            let _ = &slot;
        }))),
        body => body,
    };
    Ok(Response::from_parts(parts, body))
}

/// Bytes that stay counted until the connection has sent them.
struct CountedBytes {
    bytes: Bytes,
    _held: (Option<Reservation>, Option<Slot>),
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn in_pieces(limits: &Limits, bytes: Bytes, (reservation, slot): (Option<Reservation>, Option<Slot>)) -> Body {
    let remaining = Some(bytes.len() as u64);
    let backlog = Backlog::new((bytes, slot), reservation);
    limits.backlogs.watch_over(&backlog);
    let pieces = stream::unfold(backlog, |backlog| async move {
        // Copies: a slice would keep all of the bytes for as long as the connection keeps the slice.
        let piece = backlog.next(|(bytes, _)| {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            Bytes::copy_from_slice(&piece)
        });
        match piece {
            Some(piece) if piece.is_empty() => None,
            Some(piece) => Some((Ok(piece), backlog)),
            None => Some((Err(too_slow()), backlog)),
        }
    });
    Body::Pieces { stream: Box::pin(pieces), remaining }
}

/// Ends a response whose content was dropped.
pub fn too_slow() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the client did not read the response in time")
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b)))),
            Self::Stream(stream) => stream.as_mut().poll_next(cx).map(|item| item.map(|r| r.map(Frame::data))),
            Self::Frames(frames) => frames.as_mut().poll_next(cx),
            Self::Pieces { stream, remaining } => stream.as_mut().poll_next(cx).map(|item| {
                if let (Some(remaining), Some(Ok(piece))) = (remaining, &item) {
                    *remaining -= piece.len() as u64;
                }
                item.map(|r| r.map(Frame::data))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Pieces { remaining: Some(0), .. })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Pieces { remaining: Some(remaining), .. } => SizeHint::with_exact(*remaining),
            Self::Stream(_) | Self::Frames(_) | Self::Pieces { .. } => SizeHint::default(),
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

/// Lists in pieces, as JSON.
pub fn json_pieces(stream: ByteStream) -> Response<Body> {
    respond(200, "application/json", Body::Pieces { stream, remaining: None })
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

/// The answer of a Go server for an unknown path.
pub fn no_such_page() -> Response<Body> {
    text(404, "text/plain; charset=utf-8", "404 page not found\n")
}

/// The client has the current version. Headers about the content are left out, since caches would take them over.
pub fn not_modified(etag: &str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    if let Ok(etag) = http::HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Adds `Warning` headers, which clients show to their user.
pub fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = object::field::go_quote(warning);
        if let Ok(value) = http::HeaderValue::from_str(&format!("299 - {quoted}")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
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
