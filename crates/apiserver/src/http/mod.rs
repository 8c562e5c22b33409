//! The HTTP door: from a request on a connection to a verb, and back.

mod listen;
mod resources;

use std::net::SocketAddr;
use std::sync::Arc;

use access::User;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use object::Status;
use rustls_pki_types::CertificateDer;

use crate::context::Context;
use crate::decode::BODY_BYTES_MAX;
use crate::extension::ExtensionRequest;
use crate::request::{Query, RequestInfo};
use crate::respond::{self, Body};
use crate::server::Server;

pub use listen::{Listening, listen};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// What the client presented in the TLS handshake; not yet verified.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// A request body that has yet to arrive, or one that is here already.
pub enum RequestBody {
    Incoming(hyper::body::Incoming),
    Whole(Bytes),
}

impl RequestBody {
    /// All of it, or 413 as soon as it is too much.
    pub async fn read(self) -> Result<Bytes, Status> {
        let incoming = match self {
            Self::Whole(bytes) => return Ok(bytes),
            Self::Incoming(incoming) => incoming,
        };
        match Limited::new(incoming, BODY_BYTES_MAX).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(Status::too_large(format!("limit is {BODY_BYTES_MAX} bytes")))
            }
            Err(error) => Err(Status::bad_request(format!("the request body could not be read: {error}"))),
        }
    }
}

/// A request on its way through the door.
pub struct Incoming {
    pub info: RequestInfo,
    pub query: Query,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: RequestBody,
    /// Present on requests that may be upgraded to a raw stream (exec, port-forward, proxied WebSockets).
    pub upgrade: Option<hyper::upgrade::OnUpgrade>,
    pub uri: http::Uri,
}

/// Answers one request. Never fails: every error is a response.
pub async fn handle(server: Arc<Server>, peer: Arc<Peer>, request: Request<RequestBody>) -> Response<Body> {
    answer(server, peer, None, request).await
}

/// The same for a caller in this process, who is known and needs no credentials.
pub async fn handle_as(
    server: Arc<Server>,
    peer: Arc<Peer>,
    user: Arc<User>,
    request: Request<RequestBody>,
) -> Response<Body> {
    answer(server, peer, Some(user), request).await
}

async fn answer(
    server: Arc<Server>,
    peer: Arc<Peer>,
    known: Option<Arc<User>>,
    request: Request<RequestBody>,
) -> Response<Body> {
    let started = std::time::Instant::now();
    let (mut parts, body) = request.into_parts();
    if !object::percent::is_whole(parts.uri.path()) {
        return respond::text(400, "text/plain; charset=utf-8", "400 Bad Request");
    }
    let accept = parts.headers.get(header::ACCEPT).cloned();
    let query_text = parts.uri.query().unwrap_or_default().to_owned();
    let info = read_info(&server, &parts, &query_text);
    let record = server.audit.begin(&info, &parts.uri, &parts.headers, &peer);
    let incoming = Incoming {
        info: info.clone(),
        query: Query::parse(&query_text),
        method: parts.method,
        headers: parts.headers,
        body,
        upgrade: parts.extensions.remove::<hyper::upgrade::OnUpgrade>(),
        uri: parts.uri,
    };
    let head_only = incoming.method == Method::HEAD;
    let undisturbed = if known.is_none() { server.disturbance.strike(&info.path) } else { Ok(()) };
    let answered = match undisturbed {
        Ok(()) => admit(&server, &peer, known, incoming, &record).await,
        Err(status) => Err(status),
    };
    let mut response = match answered {
        Ok(response) => response,
        Err(status) => respond::status_response(&status, accept.as_ref()),
    };
    if head_only {
        *response.body_mut() = Body::Whole(None);
    }
    response.headers_mut().insert("audit-id", record.id_header());
    server.metrics.finished(&info, response.status().as_u16(), started.elapsed());
    server.audit.finish(record, response.status().as_u16());
    response
}

/// Reads the path and lets the handler of a connection classify it.
fn read_info(server: &Server, parts: &http::request::Parts, query: &str) -> RequestInfo {
    let mut info = RequestInfo::parse(&parts.method, parts.uri.path(), query);
    info.long_running =
        server.connect_handlers().find_map(|handler| handler.is_long_running(&parts.method, &info, query));
    info
}

/// Who asks, may they, and is there room: then the request is dispatched.
async fn admit(
    server: &Arc<Server>,
    peer: &Peer,
    known: Option<Arc<User>>,
    incoming: Incoming,
    record: &crate::audit::Record,
) -> Result<Response<Body>, Status> {
    let caller = match known {
        Some(user) => user,
        None => server.auth.authenticate(server, peer, &incoming.headers, &incoming.info).await?,
    };
    let user = server.auth.impersonated(server, &caller, &incoming.headers, &incoming.info).await?;
    record.caller(&caller, &user);
    let slot = server.limits.enter(&user, &incoming.info)?;
    let agent = incoming.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let ctx = Context::new(user.clone(), agent);
    let extension = server.extension(&incoming.info.path);
    if !extension.is_some_and(|extension| extension.judges_callers()) {
        server.auth.authorize(server, &user, &incoming.info).await?;
    }
    record.allowed();

    let accept = incoming.headers.get(header::ACCEPT).cloned();
    let timeout = server.limits.request_time(&incoming.info, &incoming.query)?;
    let work = dispatch(server, &ctx, &user, incoming, record);
    let answered = match timeout {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(Status::timeout("request did not complete within the allotted timeout"))),
    };
    let mut response = answered.unwrap_or_else(|status| respond::status_response(&status, accept.as_ref()));
    for warning in ctx.take_warnings() {
        let quoted = object::field::go_quote(&warning);
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    record.annotations(ctx.take_audit_annotations());
    Ok(response.map(|body| body.holding(slot)))
}

async fn dispatch(
    server: &Arc<Server>,
    ctx: &Context,
    user: &Arc<User>,
    incoming: Incoming,
    record: &crate::audit::Record,
) -> Result<Response<Body>, Status> {
    if let Some(elsewhere) = server.aggregator.proxy(server, user, &incoming.info) {
        return elsewhere.forward(incoming).await;
    }
    if incoming.info.is_resource {
        return resources::serve(server, ctx, incoming, record).await;
    }
    if let Some(extension) = server.extension(&incoming.info.path) {
        return extension.serve(server, ExtensionRequest { incoming, user: Arc::clone(user) }).await;
    }
    if !matches!(incoming.method, Method::GET | Method::HEAD) {
        return Err(Status::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ));
    }
    crate::documents::serve(server, &incoming).await
}
