//! Ways to members that accept no connection from outside: their agents open one, and it is used the other way round.
//!
//! An agent asks for `PATH/CLUSTER` and switches to HTTP/2 in which it is the server. Each CONNECT over it is one
//! connection to the member's API. TLS to the member and its credentials stay with whoever connects, so an agent's way
//! carries bytes it cannot read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use access::User;
use access::user::ResourceAction;
use api::cluster::CLUSTERS;
use api::tunnel::{PATH, PROTOCOL, SERVER_HEADER};
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::remote::connect::Stream;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object::Status;
use parking_lot::Mutex;
use store::Store;
use tokio::sync::Notify;

use super::peers::{self, PeerTunnel, Peers};
use crate::admission::agents;
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::Body;
use apiserver::server::Server;

/// A way that is silent for so long is asked whether it is still there, and then given up.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an agent may take to reach its own member.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// The ways that are open now, one for each cluster: the newest.
#[derive(Default)]
pub struct Tunnels {
    open: Mutex<HashMap<String, Tunnel>>,
    opened: AtomicU64,
    changed: Notify,
    /// Set where several replicas share a storage.
    peers: OnceLock<Arc<Peers>>,
}

/// How a member that accepts no connection is reached.
#[derive(Clone)]
pub enum Way {
    Own(Tunnel),
    Peer(PeerTunnel),
}

impl Way {
    /// The member's API as its agent calls it.
    pub fn server(&self) -> &str {
        match self {
            Self::Own(tunnel) => &tunnel.server,
            Self::Peer(tunnel) => &tunnel.server,
        }
    }

    /// A connection to the member's API, as if it had been dialled.
    pub async fn dial(self) -> Result<Box<dyn Stream>, String> {
        match self {
            Self::Own(tunnel) => tunnel.dial().await,
            Self::Peer(tunnel) => tunnel.dial().await,
        }
    }
}

#[derive(Clone)]
pub struct Tunnel {
    /// Tells it from an older one of the same cluster.
    id: u64,
    /// The member's API as its agent calls it.
    pub server: String,
    sender: SendRequest<Empty<Bytes>>,
}

impl Tunnels {
    pub fn to(&self, cluster: &str) -> Option<Tunnel> {
        self.open.lock().get(cluster).filter(|tunnel| !tunnel.sender.is_closed()).cloned()
    }

    /// The way to a cluster, wherever its agent has opened it.
    pub async fn way(&self, store: &dyn Store, cluster: &str) -> Result<Option<Way>, Status> {
        if let Some(tunnel) = self.to(cluster) {
            return Ok(Some(Way::Own(tunnel)));
        }
        let Some(peers) = self.peers.get() else { return Ok(None) };
        Ok(peers::find(store, peers, cluster).await?.map(Way::Peer))
    }

    /// From now on other replicas are told of these ways, and theirs are used.
    pub fn share(self: &Arc<Self>, server: &Arc<Server>, peers: Peers) {
        let peers = Arc::clone(self.peers.get_or_init(|| Arc::new(peers)));
        tokio::spawn(peers::publish(Arc::clone(server), Arc::clone(self), peers));
    }

    /// Every open way: its cluster, its id, and the member's API.
    pub(super) fn held(&self) -> Vec<(String, u64, String)> {
        let open = self.open.lock();
        let open = open.iter().filter(|(_, tunnel)| !tunnel.sender.is_closed());
        open.map(|(cluster, tunnel)| (cluster.clone(), tunnel.id, tunnel.server.clone())).collect()
    }

    /// Resolves when a way was opened or has ended since the call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Keeps the way until its connection ends.
    async fn keep(
        &self,
        cluster: &str,
        server: String,
        upgrade: hyper::upgrade::OnUpgrade,
    ) -> Result<(), hyper::Error> {
        let io = upgrade.await?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        builder.keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_TIMEOUT).keep_alive_while_idle(true);
        let (sender, connection) = builder.handshake(io).await?;
        let id = self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(cluster.to_owned(), Tunnel { id, server, sender });
        self.changed.notify_one();
        tracing::info!(cluster, "the member is reached through its agent");
        let ended = connection.await;
        let mut open = self.open.lock();
        if open.get(cluster).is_some_and(|tunnel| tunnel.id == id) {
            open.remove(cluster);
            self.changed.notify_one();
        }
        ended
    }
}

impl Tunnel {
    /// A connection to the member's API, as if it had been dialled.
    pub async fn dial(mut self) -> Result<Box<dyn Stream>, String> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = http::Method::CONNECT;
        *request.uri_mut() = http::Uri::from_static("member:443");
        let asked = tokio::time::timeout(DIAL_TIMEOUT, self.sender.send_request(request)).await;
        let response = asked.map_err(|_| format!("its agent did not connect within {DIAL_TIMEOUT:?}"))?;
        let response = response.map_err(|error| format!("the way through its agent broke: {error}"))?;
        if response.status() != StatusCode::OK {
            return Err(format!("its agent cannot reach it ({})", response.status()));
        }
        let joined = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
        Ok(Box::new(TokioIo::new(joined)))
    }
}

/// Where agents open their ways.
pub struct TunnelDoor {
    pub tunnels: Arc<Tunnels>,
}

#[async_trait]
impl Extension for TunnelDoor {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(PATH)
    }

    /// Agents have rights to their clusters, and none to paths.
    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let ExtensionRequest { incoming, user } = request;
        let cluster = incoming.info.path[PATH.len()..].to_owned();
        require_agent(server, &user, &cluster).await?;
        if incoming.headers.get(header::UPGRADE).is_none_or(|value| value != PROTOCOL) {
            return Err(Status::bad_request(format!("this path is for agents: it switches to {PROTOCOL}")));
        }
        let Some(upgrade) = incoming.upgrade else {
            return Err(Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"));
        };
        let at = member_server(&incoming.headers)?;
        let tunnels = Arc::clone(&self.tunnels);
        let stop = server.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                ended = tunnels.keep(&cluster, at, upgrade) => {
                    tracing::info!(cluster, ended = ?ended.err(), "the way through the agent of a member has ended");
                }
            }
        });
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
        Ok(response)
    }
}

/// Whoever may say how a cluster is may also lead the way to it. An agent leads to its own cluster only.
async fn require_agent(server: &Arc<Server>, user: &User, cluster: &str) -> Result<(), Status> {
    let resource = CLUSTERS.gvr().group_resource();
    if agents::cluster_of(&user.name, &user.groups).is_some_and(|own| own != cluster) {
        return Err(Status::forbidden(&resource, cluster, "an agent leads the way to its own cluster only"));
    }
    let action = ResourceAction {
        verb: "update",
        group: CLUSTERS.group,
        version: CLUSTERS.version,
        resource: CLUSTERS.plural,
        subresource: "status",
        namespace: "",
        name: cluster,
    };
    server.auth.require(server, user, &action.into()).await
}

fn member_server(headers: &HeaderMap) -> Result<String, Status> {
    let value = headers.get(SERVER_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match value.parse::<http::Uri>() {
        Ok(uri) if uri.host().is_some() && uri.scheme_str() == Some("https") => Ok(value.to_owned()),
        _ => Err(Status::bad_request(format!("the header {SERVER_HEADER} must be the https URL of the member's API"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_says_where_its_member_is() {
        let cases = [
            ("https://10.0.0.1:6443", true),
            ("https://[::1]:6443/prefix", true),
            ("http://10.0.0.1", false),
            ("10.0.0.1:6443", false),
            ("", false),
        ];
        for (value, is_good) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(SERVER_HEADER, HeaderValue::from_static(value));
            assert_eq!(member_server(&headers).is_ok(), is_good, "{value}");
        }
        assert!(member_server(&HeaderMap::new()).is_err());
    }
}
