//! Hands a request to an aggregated server and streams the answer back, upgrades included.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Limited};
use object::Status;
use object::request::User;
use pki::tls::client::ReloadableClientCert;
use serde_json::Value;

use super::External;
use crate::forwarding::{self, OutgoingBody, whole};
use crate::http::Incoming;
use crate::outgoing::{self, Destination, OutgoingError};
use crate::resources::Resources;
use crate::respond::Body;

const DOCUMENT_BYTES_MAX: usize = 10 * 1024 * 1024;
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(5);
/// A request that belongs to another server.
pub struct Proxied {
    pub(super) external: Arc<External>,
    pub(super) user: Arc<User>,
    pub(super) identity: Option<Arc<ReloadableClientCert>>,
}

impl Proxied {
    pub async fn forward(self, resources: Resources<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
        if !self.external.available {
            return Err(self.external.unavailable());
        }
        let path = incoming.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        let failed = |error: OutgoingError| {
            let text = format!("error trying to reach service: {error}");
            Status::unavailable(text)
        };
        let destination = self.external.destination(resources, path).await.map_err(failed)?;
        let upgrade = forwarding::wants_upgrade(&incoming);
        let headers = outgoing_headers(&incoming.headers, &self.user, upgrade);
        let body = forwarding::body_of(incoming.body);
        let request = request(incoming.method, &destination, headers, body).map_err(failed)?;
        let response = send(&destination, self.identity, request).await.map_err(failed)?;
        forwarding::answer(response, incoming.upgrade)
    }
}

fn request(
    method: http::Method,
    destination: &Destination,
    headers: HeaderMap,
    body: OutgoingBody,
) -> Result<Request<OutgoingBody>, OutgoingError> {
    let uri: Uri = destination.path.parse().map_err(|_| OutgoingError::BadConfiguration("a bad path".into()))?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let host = format!("{}:{}", destination.server_name, destination.port);
    if let Ok(host) = HeaderValue::from_str(&host) {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(request)
}

async fn send(
    destination: &Destination,
    identity: Option<Arc<ReloadableClientCert>>,
    request: Request<OutgoingBody>,
) -> Result<Response<hyper::body::Incoming>, OutgoingError> {
    let unreachable = |problem: String| OutgoingError::Unreachable { url: destination.url(), problem };
    let stream = outgoing::connect(destination, identity).await?;
    forwarding::exchange(stream, request).await.map_err(|e| unreachable(e.to_string()))
}

/// The caller's headers without credentials, with the caller's identity as the front proxy asserts it.
fn outgoing_headers(headers: &HeaderMap, user: &User, upgrade: bool) -> HeaderMap {
    let mut out = forwarding::passed_headers(headers, upgrade);
    let mut add = |name: String, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            out.append(name, value);
        }
    };
    add("x-remote-user".into(), &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid".into(), &user.uid);
    }
    for group in &user.groups {
        add("x-remote-group".into(), group);
    }
    for (key, values) in &user.extra {
        for value in values {
            add(format!("x-remote-extra-{}", escape_key(key)), value);
        }
    }
    out
}

/// Header names hold few characters; the others are percent-encoded, as aggregated servers expect.
fn escape_key(key: &str) -> String {
    let mut out = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(byte.to_ascii_lowercase() as char);
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

/// Reads a JSON document as this server itself.
pub async fn get_json(
    destination: &Destination,
    identity: Option<Arc<ReloadableClientCert>>,
) -> Result<Value, OutgoingError> {
    let unreachable = |problem: String| OutgoingError::Unreachable { url: destination.url(), problem };
    let user = User::new("system:kube-aggregator", &["system:masters"]);
    let mut headers = outgoing_headers(&HeaderMap::new(), &user, false);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let read = async {
        let request = request(http::Method::GET, destination, headers, whole(Bytes::new()))?;
        let response = send(destination, identity, request).await?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX).collect().await;
        let body = body.map_err(|e| unreachable(e.to_string()))?.to_bytes();
        if code != 200 {
            let problem = format!("bad status from {}: {code}", destination.url());
            return Err(OutgoingError::Refused { code, problem });
        }
        serde_json::from_slice(&body).map_err(|e| unreachable(e.to_string()))
    };
    let timed_out = || OutgoingError::TimedOut { url: destination.url() };
    tokio::time::timeout(DOCUMENT_TIME_MAX, read).await.unwrap_or_else(|_| Err(timed_out()))
}
