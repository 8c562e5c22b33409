//! Tunnels that agents have opened to other replicas of this server. The replica with the tunnel records this in the store and
//! forwards connections for the others.
//!
//! Replicas forward the bytes of one connection to the member's API: TLS, credentials and impersonation stay with the replica
//! that received the request. A replica forwards only through its own tunnels, so there are no loops. Replicas authenticate
//! each other with the front-proxy certificate, which only they have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::forwarding;
use apiserver::outgoing::{self, Destination};
use apiserver::respond::Body;
use apiserver::server::Server;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::remote::connect::Stream;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use object::Status;
use object::request::user::MASTERS_GROUP;
use pki::tls::client::ReloadableClientCert;
use serde::{Deserialize, Serialize};
use store::{Error, KeyValue, LeaseId, RangeRequest, Revision, Store};

use super::tunnels::{DIAL_TIMEOUT, Tunnels};

/// Path for connections of other replicas; the cluster name follows.
const PATH: &str = "/flotilla/v1alpha1/peer-tunnels/";
/// Protocol such a connection is upgraded to.
const PROTOCOL: &str = "flotilla-member-connection";
/// The user a replica connects to another as. No certificate can be requested for its group.
const REPLICA: &str = "system:flotilla:replica";
/// A name in the serving certificate of every replica, and in no other certificate of ours.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// Store prefix of the records. No API group begins with a dash, so no object has this prefix.
const PREFIX: &str = "/-flotilla/tunnels/";
/// The records of a replica expire this long after its last heartbeat.
const LEASE_SECONDS: i64 = 15;
const PUBLISH_EVERY: Duration = Duration::from_secs(4);
/// Maximum time to withdraw the records when a replica stops.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// Address and credentials for connections between replicas.
pub struct Peers {
    /// Address of this replica, `HOST:PORT`.
    pub address: String,
    /// The CA of the certificates of all replicas, PEM.
    pub ca: Vec<u8>,
    pub identity: Arc<ReloadableClientCert>,
}

/// The record of a tunnel in the store.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Held {
    /// The replica with the tunnel.
    address: String,
    /// URL of the member's API as seen by its agent.
    server: String,
}

impl Held {
    /// A record without a lease comes from a restored backup and is ignored.
    fn read(kv: &KeyValue) -> Option<Self> {
        kv.lease?;
        serde_json::from_slice(&kv.value).ok()
    }
}

/// A tunnel of another replica.
#[derive(Clone)]
pub struct PeerTunnel {
    peers: Arc<Peers>,
    cluster: String,
    address: String,
    /// URL of the member's API as seen by its agent.
    pub server: String,
}

/// Returns the tunnel of another replica to the cluster, if there is one.
pub async fn find(store: &dyn Store, peers: &Arc<Peers>, cluster: &str) -> Result<Option<PeerTunnel>, Status> {
    let found = store.get(&format!("{PREFIX}{cluster}")).await.map_err(apiserver::storage::status_of_store)?.0;
    let held = found.as_ref().and_then(Held::read).filter(|held| held.address != peers.address);
    Ok(held.map(|Held { address, server }| PeerTunnel {
        peers: Arc::clone(peers),
        cluster: cluster.to_owned(),
        address,
        server,
    }))
}

impl PeerTunnel {
    /// Opens a connection to the member's API.
    pub async fn dial(self) -> Result<Box<dyn Stream>, String> {
        let failed = |problem: String| format!("through the replica at {}: {problem}", self.address);
        match tokio::time::timeout(DIAL_TIMEOUT, self.ask()).await {
            Ok(asked) => asked.map_err(failed),
            Err(_) => Err(failed(format!("no connection within {DIAL_TIMEOUT:?}"))),
        }
    }

    async fn ask(&self) -> Result<Box<dyn Stream>, String> {
        let (host, port) = self.address.rsplit_once(':').ok_or("it has no port")?;
        let destination = Destination {
            addresses: Default::default(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().map_err(|_| "it has no port")?,
            server_name: SERVER_NAME.to_owned(),
            path: format!("{PATH}{}", self.cluster),
            ca: Some(self.peers.ca.clone()),
            insecure: false,
        };
        let connected = outgoing::connect(&destination, Some(Arc::clone(&self.peers.identity))).await;
        let stream = connected.map_err(|error| error.to_string())?;
        let request = Request::get(&destination.path)
            .header(header::HOST, SERVER_NAME)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, PROTOCOL)
            .header("x-remote-user", REPLICA)
            .header("x-remote-group", MASTERS_GROUP)
            .body(forwarding::whole(Bytes::new()))
            .map_err(|error| error.to_string())?;
        let response = forwarding::exchange(stream, request).await.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(response).await);
        }
        let joined = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
        Ok(Box::new(TokioIo::new(joined)))
    }
}

async fn refusal(response: Response<hyper::body::Incoming>) -> String {
    const REFUSAL_BYTES_MAX: usize = 64 * 1024;
    let code = response.status().as_u16();
    let body = http_body_util::Limited::new(response.into_body(), REFUSAL_BYTES_MAX);
    let body = http_body_util::BodyExt::collect(body).await.map(|body| body.to_bytes()).unwrap_or_default();
    Status::from_response(code, &body).to_string()
}

/// The endpoint where other replicas connect through a tunnel of this one.
pub struct PeerEndpoint {
    pub tunnels: Arc<Tunnels>,
}

#[async_trait]
impl Extension for PeerEndpoint {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(PATH)
    }

    /// A right to all paths is not enough.
    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, _: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let ExtensionRequest { incoming, user } = request;
        let cluster = incoming.info.path[PATH.len()..].to_owned();
        if !user.in_group(MASTERS_GROUP) {
            let resource = api::cluster::CLUSTERS.gvr().group_resource();
            return Err(Status::forbidden(&resource, &cluster, "only replicas of this server may use this path"));
        }
        if incoming.headers.get(header::UPGRADE).is_none_or(|value| value != PROTOCOL) {
            return Err(Status::bad_request(format!("this path is for replicas: it switches to {PROTOCOL}")));
        }
        let Some(upgrade) = incoming.upgrade else {
            return Err(Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"));
        };
        // Only tunnels of this replica, to avoid loops.
        let Some(tunnel) = self.tunnels.to(&cluster) else {
            return Err(Status::unavailable(format!("this replica has no tunnel to cluster {cluster} any more")));
        };
        let mut member = tunnel.dial().await.map_err(Status::unavailable)?;
        tokio::spawn(async move {
            match upgrade.await {
                Ok(asked) => drop(tokio::io::copy_bidirectional(&mut TokioIo::new(asked), &mut member).await),
                Err(error) => tracing::debug!(%error, "connection of another replica failed"),
            }
        });
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
        Ok(response)
    }
}

/// Publishes the tunnels of this replica until the server stops; retries when the store fails.
pub async fn publish(server: Arc<Server>, tunnels: Arc<Tunnels>, peers: Arc<Peers>) {
    let stop = server.stop.clone();
    let mut publisher = Publisher {
        store: Arc::clone(server.objects.store()),
        address: peers.address.clone(),
        lease: None,
        published: HashMap::new(),
    };
    // This loop must not keep the server alive.
    drop(server);
    loop {
        let changed = tunnels.changed();
        if let Err(error) = publisher.step(&tunnels.held()).await {
            tracing::warn!(%error, "cannot publish the tunnels to members; will retry");
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = changed => {}
            () = tokio::time::sleep(PUBLISH_EVERY) => {}
        }
    }
    if let Some(lease) = publisher.lease {
        let _ = tokio::time::timeout(WITHDRAW_TIMEOUT, publisher.store.revoke(lease)).await;
    }
}

struct Publisher {
    store: Arc<dyn Store>,
    address: String,
    lease: Option<LeaseId>,
    /// By cluster: the id of the tunnel and the revision of its record.
    published: HashMap<String, (u64, Revision)>,
}

impl Publisher {
    /// Brings the records of this replica in line with `held` (cluster, id, URL of the member's API).
    async fn step(&mut self, held: &[(String, u64, String)]) -> store::Result<()> {
        let lease = self.keep_lease(held.is_empty()).await?;
        let open: HashSet<&str> = held.iter().map(|(cluster, ..)| cluster.as_str()).collect();
        let gone: Vec<String> =
            self.published.keys().filter(|cluster| !open.contains(cluster.as_str())).cloned().collect();
        for cluster in gone {
            self.withdraw(&cluster).await?;
        }
        let Some(lease) = lease else { return Ok(()) };
        let found = self.store.range(RangeRequest::prefix(PREFIX)).await?;
        let now: HashMap<&str, &KeyValue> =
            found.kvs.iter().filter_map(|kv| Some((kv.key.strip_prefix(PREFIX)?, kv))).collect();
        for (cluster, id, server) in held {
            let is_new = self.published.get(cluster).is_none_or(|(known, _)| known != id);
            let current = now.get(cluster.as_str()).copied();
            // The newest tunnel wins. An older one is published again only when no other replica has one.
            if is_new || current.is_none_or(|kv| Held::read(kv).is_none()) {
                let value = Held { address: self.address.clone(), server: server.clone() };
                self.publish(cluster, *id, &value, current.map(|kv| kv.mod_revision), lease).await?;
            }
        }
        Ok(())
    }

    /// Returns the lease of the records; `None` while there are none.
    async fn keep_lease(&mut self, is_empty: bool) -> store::Result<Option<LeaseId>> {
        if let Some(lease) = self.lease {
            match self.store.keep_alive(lease).await {
                Ok(()) => return Ok(Some(lease)),
                Err(Error::LeaseNotFound(_)) => {
                    self.lease = None;
                    // All records expired with the lease.
                    for (_, revision) in self.published.values_mut() {
                        *revision = 0;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if is_empty {
            return Ok(None);
        }
        self.lease = Some(self.store.grant(LEASE_SECONDS).await?);
        Ok(self.lease)
    }

    async fn publish(
        &mut self,
        cluster: &str,
        id: u64,
        value: &Held,
        current: Option<Revision>,
        lease: LeaseId,
    ) -> store::Result<()> {
        let key = format!("{PREFIX}{cluster}");
        let bytes: Bytes = serde_json::to_vec(value).map_err(|error| Error::Invalid(error.to_string()))?.into();
        let written = match current {
            Some(revision) => self.store.update(&key, bytes, revision, Some(lease)).await,
            None => self.store.create(&key, bytes, Some(lease)).await,
        };
        match written {
            Ok(revision) => {
                self.published.insert(cluster.to_owned(), (id, revision));
                Ok(())
            }
            // Another replica published a tunnel in between; the next step reads again.
            Err(Error::Exists { .. } | Error::Conflict { .. } | Error::LeaseNotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn withdraw(&mut self, cluster: &str) -> store::Result<()> {
        let Some((_, revision)) = self.published.get(cluster).copied() else { return Ok(()) };
        if revision > 0 {
            match self.store.delete(&format!("{PREFIX}{cluster}"), Some(revision)).await {
                // Expired, or replaced by another replica.
                Ok(_) | Err(Error::NotFound | Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.published.remove(cluster);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use store::memory::Memory;

    use super::*;

    fn publisher(store: &Arc<Memory>, address: &str) -> Publisher {
        let store = Arc::clone(store) as Arc<dyn Store>;
        Publisher { store, address: address.to_owned(), lease: None, published: HashMap::new() }
    }

    async fn holder(store: &Memory, cluster: &str) -> Option<String> {
        let found = store.get(&format!("{PREFIX}{cluster}")).await.expect("answers").0;
        found.as_ref().and_then(Held::read).map(|held| held.address)
    }

    fn tunnel(id: u64) -> Vec<(String, u64, String)> {
        vec![("m1".to_owned(), id, "https://m1:6443".to_owned())]
    }

    #[tokio::test]
    async fn the_newest_tunnel_wins_and_a_replica_withdraws_only_its_own_record() {
        let store = Arc::new(Memory::new());
        let (mut a, mut b) = (publisher(&store, "a:1"), publisher(&store, "b:1"));
        a.step(&tunnel(0)).await.expect("published");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
        b.step(&tunnel(0)).await.expect("published");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("b:1"));
        a.step(&tunnel(0)).await.expect("reads the record of b");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("b:1"), "the older tunnel does not return");
        a.step(&[]).await.expect("withdrawn");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("b:1"), "the record is b's");
        b.step(&[]).await.expect("withdrawn");
        assert_eq!(holder(&store, "m1").await, None);
    }

    #[tokio::test]
    async fn expired_records_are_published_again_and_an_older_tunnel_returns_when_no_other_is_left() {
        let store = Arc::new(Memory::new());
        let (mut a, mut b) = (publisher(&store, "a:1"), publisher(&store, "b:1"));
        a.step(&tunnel(0)).await.expect("published");
        store.revoke(a.lease.expect("a lease")).await.expect("gone");
        assert_eq!(holder(&store, "m1").await, None);
        a.step(&tunnel(0)).await.expect("published");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
        b.step(&tunnel(7)).await.expect("published");
        b.step(&[]).await.expect("withdrawn");
        a.step(&tunnel(0)).await.expect("the only one left");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
    }

    #[tokio::test]
    async fn records_from_a_backup_are_ignored_and_replaced() {
        let store = Arc::new(Memory::new());
        let stale = serde_json::to_vec(&Held { address: "old:1".into(), server: "https://x".into() }).expect("JSON");
        store.create(&format!("{PREFIX}m1"), stale.into(), None).await.expect("restored");
        assert_eq!(holder(&store, "m1").await, None);
        publisher(&store, "a:1").step(&tunnel(0)).await.expect("published");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
    }
}
