//! Bodies of requests and responses in the audit log: decoded, masked and without managedFields where asked.

use std::io::Read;

use http::{HeaderMap, Response, header};
use object::depth::{self, DEPTH_MAX};
use serde_json::Value;

use super::{Decision, Level, Record, mask};
use crate::decode::{self, BodyFormat};
use crate::respond::Body;

/// Bodies above this size are left out: entries are lines in a file.
const BODY_BYTES_MAX: u64 = 4 << 20;

impl Record {
    /// Records the body of a request at level Request.
    pub fn request_body(&self, headers: &HeaderMap, bytes: &[u8]) {
        if !bytes.is_empty() && self.records(Level::Request) {
            self.body("requestObject", Level::Request, decoded(headers, bytes));
        }
    }

    /// The same for a tree, of a request that has no encoded body.
    pub fn request_object(&self, object: impl FnOnce() -> Value) {
        if self.records(Level::Request) {
            self.body("requestObject", Level::Request, Some(object()));
        }
    }

    /// Records the body of a response at level RequestResponse. Streams have none.
    pub fn response(&self, response: &Response<Body>) {
        if let Body::Whole(Some(bytes)) = response.body()
            && !bytes.is_empty()
            && self.records(Level::RequestResponse)
        {
            self.body("responseObject", Level::RequestResponse, decoded(response.headers(), bytes));
        }
    }

    pub fn response_object(&self, object: impl FnOnce() -> Value) {
        if self.records(Level::RequestResponse) {
            self.body("responseObject", Level::RequestResponse, Some(object()));
        }
    }

    fn body(&self, field: &str, level: Level, body: Option<Value>) {
        let Some(active) = &self.active else { return };
        // Readers of the log have depth limits too: a line that they reject would hide the request.
        let problem = match &body {
            None => Some("cannot be decoded"),
            Some(body) if depth::of(body) > DEPTH_MAX => Some("is nested too deep to be recorded"),
            Some(_) => None,
        };
        let Some(mut body) = body.filter(|_| problem.is_none()) else {
            let key = format!("audit.flotilla.io/{field}");
            return self.note(level, |event, _| event["annotations"][key] = problem.into());
        };
        mask::mask(&active.info, &mut body);
        self.note(level, |event, decision: &Decision| {
            if decision.omit_managed_fields {
                mask::remove_managed_fields(&mut body);
            }
            event[field] = body;
        });
    }
}

fn decoded(headers: &HeaderMap, bytes: &[u8]) -> Option<Value> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut plain = Vec::new();
    let bytes = if text(header::CONTENT_ENCODING) == "gzip" {
        flate2::read::GzDecoder::new(bytes).take(BODY_BYTES_MAX).read_to_end(&mut plain).ok()?;
        &plain
    } else {
        bytes
    };
    let content_type = text(header::CONTENT_TYPE);
    if content_type.contains("yaml") {
        decode::decode(bytes, BodyFormat::Yaml).ok().map(|decoded| decoded.value)
    } else if content_type.contains("protobuf") {
        decode::decode(bytes, BodyFormat::Protobuf).ok().map(|decoded| decoded.value)
    } else {
        serde_json::from_slice(bytes).ok()
    }
}
