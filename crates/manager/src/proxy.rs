//! `/instances/NAME/…`: the complete API of an instance, on the manager's listener.
//!
//! A caller with a credential of the manager acts with its roles on the instance. A caller with a credential of the instance
//! itself, such as its administrator's certificate, is left to the instance. Without a role an instance does not exist.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Incoming, Peer};
use apiserver::mount::{Mount, MountRequest, RequestedNames};
use apiserver::respond::Body;
use apiserver::server::Server;
use apiserver::{forwarding, http as api_http};
use async_trait::async_trait;
use http::{Response, Uri, header};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use instances::directory::{InstanceDirectory, InstanceEntry};
use instances::plane::Connection;
use instances::running::{InFlight, RunningInstance};
use manager_kinds::KARMADAS;
use manager_kinds::grants::{InstanceAccess, InstanceRole};
use object::Status;
use object::request::User;
use object::status::StatusDetails;
use tokio::time::Instant;

use crate::access::Rights;
use crate::audit_trail::{AuditTrail, AuditedRequest, is_recorded};
use crate::instance_names::InstanceNames;
use crate::revocation::{Revocations, SessionEnd, StillAllowed};
use crate::tokens::{self, AccessTokens};
use crate::{forward, identity, peer_mount};

pub const PREFIX: &str = "/instances/";
/// Time until members accept a new user.
const MEMBER_WAIT_SECONDS: u32 = 2;
/// Time after which clients ask again for an instance that does not run.
const RETRY_SECONDS: u32 = 2;
/// Time for which the bindings of a namespace are known to exist.
const PREPARED_FOR: Duration = Duration::from_secs(30);
/// Buffer of a connection to a plane in this process.
const PIPE_BYTES: usize = 64 * 1024;

/// Serves the APIs of all instances.
pub struct InstanceProxy {
    pub directory: InstanceDirectory,
    pub rights: Rights,
    pub tokens: Arc<AccessTokens>,
    pub audit: Arc<AuditTrail>,
    pub revocations: Revocations,
    /// Names of instances below a domain, if the manager has one.
    pub names: Option<InstanceNames>,
}

#[async_trait]
impl Mount for InstanceProxy {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    fn path_by_name(&self, names: &RequestedNames<'_>, path: &str) -> Result<Option<String>, Status> {
        self.names.as_ref().map_or(Ok(None), |own| own.path_of(names, path))
    }

    async fn serve(&self, _server: &Arc<Server>, request: MountRequest) -> Result<Response<Body>, Status> {
        let MountRequest { incoming, peer, user } = request;
        let (name, path) = split(&incoming.uri)?;
        let is_read = incoming.info.is_read_only() && !forwarding::wants_upgrade(&incoming);
        let (began, action) = (Instant::now(), format!("{} {}", incoming.method, path_only(&path)));
        let (source, caller) = (peer.address.ip(), user.clone());
        let answered = self.answer((&name, path), peer, user, incoming).await;
        let (code, message) = match &answered {
            Ok(response) => (response.status().as_u16(), ""),
            Err(status) => (status.code, status.message.as_str()),
        };
        if is_recorded(is_read, code) {
            let (user, instance, took) = (caller.as_deref(), name.as_str(), began.elapsed());
            self.audit.note(&AuditedRequest { user, source, action, instance, code, message, took });
        }
        answered
    }
}

/// The path without its query, which may contain secrets of the caller.
fn path_only(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

impl InstanceProxy {
    async fn answer(
        &self,
        (name, path): (&str, String),
        peer: Arc<Peer>,
        user: Option<Arc<User>>,
        incoming: Incoming,
    ) -> Result<Response<Body>, Status> {
        let name = name.to_owned();
        let entry = self.directory.find(&name);
        let Some(user) = user else { return self.serve_own_credential(entry, path, peer, incoming).await };
        let missing = || Status::not_found(&KARMADAS.gvr().group_resource(), &name);
        let entry = entry.ok_or_else(missing)?;
        let access = self.rights.instance_access(&user, &name);
        if !access.sees_instance() {
            return Err(missing());
        }
        let running = self.running(&entry).await?;
        prepare_namespaces(&running, &access).await;
        prepare_member_user(&running, &path, &user, &access).await?;
        let (bearer, full) = (tokens::bearer(&incoming.headers), incoming.uri.path().to_owned());
        let still_allowed = self.still_allowed(name, Arc::clone(&user), access.clone(), (bearer, full));
        let end = self.revocations.lost(Arc::clone(&still_allowed));
        let caller = ProxyCaller { user: &user, access: &access, peer, end };
        let response = serve_as(&running, &path, caller, incoming).await?;
        Ok(response.map(|body| self.revocations.guard(body, still_allowed)))
    }

    /// Checks again whether a caller has the same rights, and whether its token is still valid.
    fn still_allowed(
        &self,
        name: String,
        user: Arc<User>,
        access: InstanceAccess,
        (bearer, path): (Option<String>, String),
    ) -> StillAllowed {
        let (rights, tokens) = (self.rights.clone(), Arc::clone(&self.tokens));
        Arc::new(move || {
            let has_same = rights.instance_access(&user, &name) == access;
            let (tokens, bearer, path) = (Arc::clone(&tokens), bearer.clone(), path.clone());
            Box::pin(async move { has_same && tokens.is_valid(bearer.as_deref(), &path).await })
        })
    }

    /// Lets an instance in this process authenticate a caller that the manager does not know.
    async fn serve_own_credential(
        &self,
        entry: Option<InstanceEntry>,
        path: String,
        peer: Arc<Peer>,
        incoming: Incoming,
    ) -> Result<Response<Body>, Status> {
        let has_credential = incoming.headers.contains_key(header::AUTHORIZATION) || !peer.certificates.is_empty();
        let Some(entry) = entry.filter(|_| has_credential) else { return Err(Status::unauthorized()) };
        let Some(running) = entry.running else { return Err(Status::unauthorized()) };
        let server = match &running.connection {
            Connection::InProcess(server) => server,
            Connection::Remote(remote) if running.replica.is_some() => {
                let end: SessionEnd = Box::pin(std::future::pending());
                return peer_mount::pass_credential(remote, &path, &peer, incoming, end).await;
            }
            Connection::Remote(_) => return Err(Status::unauthorized()),
        };
        let in_flight = InFlight::begin(&running);
        let request = rewritten(incoming, &path, false)?;
        let response = Box::pin(api_http::handle(Arc::clone(server), peer, request)).await;
        Ok(response.map(|body| body.on_end(move || drop(in_flight))))
    }

    async fn running(&self, entry: &InstanceEntry) -> Result<Arc<RunningInstance>, Status> {
        self.directory.connect(entry).await.ok_or_else(|| {
            let phase = if entry.phase().is_empty() { "Pending" } else { entry.phase() };
            unavailable(format!("the instance {} is not running: its phase is {phase}", entry.name()))
        })
    }
}

/// Returns the error for an instance that may run soon.
pub fn unavailable(text: impl Into<String>) -> Status {
    let details = StatusDetails { retry_after_seconds: RETRY_SECONDS, ..StatusDetails::default() };
    Status::unavailable(text).with_details(details)
}

/// The sender of a request, and the end of upgraded connections that it opens.
struct ProxyCaller<'a> {
    user: &'a User,
    access: &'a InstanceAccess,
    peer: Arc<Peer>,
    end: SessionEnd,
}

/// Sends a request to a running instance as a user of the manager.
async fn serve_as(
    running: &Arc<RunningInstance>,
    path: &str,
    caller: ProxyCaller<'_>,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let ProxyCaller { user, access, peer, end } = caller;
    let may_use_credential = access.role == Some(InstanceRole::Admin);
    let caller = ActingCaller { acting: identity::in_instance(user, access), may_use_credential, peer, end };
    serve_acting(running, path, caller, incoming).await
}

/// The sender of a request, as the user that it is in the instance.
pub struct ActingCaller {
    pub acting: User,
    /// The caller may use the credential of an imported instance that may not impersonate.
    pub may_use_credential: bool,
    pub peer: Arc<Peer>,
    pub end: SessionEnd,
}

/// Sends a request to a running instance as a user of the instance.
pub async fn serve_acting(
    running: &Arc<RunningInstance>,
    path: &str,
    caller: ActingCaller,
    mut incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let in_flight = InFlight::begin(running);
    let ActingCaller { acting, may_use_credential, peer, end } = caller;
    // An instance with an open session does not hibernate.
    let session = InFlight::begin(running);
    let end: SessionEnd = Box::pin(async move {
        let _session = session;
        end.await;
    });
    let response = match &running.connection {
        Connection::InProcess(server) if forwarding::wants_upgrade(&incoming) => {
            let client = incoming.upgrade.take();
            let response = exchange_in_process(server, path, (acting, peer), incoming).await?;
            forwarding::answer_until(response, client, end)?
        }
        Connection::InProcess(server) => {
            let request = rewritten(incoming, path, true)?;
            Box::pin(api_http::handle_as(Arc::clone(server), peer, Arc::new(acting), request)).await
        }
        Connection::Remote(remote) => {
            if !remote.can_impersonate && !may_use_credential {
                let text = "the credential of this imported instance may not impersonate users: only administrators can use it";
                return Err(Status::new(403, "Forbidden", text));
            }
            forward::forward(remote, path, &acting, incoming, end).await?
        }
    };
    Ok(response.map(|body| body.on_end(move || drop(in_flight))))
}

/// Sends a request to a plane in this process over a connection, which can be upgraded and closed.
async fn exchange_in_process(
    server: &Arc<Server>,
    path: &str,
    (acting, peer): (User, Arc<Peer>),
    incoming: Incoming,
) -> Result<Response<hyper::body::Incoming>, Status> {
    let request = rewritten(incoming, path, true)?.map(forwarding::body_of);
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let (server, acting) = (Arc::clone(server), Arc::new(acting));
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (server, peer, acting) = (Arc::clone(&server), Arc::clone(&peer), Arc::clone(&acting));
        let request = request.map(api_http::RequestBody::Incoming);
        async move { Ok::<_, Infallible>(Box::pin(api_http::handle_as(server, peer, acting, request)).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
    tokio::spawn(connection.with_upgrades());
    let failed = |error: hyper::Error| Status::internal(format!("the instance closed the connection: {error}"));
    forwarding::exchange(near, request).await.map_err(failed)
}

/// Returns the name of the instance and the path within it, with its query.
fn split(uri: &Uri) -> Result<(String, String), Status> {
    let rest = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.~".contains(&b)) {
        return Err(Status::bad_request("the path of an instance is /instances/NAME/…"));
    }
    let path = match uri.query() {
        Some(query) => format!("/{path}?{query}"),
        None => format!("/{path}"),
    };
    Ok((name.to_owned(), path))
}

/// Returns the request for the instance. Claims to be someone are dropped unless the instance itself checks them.
pub fn rewritten(
    incoming: Incoming,
    path: &str,
    drops_identity: bool,
) -> Result<http::Request<api_http::RequestBody>, Status> {
    let mut request = http::Request::new(incoming.body);
    *request.headers_mut() = match drops_identity {
        true => forwarding::passed_headers(&incoming.headers, incoming.headers.contains_key(header::UPGRADE)),
        false => incoming.headers,
    };
    *request.method_mut() = incoming.method;
    *request.uri_mut() = path.parse().map_err(|_| Status::bad_request("not a path"))?;
    if let Some(upgrade) = incoming.upgrade {
        request.extensions_mut().insert(upgrade);
    }
    Ok(request)
}

/// Lets members accept a user before the user's first request to a member. Clients retry after the 429.
pub async fn prepare_member_user(
    running: &RunningInstance,
    path: &str,
    user: &User,
    access: &InstanceAccess,
) -> Result<(), Status> {
    let is_member = path.starts_with("/apis/cluster.karmada.io/") && path.contains("/proxy");
    if !is_member || access.role < Some(InstanceRole::Edit) {
        return Ok(());
    }
    let name = identity::in_instance(user, access).name;
    if running.member_users.lock().contains(&name) {
        return Ok(());
    }
    let is_new = instances::rights::ensure_member_user(&running.admin, &name).await?;
    running.member_users.lock().insert(name);
    match is_new {
        true => Err(Status::too_many_requests("the member clusters do not accept this user yet", MEMBER_WAIT_SECONDS)),
        false => Ok(()),
    }
}

/// Binds the groups of single namespaces to roles in the instance, where a namespace exists.
pub async fn prepare_namespaces(running: &RunningInstance, access: &InstanceAccess) {
    for namespace in access.namespaces.keys() {
        let is_known = running.namespaces.lock().get(namespace).is_some_and(|at| at.elapsed() < PREPARED_FOR);
        if is_known {
            continue;
        }
        match instances::rights::ensure_namespace(&running.admin, namespace).await {
            Ok(()) => drop(running.namespaces.lock().insert(namespace.clone(), Instant::now())),
            Err(status) => tracing::debug!(instance = %running.key, namespace, %status, "no roles in a namespace"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expected: Option<(&str, &str)>) {
        let found = split(&uri.parse().expect("a path")).ok();
        assert_eq!(found.as_ref().map(|(name, path)| (name.as_str(), path.as_str())), expected, "{uri}");
    }

    #[test]
    fn the_path_after_the_name_reaches_the_instance_unchanged() {
        check("/instances/east/api/v1/pods?watch=true", Some(("east", "/api/v1/pods?watch=true")));
        check("/instances/east", Some(("east", "/")));
        check("/instances/team~east/x/a%2Fb", Some(("team~east", "/x/a%2Fb")));
        check("/instances/east/../west/api", Some(("east", "/../west/api")));
        check("/instances//api", None);
        check("/instances/%2e%2e/api", None);
        check("/instances/East/api", None);
    }
}
