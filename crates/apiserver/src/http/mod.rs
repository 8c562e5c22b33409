//! The HTTP entry point: from a request on a connection to a verb, and back.

mod body;
mod listen;
mod plain;
mod resources;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use object::Status;
use object::query::Query;
use object::request::User;
use rustls_pki_types::CertificateDer;

use crate::activity::AnsweredRequest;
use crate::audit::Record;
use crate::context::Context;
use crate::extension::ExtensionRequest;
use crate::flow::Classified;
use crate::limits::Slot;
use crate::metrics::RequestLabels;
use crate::mount::{MountRequest, RequestedNames};
use crate::request::RequestInfo;
use crate::respond::{self, Body};
use crate::server::{Handlers, Server};

pub use body::RequestBody;
pub use listen::{Listening, listen};
pub use plain::{PlainPaths, serve_plain};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// The chain the client presented in the TLS handshake; not yet verified.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The name the client requested in the TLS handshake, in lower case.
    pub server_name: Option<String>,
}

impl From<listener::ConnectionPeer> for Peer {
    fn from(listener::ConnectionPeer { address, certificates, server_name }: listener::ConnectionPeer) -> Self {
        Self { address, certificates, server_name }
    }
}

/// A request on its way to its verb.
pub struct Incoming {
    pub info: RequestInfo,
    pub query: Query,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: RequestBody,
    /// Present on requests that may be upgraded to a raw stream (exec, port-forward, proxied WebSockets).
    pub upgrade: Option<hyper::upgrade::OnUpgrade>,
    pub uri: http::Uri,
    pub peer_address: SocketAddr,
}

/// Serves one request. Every error is a response.
pub async fn handle(server: Arc<Server>, peer: Arc<Peer>, request: Request<RequestBody>) -> Response<Body> {
    answer(server, peer, None, request).await
}

/// The same for a known caller in this process, which needs no credentials.
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
    add_host(&mut parts);
    let named = if known.is_none() { address_by_name(server.handlers(), &peer, &mut parts) } else { Ok(()) };
    let accept = parts.headers.get(header::ACCEPT).cloned();
    let query_text = parts.uri.query().unwrap_or_default().to_owned();
    let info = read_info(server.handlers(), &parts, &query_text);
    let record = server.audit.begin(&info, &parts.uri, &parts.headers, &peer);
    if !object::percent::is_whole(parts.uri.path()) {
        record.response_complete(400);
        return respond::text(400, "text/plain; charset=utf-8", "400 Bad Request");
    }
    if let Err(status) = named {
        record.response_complete(status.code);
        return respond::status_response(&status, accept.as_ref());
    }
    let incoming = Incoming {
        info: info.clone(),
        query: Query::parse(&query_text),
        method: parts.method,
        headers: parts.headers,
        body,
        upgrade: parts.extensions.remove::<hyper::upgrade::OnUpgrade>(),
        uri: parts.uri,
        peer_address: peer.address,
    };
    let head_only = incoming.method == Method::HEAD;
    let agent = incoming.headers.get(header::USER_AGENT).cloned();
    let acting = OnceLock::new();
    let answered = route_safely(&server, &peer, known, incoming, &record, &acting).await;
    let mut response = match answered {
        Ok(response) => response,
        Err(status) => {
            let response = respond::status_response(&status, accept.as_ref());
            record.response(&response);
            response
        }
    };
    if head_only {
        *response.body_mut() = Body::Whole(None);
    }
    response.headers_mut().insert("audit-id", record.id_header());
    let code = response.status().as_u16();
    let is_elsewhere = server.handlers().dynamic_group(&info.group).is_some() || server.aggregator.serves(&info);
    let labels = RequestLabels::of(&server.registry, is_elsewhere, &info, code);
    server.metrics.finished(labels, started.elapsed());
    if let Some(user) = acting.get() {
        let agent = agent.as_ref().and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        server.activity.note(&AnsweredRequest { info: &info, user, peer: &peer, agent, audit_id: record.id(), code });
    }
    if !info.is_long_running() {
        record.response_complete(code);
        return response;
    }
    record.response_started(code);
    response.map(|body| body.on_end(move || record.response_complete(code)))
}

/// A panic fails its request and not the connection with all its other requests.
async fn route_safely(
    server: &Arc<Server>,
    peer: &Arc<Peer>,
    known: Option<Arc<User>>,
    incoming: Incoming,
    record: &Record,
    acting: &OnceLock<Arc<User>>,
) -> Result<Response<Body>, Status> {
    if known.is_none() {
        server.disturbance.strike(&incoming.info.path)?;
    }
    let routed = AssertUnwindSafe(route(server, peer, known, incoming, record, acting)).catch_unwind().await;
    routed.unwrap_or_else(|_| {
        record.panicked();
        Err(Status::internal("the request caused a fault in the server; its log has the details"))
    })
}

/// HTTP/2 has an authority instead of this header, and handlers read only this.
fn add_host(parts: &mut http::request::Parts) {
    if let Some(authority) = parts.uri.authority().filter(|_| !parts.headers.contains_key(header::HOST))
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        parts.headers.insert(header::HOST, host);
    }
}

/// Gives a request to a name of a mounted API the path of that API.
fn address_by_name(handlers: &Handlers, peer: &Peer, parts: &mut http::request::Parts) -> Result<(), Status> {
    let header = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = parts.uri.authority().map(|authority| authority.as_str()).or(header);
    let names = RequestedNames { server_name: peer.server_name.as_deref(), host };
    let Some(path) = handlers.path_by_name(&names, parts.uri.path())? else { return Ok(()) };
    let target = match parts.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    parts.uri = target.parse().map_err(|_| Status::bad_request("not a path"))?;
    Ok(())
}

/// Reads the path and lets the handler of a connection classify it.
fn read_info(handlers: &Handlers, parts: &http::request::Parts, query: &str) -> RequestInfo {
    let mut info = RequestInfo::parse(&parts.method, parts.uri.path(), query);
    info.long_running =
        handlers.connect.iter().find_map(|handler| handler.is_long_running(&parts.method, &info, query));
    if handlers.extension(&info.path, &parts.headers).is_some_and(|extension| extension.is_long_running(&info.path)) {
        info.long_running = Some(true);
    }
    if handlers.mount(&info.path).is_some() {
        // The mounted API has its own limits.
        info.long_running = Some(true);
    }
    info
}

/// Hands requests for a mounted API over before they are authorized here.
async fn route(
    server: &Arc<Server>,
    peer: &Arc<Peer>,
    known: Option<Arc<User>>,
    incoming: Incoming,
    record: &Record,
    acting: &OnceLock<Arc<User>>,
) -> Result<Response<Body>, Status> {
    let Some(mount) = server.handlers().mount(&incoming.info.path) else {
        return authorize_and_serve(server, peer, known, incoming, record, acting).await;
    };
    let caller = match known {
        Some(user) => Some(user),
        None => server.authenticate(peer, &incoming.headers, &incoming.info).await.ok(),
    };
    let mut user = None;
    if let Some(caller) = &caller {
        record.authenticated(caller);
        let acting = server.auth.impersonated(server.resources(), caller, &incoming.headers, &incoming.info).await?;
        record.impersonated(caller, &acting);
        user = Some(acting);
    }
    let response = mount.serve(server, MountRequest { incoming, peer: Arc::clone(peer), user }).await?;
    record.response(&response);
    Ok(response)
}

/// Authenticates and authorizes the caller, then dispatches the request when there is a slot for it.
async fn authorize_and_serve(
    server: &Arc<Server>,
    peer: &Peer,
    known: Option<Arc<User>>,
    incoming: Incoming,
    record: &Record,
    acting: &OnceLock<Arc<User>>,
) -> Result<Response<Body>, Status> {
    let is_remote = known.is_none();
    let extension = server.handlers().extension(&incoming.info.path, &incoming.headers);
    let caller = match known {
        Some(user) => user,
        None => match server.authenticate(peer, &incoming.headers, &incoming.info).await {
            Err(_) if extension.is_some_and(|extension| extension.is_public()) => Arc::new(User::anonymous()),
            authenticated => authenticated?,
        },
    };
    record.authenticated(&caller);
    let user = server.auth.impersonated(server.resources(), &caller, &incoming.headers, &incoming.info).await?;
    record.impersonated(&caller, &user);
    let _ = acting.set(Arc::clone(&user));
    let agent = incoming.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let ctx = Context::new(user.clone(), agent);
    if !extension.is_some_and(|extension| extension.judges_callers()) {
        server.authorize(&user, &incoming.info).await?;
    }
    record.allowed();

    let accept = incoming.headers.get(header::ACCEPT).cloned();
    let is_read = incoming.info.is_read_only();
    let timeout = server.limits.request_time(&incoming.info, &incoming.query)?;
    let classified = match is_remote {
        true => Some(server.flow.classify(&server.registry, &user, &incoming.info).await?),
        false => None,
    };
    // On the heap: the future of a verb is large, and would be copied into each of the futures around it.
    let work = Box::pin(serve_in_slot(server, &ctx, incoming, record, classified.as_ref()));
    let answered = match timeout {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(Status::timeout("request did not complete within the allotted timeout"))),
    };
    let (answered, slot) = answered.map_or_else(|status| (Err(status), None), |(answered, slot)| (Ok(answered), slot));
    let mut response = answered.unwrap_or_else(|status| respond::status_response(&status, accept.as_ref()));
    respond::add_warnings(&mut response, &ctx.take_warnings());
    if let Some(classified) = &classified {
        classified.add_headers(response.headers_mut());
    }
    record.annotations(ctx.take_audit_annotations());
    record.response(&response);
    respond::counted(response, &server.limits, &user, slot, is_read)
}

/// Reads the body first: a client that does not send one holds no slot.
async fn serve_in_slot(
    server: &Arc<Server>,
    ctx: &Context,
    mut incoming: Incoming,
    record: &Record,
    classified: Option<&Classified>,
) -> Result<(Response<Body>, Option<Slot>), Status> {
    let elsewhere = server.aggregator.proxy(&ctx.user, &incoming.info);
    let mut _body_bytes = None;
    if elsewhere.is_none() && !incoming.info.is_long_running() && !incoming.info.is_read_only() {
        let (body, reservation) = incoming.body.read_counted(&server.limits, &ctx.user).await?;
        record.request_body(&incoming.headers, &body);
        incoming.body = RequestBody::Whole(body);
        _body_bytes = reservation;
    }
    // Agents and nodes have slots of their own, and streams would hold a seat for as long as they last.
    let needs_seat = !incoming.info.is_long_running() && !server.limits.has_reserved_slots(&ctx.user);
    let _seat = match classified.filter(|_| needs_seat) {
        Some(classified) => server.flow.enter(classified).await?,
        None => None,
    };
    let slot = server.limits.enter(&ctx.user, &incoming.info)?;
    let response = match elsewhere {
        Some(elsewhere) => elsewhere.forward(server.resources(), incoming).await?,
        None => dispatch(server, ctx, incoming).await?,
    };
    Ok((response, slot))
}

async fn dispatch(server: &Arc<Server>, ctx: &Context, incoming: Incoming) -> Result<Response<Body>, Status> {
    // Before resources: an extension may own the path of a group that this server does not have.
    if let Some(extension) = server.handlers().extension(&incoming.info.path, &incoming.headers) {
        return extension.serve(server, ExtensionRequest { incoming, user: ctx.user.clone() }).await;
    }
    if incoming.info.is_resource {
        if let Some(status) = server.rejection(&incoming.info, &incoming.headers).await {
            return Err(status);
        }
        return resources::serve(server, ctx, incoming).await;
    }
    if !matches!(incoming.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_served());
    }
    crate::documents::serve(server, &incoming).await
}
