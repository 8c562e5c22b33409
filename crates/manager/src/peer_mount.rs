//! Requests of other replicas of this manager to the instances that this one runs.
//!
//! The other replica has authenticated and authorized the caller, and sends the user as it is in the instance. A caller with a
//! credential of the instance itself is passed on with that credential, which only the instance can check.

use std::sync::Arc;

use apiserver::http::{self as api_http, Incoming, Peer};
use apiserver::mount::{Mount, MountRequest, RequestedNames};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use instances::directory::InstanceDirectory;
use instances::plane::{Connection, RemoteAccess};
use instances::running::{InFlight, RunningInstance};
use object::Status;
use object::request::User;
use object::request::user::MASTERS_GROUP;

use crate::forward;
use crate::proxy::{ActingCaller, rewritten, serve_acting, unavailable};
use crate::replicas::{CREDENTIALS_PATH, INSTANCES_PATH, REPLICA};
use crate::revocation::SessionEnd;

/// The credentials of the caller of another replica, which it moves out of the place of its own.
const AUTHORIZATION: HeaderName = HeaderName::from_static("x-flotilla-authorization");
/// The certificates that the caller has shown there, DER in Base64, separated by commas.
const CERTIFICATES: HeaderName = HeaderName::from_static("x-flotilla-certificates");
/// The group of administrators of an instance.
const ADMIN_GROUP: &str = "flotilla:instance:admin";

/// Serves other replicas.
pub struct PeerMount {
    pub directory: InstanceDirectory,
}

#[async_trait]
impl Mount for PeerMount {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(INSTANCES_PATH) || path.starts_with(CREDENTIALS_PATH)
    }

    fn path_by_name(&self, _names: &RequestedNames<'_>, _path: &str) -> Result<Option<String>, Status> {
        Ok(None)
    }

    async fn serve(&self, server: &Arc<Server>, request: MountRequest) -> Result<Response<Body>, Status> {
        let MountRequest { incoming, peer, user } = request;
        require_replica(server, &peer, &incoming).await?;
        let user = user.ok_or_else(Status::unauthorized)?;
        let Some((is_own_credential, uid, path)) = split(&incoming) else {
            return Ok(respond::text(200, "text/plain; charset=utf-8", self.directory.replica_name()));
        };
        let text = "this replica of the manager does not run the instance";
        let running = self.directory.connect_here(&uid).await.ok_or_else(|| unavailable(text))?;
        match is_own_credential {
            true => serve_credential(&running, &path, &peer, incoming).await,
            false => serve_user(&running, &path, (user, peer), incoming).await,
        }
    }
}

/// A right to all paths is not enough, and impersonation does not make a replica: its certificate decides.
async fn require_replica(server: &Arc<Server>, peer: &Peer, incoming: &Incoming) -> Result<(), Status> {
    let caller = server.authenticate(peer, &HeaderMap::new(), &incoming.info).await?;
    match caller.name == REPLICA && caller.in_group(MASTERS_GROUP) {
        true => Ok(()),
        false => Err(Status::new(403, "Forbidden", "only replicas of this manager may use this path")),
    }
}

/// Returns whether the caller has a credential of the instance, the UID of the instance, and the path in it.
fn split(incoming: &Incoming) -> Option<(bool, String, String)> {
    let full = incoming.uri.path();
    let (is_own_credential, rest) = match full.strip_prefix(CREDENTIALS_PATH) {
        Some(rest) => (true, rest),
        None => (false, full.strip_prefix(INSTANCES_PATH)?),
    };
    let (uid, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = match incoming.uri.query() {
        Some(query) => format!("/{path}?{query}"),
        None => format!("/{path}"),
    };
    (!uid.is_empty()).then(|| (is_own_credential, uid.to_owned(), path))
}

async fn serve_user(
    running: &Arc<RunningInstance>,
    path: &str,
    (user, peer): (Arc<User>, Arc<Peer>),
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    // The other replica ends connections whose caller loses its rights.
    let end: SessionEnd = Box::pin(std::future::pending());
    let is_replica = user.name == REPLICA;
    let may_use_credential = is_replica || user.in_group(ADMIN_GROUP);
    if let Connection::Remote(remote) = &running.connection
        && is_replica
    {
        // The manager itself, with the credential it has.
        let own = RemoteAccess { config: remote.config.clone(), can_impersonate: false };
        return forward::forward(&own, path, &user, incoming, end).await;
    }
    let caller = ActingCaller { acting: User::clone(&user), may_use_credential, peer, end };
    serve_acting(running, path, caller, incoming).await
}

/// Lets the instance authenticate the caller of another replica.
async fn serve_credential(
    running: &Arc<RunningInstance>,
    path: &str,
    replica: &Peer,
    mut incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let Connection::InProcess(server) = &running.connection else { return Err(Status::unauthorized()) };
    let shown = incoming.headers.remove(CERTIFICATES);
    let certificates = shown.as_ref().map_or(Ok(Vec::new()), read_certificates)?;
    let certificates = certificates.into_iter().map(Into::into).collect();
    let peer = Peer { address: replica.address, certificates, server_name: None };
    incoming.headers.remove(header::AUTHORIZATION);
    if let Some(authorization) = incoming.headers.remove(AUTHORIZATION) {
        incoming.headers.insert(header::AUTHORIZATION, authorization);
    }
    let in_flight = InFlight::begin(running);
    let request = rewritten(incoming, path, false)?;
    let response = Box::pin(api_http::handle(Arc::clone(server), Arc::new(peer), request)).await;
    Ok(response.map(|body| body.on_end(move || drop(in_flight))))
}

/// Sends a request with a credential of the instance to the replica that runs it.
pub async fn pass_credential(
    remote: &RemoteAccess,
    path: &str,
    peer: &Peer,
    mut incoming: Incoming,
    end: SessionEnd,
) -> Result<Response<Body>, Status> {
    let mut moved = HeaderMap::new();
    if let Some(authorization) = incoming.headers.remove(header::AUTHORIZATION) {
        moved.insert(AUTHORIZATION, authorization);
    }
    if !peer.certificates.is_empty() {
        moved.insert(CERTIFICATES, write_certificates(peer)?);
    }
    let mut config = remote.config.clone();
    config.server = config.server.replacen(INSTANCES_PATH, CREDENTIALS_PATH, 1);
    let access = RemoteAccess { config, can_impersonate: false };
    for name in [AUTHORIZATION, CERTIFICATES] {
        incoming.headers.remove(name);
    }
    incoming.headers.extend(moved);
    forward::forward(&access, path, &User::default(), incoming, end).await
}

fn write_certificates(peer: &Peer) -> Result<HeaderValue, Status> {
    let shown: Vec<String> = peer.certificates.iter().map(|der| STANDARD.encode(der)).collect();
    HeaderValue::from_str(&shown.join(",")).map_err(Status::internal)
}

fn read_certificates(shown: &HeaderValue) -> Result<Vec<Vec<u8>>, Status> {
    let text = shown.to_str().map_err(|_| Status::bad_request("not certificates"))?;
    let all: Result<_, _> = text.split(',').map(|one| STANDARD.decode(one)).collect();
    all.map_err(|_| Status::bad_request("not certificates"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_of_a_caller_reach_the_other_replica() {
        let certificates = [vec![1, 2, 3], vec![4]].into_iter().map(Into::into).collect();
        let peer = Peer { address: ([127, 0, 0, 1], 1).into(), certificates, server_name: None };
        let header = write_certificates(&peer).expect("a header");
        assert_eq!(read_certificates(&header).expect("read"), [vec![1, 2, 3], vec![4]]);
        assert!(read_certificates(&HeaderValue::from_static("AQID,%")).is_err());
    }
}
