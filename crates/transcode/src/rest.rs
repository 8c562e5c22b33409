//! REST: finds the method of a path, and writes results as JSON, as lines of JSON, or as server-sent events.

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use object::Status;
use serde_json::json;

use crate::call::Results;
use crate::method::{HttpRoute, Method};
use crate::template::{self, Template};
use crate::{Raw, Reply, ResponseBody, errors};

/// The header with the version of what a response shows.
pub const VERSION_HEADER: &str = "x-flotilla-version";
/// The header by which a request asks for an answer that contains an earlier write.
pub const AT_LEAST_HEADER: &str = "x-flotilla-at-least";

/// The routes of an API.
pub struct Router {
    routes: Vec<(Template, usize, &'static HttpRoute)>,
}

/// The method that a request is for.
pub struct Found {
    /// Index in the table the router was made from.
    pub method: usize,
    pub route: &'static HttpRoute,
    /// Fields that the path names, with their values.
    pub bound: template::Bound,
}

impl Router {
    pub fn new(methods: &'static [Method]) -> Self {
        let mut routes = Vec::new();
        for (index, method) in methods.iter().enumerate() {
            routes.extend(method.routes.iter().map(|route| (Template::parse(route.template), index, route)));
        }
        routes.sort_by_key(|(template, ..)| std::cmp::Reverse(template.literals()));
        Self { routes }
    }

    /// Finds the method of a request. Paths without one are 404; paths with another HTTP method are 405.
    pub fn find(&self, verb: &str, path: &str) -> Result<Found, Status> {
        let (segments, action) = template::split(path)?;
        let mut is_known = false;
        for (template, method, route) in &self.routes {
            let Some(bound) = template.matches(&segments, action) else { continue };
            if route.verb == verb {
                return Ok(Found { method: *method, route, bound });
            }
            is_known = true;
        }
        match is_known {
            true => Err(Status::method_not_served()),
            false => Err(Status::new(404, "NotFound", "no method has this path")),
        }
    }
}

/// Returns the response for a result.
pub fn response(result: Result<Reply, Status>, headers: &HeaderMap) -> Response<ResponseBody> {
    match result {
        Ok(Reply::Message(bytes)) => with_type("application/json", ResponseBody::Whole(bytes)),
        Ok(Reply::Versioned(bytes, version)) => {
            let mut response = with_type("application/json", ResponseBody::Whole(bytes));
            set(&mut response, http::HeaderName::from_static(VERSION_HEADER), &version);
            response
        }
        Ok(Reply::Raw(raw)) => raw_response(raw),
        Ok(Reply::Stream(results)) if wants_events(headers) => {
            with_type("text/event-stream", ResponseBody::Frames(Box::pin(events(results))))
        }
        Ok(Reply::Stream(results)) => with_type("application/x-ndjson", ResponseBody::Frames(Box::pin(lines(results)))),
        Ok(Reply::RawStream(results)) => raw_stream(results),
        Err(status) => error(&status),
    }
}

/// Returns the response for an error.
pub fn error(status: &Status) -> Response<ResponseBody> {
    let code = errors::code_of(status).http;
    let body = errors::body(status).to_string();
    let mut response = with_type("application/json", ResponseBody::Whole(body.into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = errors::retry_after(status) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    if code == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn with_type(content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn raw_response(raw: Raw) -> Response<ResponseBody> {
    let mut response = with_type("application/octet-stream", ResponseBody::Whole(raw.data));
    set(&mut response, header::CONTENT_TYPE, &raw.content_type);
    set(&mut response, http::HeaderName::from_static(VERSION_HEADER), &raw.version);
    response
}

/// The media type is the one of the first piece; errors after it end the connection.
fn raw_stream(results: Results<Raw>) -> Response<ResponseBody> {
    let frames = results.map(|result| match result {
        Ok(raw) => Ok(Frame::data(raw.data)),
        Err(status) => Err(std::io::Error::other(status.message)),
    });
    with_type("application/octet-stream", ResponseBody::Frames(Box::pin(frames)))
}

fn set(response: &mut Response<ResponseBody>, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value)
        && !value.is_empty()
    {
        response.headers_mut().insert(name, value);
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|part| part.trim().starts_with("text/event-stream"))
}

type FrameResult = Result<Frame<Bytes>, std::io::Error>;

/// One object per line: `{"result": …}`, and `{"error": …}` at the end of a failed stream.
fn lines(results: Results<Bytes>) -> impl futures::Stream<Item = FrameResult> + Send {
    results.map(|result| {
        let line = match result {
            Ok(message) => [b"{\"result\":", &message[..], b"}\n"].concat(),
            Err(status) => format!("{}\n", json!({"error": errors::body(&status)})).into_bytes(),
        };
        Ok(Frame::data(line.into()))
    })
}

fn events(results: Results<Bytes>) -> impl futures::Stream<Item = FrameResult> + Send {
    results.map(|result| {
        let event = match result {
            Ok(message) => [b"event: result\ndata: ", &message[..], b"\n\n"].concat(),
            Err(status) => format!("event: error\ndata: {}\n\n", errors::body(&status)).into_bytes(),
        };
        Ok(Frame::data(event.into()))
    })
}
