//! Tunnels to members that accept no connection from outside: their agents open a connection, which is then used in reverse.
//!
//! An agent requests `PATH/CLUSTER` and switches to HTTP/2 with itself as the server. Each CONNECT over it is one connection
//! to the member's API. TLS and credentials stay between the control plane and the member, so the agent cannot read the bytes
//! it forwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use access::ResourceAction;
use api::cluster::CLUSTERS;
use api::tunnel::{PATH, PROTOCOL, SERVER_HEADER};
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::Body;
use apiserver::server::Server;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::remote::connect::Stream;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object::Status;
use object::request::User;
use parking_lot::Mutex;
use store::Store;
use tokio::sync::Notify;

use super::peers::{self, PeerTunnel, Peers};
use crate::admission::agents;

/// Interval and timeout of HTTP/2 pings on a tunnel.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for an agent to connect to its member.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// The open tunnels; the newest one per cluster.
#[derive(Default)]
pub struct Tunnels {
    open: Mutex<HashMap<String, Tunnel>>,
    opened: AtomicU64,
    changed: Notify,
    /// Present when several replicas share a storage.
    peers: Option<Arc<Peers>>,
    /// The addresses of members without a tunnel that are not connected to.
    pub addresses: AddressPolicy,
}

/// The route to a member that accepts no connection.
#[derive(Clone)]
pub enum Route {
    Own(Tunnel),
    Peer(PeerTunnel),
}

impl Route {
    /// Returns the URL of the member's API as seen by its agent.
    pub fn server(&self) -> &str {
        match self {
            Self::Own(tunnel) => &tunnel.server,
            Self::Peer(tunnel) => &tunnel.server,
        }
    }

    /// Opens a connection to the member's API.
    pub async fn dial(self) -> Result<Box<dyn Stream>, String> {
        match self {
            Self::Own(tunnel) => tunnel.dial().await,
            Self::Peer(tunnel) => tunnel.dial().await,
        }
    }
}

#[derive(Clone)]
pub struct Tunnel {
    /// Distinguishes it from older tunnels of the same cluster.
    id: u64,
    /// URL of the member's API as seen by its agent.
    pub server: String,
    sender: SendRequest<Empty<Bytes>>,
}

impl Tunnels {
    pub fn to(&self, cluster: &str) -> Option<Tunnel> {
        self.open.lock().get(cluster).filter(|tunnel| !tunnel.sender.is_closed()).cloned()
    }

    /// Returns the route to a cluster, through this replica or another.
    pub async fn route(&self, store: &dyn Store, cluster: &str) -> Result<Option<Route>, Status> {
        if let Some(tunnel) = self.to(cluster) {
            return Ok(Some(Route::Own(tunnel)));
        }
        let Some(peers) = &self.peers else { return Ok(None) };
        Ok(peers::find(store, peers, cluster).await?.map(Route::Peer))
    }

    /// The tunnels of a server that shares its storage with no other.
    pub fn alone(addresses: AddressPolicy) -> Arc<Self> {
        Arc::new(Self { addresses, ..Self::default() })
    }

    /// Publishes the tunnels of this replica to the others, and uses theirs.
    pub fn shared(server: &Arc<Server>, peers: Peers, addresses: AddressPolicy) -> Arc<Self> {
        let peers = Arc::new(peers);
        let tunnels = Arc::new(Self { peers: Some(Arc::clone(&peers)), addresses, ..Self::default() });
        tokio::spawn(peers::publish(Arc::clone(server), Arc::clone(&tunnels), peers));
        tunnels
    }

    /// Returns the open tunnels: cluster, id, and URL of the member's API.
    pub(super) fn held(&self) -> Vec<(String, u64, String)> {
        let open = self.open.lock();
        let open = open.iter().filter(|(_, tunnel)| !tunnel.sender.is_closed());
        open.map(|(cluster, tunnel)| (cluster.clone(), tunnel.id, tunnel.server.clone())).collect()
    }

    /// Resolves when a tunnel opens or closes after the call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Keeps a tunnel over a connection to an agent until that ends. The agent is not trusted: it may send anything.
    pub async fn keep<I>(&self, cluster: &str, server: String, io: I) -> Result<(), hyper::Error>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        builder.keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_TIMEOUT).keep_alive_while_idle(true);
        let (sender, connection) = builder.handshake(io).await?;
        let id = self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(cluster.to_owned(), Tunnel { id, server, sender });
        self.changed.notify_one();
        tracing::info!(cluster, "tunnel to the member opened by its agent");
        let closed = connection.await;
        let mut open = self.open.lock();
        if open.get(cluster).is_some_and(|tunnel| tunnel.id == id) {
            open.remove(cluster);
            self.changed.notify_one();
        }
        closed
    }
}

impl Tunnel {
    /// Opens a connection to the member's API.
    pub async fn dial(mut self) -> Result<Box<dyn Stream>, String> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = http::Method::CONNECT;
        *request.uri_mut() = http::Uri::from_static("member:443");
        let asked = tokio::time::timeout(DIAL_TIMEOUT, self.sender.send_request(request)).await;
        let response = asked.map_err(|_| format!("its agent did not connect within {DIAL_TIMEOUT:?}"))?;
        let response = response.map_err(|error| format!("the tunnel of its agent failed: {error}"))?;
        if response.status() != StatusCode::OK {
            return Err(format!("its agent cannot reach it ({})", response.status()));
        }
        let joined = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
        Ok(Box::new(TokioIo::new(joined)))
    }
}

/// The endpoint where agents open their tunnels.
pub struct TunnelEndpoint {
    pub tunnels: Arc<Tunnels>,
}

#[async_trait]
impl Extension for TunnelEndpoint {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(PATH)
    }

    /// Agents have rights to their clusters and none to paths.
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
            let kept = async { tunnels.keep(&cluster, at, upgrade.await?).await };
            tokio::select! {
                () = stop.cancelled() => {}
                closed = kept => {
                    tracing::info!(cluster, closed = ?closed.err(), "tunnel to the member closed");
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

/// A caller that may update the status of a cluster may open a tunnel to it and report its capacity. An agent may do so for its
/// own cluster only.
pub async fn require_agent(server: &Arc<Server>, user: &User, cluster: &str) -> Result<(), Status> {
    let resource = CLUSTERS.gvr().group_resource();
    if agents::cluster_of(&user.name, &user.groups).is_some_and(|own| own != cluster) {
        return Err(Status::forbidden(&resource, cluster, "an agent may act for its own cluster only"));
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
    server.require(user, &action.into()).await
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
    fn an_agent_reports_the_https_url_of_its_member() {
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
