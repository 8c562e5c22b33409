//! Hands a request to an aggregated server and streams the answer back, upgrades included.

use std::sync::Arc;
use std::time::Duration;

use access::User;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Full, Limited};
use hyper_util::rt::TokioIo;
use object::Status;
use pki::tls::client::ReloadableClientCert;
use serde_json::Value;

use super::External;
use crate::http::{Incoming, RequestBody};
use crate::outgoing::{self, Destination, OutgoingError};
use crate::respond::Body;
use crate::server::Server;

const DOCUMENT_BYTES_MAX: usize = 10 * 1024 * 1024;
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(5);
/// Headers of one hop, and those by which a client could claim to be someone.
const DROPPED: &[&str] =
    &["authorization", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"];

/// A request that belongs to another server.
pub struct Proxied {
    pub(super) server: Arc<Server>,
    pub(super) external: Arc<External>,
    pub(super) user: Arc<User>,
    pub(super) identity: Option<Arc<ReloadableClientCert>>,
}

type OutgoingBody = BoxBody<Bytes, hyper::Error>;

impl Proxied {
    pub async fn forward(self, incoming: Incoming) -> Result<Response<Body>, Status> {
        if !self.external.available {
            return Err(self.external.unavailable());
        }
        let path = incoming.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        let failed = |error: OutgoingError| {
            let text = format!("error trying to reach service: {error}");
            Status::unavailable(text)
        };
        let destination = self.external.destination(&self.server, path).await.map_err(failed)?;
        let upgrade = super::wants_upgrade(&incoming);
        let headers = outgoing_headers(&incoming.headers, &self.user, upgrade);
        let body: OutgoingBody = match incoming.body {
            RequestBody::Incoming(body) => body.boxed(),
            RequestBody::Whole(bytes) => whole(bytes),
        };
        let request = request(incoming.method, &destination, headers, body).map_err(failed)?;
        let response = send(&destination, self.identity, request).await.map_err(failed)?;
        if upgrade && response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return switch(response, incoming.upgrade);
        }
        Ok(stream_back(response))
    }
}

fn whole(bytes: Bytes) -> OutgoingBody {
    Full::new(bytes).map_err(|never| match never {}).boxed()
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
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| unreachable(e.to_string()))?;
    // The connection lives as long as the answer is read; dropping the answer ends it.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await.map_err(|e| unreachable(e.to_string()))
}

/// The caller's headers without credentials, and who the caller is in the form the front proxy vouches for.
fn outgoing_headers(headers: &HeaderMap, user: &User, upgrade: bool) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in headers {
        let text = name.as_str();
        let connection = matches!(text, "connection" | "upgrade");
        let claims = text.starts_with("x-remote-") || text.starts_with("impersonate-");
        if !claims && !DROPPED.contains(&text) && (upgrade || !connection) {
            out.append(name.clone(), value.clone());
        }
    }
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

fn stream_back(response: Response<hyper::body::Incoming>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONNECTION);
    parts.headers.remove(header::TRANSFER_ENCODING);
    let frames = BodyStream::new(body).filter_map(|frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(std::io::Error::other(error))),
        }
    });
    Response::from_parts(parts, Body::stream(frames))
}

/// Joins the two connections into one once both ends have switched.
fn switch(
    response: Response<hyper::body::Incoming>,
    client: Option<hyper::upgrade::OnUpgrade>,
) -> Result<Response<Body>, Status> {
    let Some(client) = client else {
        return Err(Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"));
    };
    let headers = response.headers().clone();
    tokio::spawn(async move {
        let (client, server) = match futures::try_join!(client, hyper::upgrade::on(response)) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "an upgrade to an aggregated server failed"),
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let mut answer = Response::new(Body::Whole(None));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    Ok(answer)
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
