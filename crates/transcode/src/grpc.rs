//! gRPC over HTTP/2: length-prefixed messages, and the status in trailers.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use object::Status;

use crate::rest::VERSION_HEADER;
use crate::{Reply, ResponseBody, errors};

/// Bytes before each message: a flag for compression and the length.
const PREFIX_BYTES: usize = 5;
/// The largest message that is read.
pub const MESSAGE_BYTES_MAX: usize = 3 << 20;

/// Returns true for requests in gRPC.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type == "application/grpc" || content_type.starts_with("application/grpc+proto")
}

/// Collects messages from the pieces of a body.
#[derive(Default)]
pub struct Messages {
    buffer: BytesMut,
}

impl Messages {
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Takes the next whole message.
    pub fn take(&mut self) -> Result<Option<Bytes>, Status> {
        if self.buffer.len() < PREFIX_BYTES {
            return Ok(None);
        }
        if self.buffer[0] != 0 {
            return Err(Status::new(501, "NotImplemented", "compressed messages are not supported"));
        }
        let length = (&self.buffer[1..PREFIX_BYTES]).get_u32() as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(Status::too_large(format!("limit is {MESSAGE_BYTES_MAX} bytes")));
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// Reads the only message of a body.
pub fn single(body: &[u8]) -> Result<Bytes, Status> {
    let mut messages = Messages::default();
    messages.push(body);
    let first = messages.take()?.ok_or_else(|| Status::bad_request("the body has no whole message"))?;
    match messages.buffer.is_empty() {
        true => Ok(first),
        false => Err(Status::bad_request("the body has more than one message")),
    }
}

/// Returns a message with its prefix.
pub fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    bytes.put_slice(message);
    bytes.freeze()
}

/// Returns the response for a result.
pub fn response(result: Result<Reply, Status>) -> Response<ResponseBody> {
    let mut version = String::new();
    let frames: crate::FrameStream = match result {
        Ok(Reply::Versioned(message, shown)) => {
            version = shown;
            let frames = [Ok(Frame::data(framed(&message))), Ok(Frame::trailers(trailers(None)))];
            Box::pin(stream::iter(frames))
        }
        Ok(Reply::Message(message)) => {
            let frames = [Ok(Frame::data(framed(&message))), Ok(Frame::trailers(trailers(None)))];
            Box::pin(stream::iter(frames))
        }
        Ok(Reply::Stream(results)) => Box::pin(ended(results)),
        // Content is encoded as messages before it gets here.
        Ok(Reply::Raw(_) | Reply::RawStream(_)) => {
            return error(&Status::internal("the result has no message"));
        }
        Err(status) => return error(&status),
    };
    let mut response = Response::new(ResponseBody::Frames(frames));
    if let Ok(version) = HeaderValue::from_str(&version)
        && !version.is_empty()
    {
        response.headers_mut().insert(VERSION_HEADER, version);
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A response without messages: the status is in the headers.
pub fn error(status: &Status) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
    *response.headers_mut() = trailers(Some(status));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The results as messages, then the status. A failed result is the last.
pub fn ended(
    results: crate::call::Results<Bytes>,
) -> impl futures::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send {
    stream::unfold(Some(results), |results| async move {
        let mut results = results?;
        let frame = match results.next().await {
            Some(Ok(message)) => return Some((Ok(Frame::data(framed(&message))), Some(results))),
            Some(Err(status)) => trailers(Some(&status)),
            None => trailers(None),
        };
        Some((Ok(Frame::trailers(frame)), None))
    })
}

fn trailers(status: Option<&Status>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let number = status.map_or(errors::OK, |status| errors::code_of(status).number);
    trailers.insert("grpc-status", number.into());
    if let Some(status) = status {
        let values =
            [("grpc-message", escaped(&status.message)), ("grpc-status-details-bin", errors::details_header(status))];
        for (name, value) in values {
            if let Ok(value) = HeaderValue::from_str(&value) {
                trailers.insert(name, value);
            }
        }
    }
    trailers
}

/// Everything but printable ASCII is percent-encoded.
fn escaped(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Reads the header `grpc-timeout`.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at(text.len().checked_sub(1)?);
    let value: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(value * 3600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_from_any_pieces() {
        let sent = [framed(b"one").as_ref(), framed(b"").as_ref(), framed(b"three").as_ref()].concat();
        for size in 1..sent.len() {
            let (mut messages, mut found) = (Messages::default(), Vec::new());
            for piece in sent.chunks(size) {
                messages.push(piece);
                while let Some(message) = messages.take().expect("valid") {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"], "in pieces of {size}");
        }
    }

    #[test]
    fn broken_and_large_messages_are_refused() {
        assert!(single(b"").is_err());
        assert!(single(&[0, 0, 0, 0, 9, 1]).is_err(), "cut off");
        assert!(single(&[1, 0, 0, 0, 0]).is_err(), "compressed");
        assert!(single(&[0, 0xff, 0xff, 0xff, 0xff]).is_err(), "too large");
        assert!(single(&[framed(b"a"), framed(b"b")].concat()).is_err(), "two");
        assert_eq!(single(&framed(b"a")).expect("one"), &b"a"[..]);
    }

    #[test]
    fn timeouts_and_messages_follow_the_protocol() {
        let check = |text: &'static str, expected: Option<Duration>| {
            let headers = [("grpc-timeout".parse().expect("a name"), HeaderValue::from_static(text))];
            assert_eq!(timeout(&headers.into_iter().collect()), expected, "{text}");
        };
        check("2S", Some(Duration::from_secs(2)));
        check("150m", Some(Duration::from_millis(150)));
        check("S", None);
        check("123456789S", None);
        check("", None);
        assert_eq!(escaped("a%b\né"), "a%25b%0A%C3%A9");
    }
}
