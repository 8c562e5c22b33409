//! Ways to members that agents have opened to other replicas of this server: whoever holds one says so in the store and
//! lets the others through.
//!
//! What goes from replica to replica is one connection to the member's API, byte by byte: TLS to the member, its credentials
//! and the caller's name stay with the replica that was asked. A replica lets others use only ways it holds itself, so a
//! connection never goes round in circles. Replicas know each other by the certificate that only they have, the front proxy's.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use access::user::MASTERS_GROUP;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::remote::connect::Stream;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use object::Status;
use pki::tls::client::ReloadableClientCert;
use serde::{Deserialize, Serialize};
use store::{Error, KeyValue, LeaseId, RangeRequest, Revision, Store};

use super::tunnels::{DIAL_TIMEOUT, Tunnels};
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::forwarding;
use apiserver::outgoing::{self, Destination};
use apiserver::respond::Body;
use apiserver::server::Server;

/// Where replicas let each other through; the name of the cluster follows.
const PATH: &str = "/flotilla/v1alpha1/peer-tunnels/";
/// What such a connection becomes.
const PROTOCOL: &str = "flotilla-member-connection";
/// As whom a replica asks another. The group is one that no certificate can be requested for.
const REPLICA: &str = "system:flotilla:replica";
/// A name that the certificate of every replica has, and no other certificate of ours.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// Where the store says who holds which way. No API group begins with a dash, so no object is ever here.
const PREFIX: &str = "/-flotilla/tunnels/";
/// What a replica has said is forgotten so long after it was last heard of.
const LEASE_SECONDS: i64 = 15;
const PUBLISH_EVERY: Duration = Duration::from_secs(4);
/// A replica that stops takes back what it said, if the store lets it in this time.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// How this replica and the others reach each other.
pub struct Peers {
    /// Where this one is reached, `HOST:PORT`.
    pub address: String,
    /// The CA all replicas have their certificates from, PEM.
    pub ca: Vec<u8>,
    pub identity: Arc<ReloadableClientCert>,
}

/// What the store says of a way.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Held {
    /// The replica that holds it.
    address: String,
    /// The member's API as its agent calls it.
    server: String,
}

impl Held {
    /// Without a lease it outlived its replica, by way of a backup: it says nothing about now.
    fn read(kv: &KeyValue) -> Option<Self> {
        kv.lease?;
        serde_json::from_slice(&kv.value).ok()
    }
}

/// A way that another replica holds.
#[derive(Clone)]
pub struct PeerTunnel {
    peers: Arc<Peers>,
    cluster: String,
    address: String,
    /// The member's API as its agent calls it.
    pub server: String,
}

/// The replica that holds a way to the cluster, if another does.
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
    /// A connection to the member's API, as if it had been dialled.
    pub async fn dial(self) -> Result<Box<dyn Stream>, String> {
        let failed = |problem: String| format!("the replica at {} leads the way to it: {problem}", self.address);
        match tokio::time::timeout(DIAL_TIMEOUT, self.ask()).await {
            Ok(asked) => asked.map_err(failed),
            Err(_) => Err(failed(format!("no connection within {DIAL_TIMEOUT:?}"))),
        }
    }

    async fn ask(&self) -> Result<Box<dyn Stream>, String> {
        let (host, port) = self.address.rsplit_once(':').ok_or("it has no port")?;
        let destination = Destination {
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

/// Where replicas ask for a connection through a way that this one holds.
pub struct PeerDoor {
    pub tunnels: Arc<Tunnels>,
}

#[async_trait]
impl Extension for PeerDoor {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(PATH)
    }

    /// Not even a right to all paths is enough.
    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, _: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let ExtensionRequest { incoming, user } = request;
        let cluster = incoming.info.path[PATH.len()..].to_owned();
        if !user.in_group(MASTERS_GROUP) {
            let resource = api::cluster::CLUSTERS.gvr().group_resource();
            return Err(Status::forbidden(&resource, &cluster, "only replicas of this server go this way"));
        }
        if incoming.headers.get(header::UPGRADE).is_none_or(|value| value != PROTOCOL) {
            return Err(Status::bad_request(format!("this path is for replicas: it switches to {PROTOCOL}")));
        }
        let Some(upgrade) = incoming.upgrade else {
            return Err(Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"));
        };
        // Never another replica's: that is what keeps a request from going round.
        let Some(tunnel) = self.tunnels.to(&cluster) else {
            return Err(Status::unavailable(format!("it no longer has a way to cluster {cluster}")));
        };
        let mut member = tunnel.dial().await.map_err(Status::unavailable)?;
        tokio::spawn(async move {
            match upgrade.await {
                Ok(asked) => drop(tokio::io::copy_bidirectional(&mut TokioIo::new(asked), &mut member).await),
                Err(error) => tracing::debug!(%error, "a connection for another replica was not taken"),
            }
        });
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
        Ok(response)
    }
}

/// Tells other replicas which ways this one holds, until the server stops, whatever happens to the store meanwhile.
pub async fn publish(server: Arc<Server>, tunnels: Arc<Tunnels>, peers: Arc<Peers>) {
    let stop = server.stop.clone();
    let mut publisher = Publisher {
        store: Arc::clone(server.objects.store()),
        address: peers.address.clone(),
        lease: None,
        said: HashMap::new(),
    };
    // A loop that lives as long as the server must not be what keeps it alive.
    drop(server);
    loop {
        let changed = tunnels.changed();
        if let Err(error) = publisher.step(&tunnels.held()).await {
            tracing::warn!(%error, "other replicas cannot be told of the ways to members; trying again");
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
    /// By cluster: the id of the way, and the revision at which the store was told of it.
    said: HashMap<String, (u64, Revision)>,
}

impl Publisher {
    /// Makes what the store says of this replica what `held` (cluster, id, the member's API) says.
    async fn step(&mut self, held: &[(String, u64, String)]) -> store::Result<()> {
        let lease = self.keep_lease(held.is_empty()).await?;
        let open: HashSet<&str> = held.iter().map(|(cluster, ..)| cluster.as_str()).collect();
        let gone: Vec<String> = self.said.keys().filter(|cluster| !open.contains(cluster.as_str())).cloned().collect();
        for cluster in gone {
            self.withdraw(&cluster).await?;
        }
        let Some(lease) = lease else { return Ok(()) };
        let found = self.store.range(RangeRequest::prefix(PREFIX)).await?;
        let now: HashMap<&str, &KeyValue> =
            found.kvs.iter().filter_map(|kv| Some((kv.key.strip_prefix(PREFIX)?, kv))).collect();
        for (cluster, id, server) in held {
            let is_new = self.said.get(cluster).is_none_or(|(said, _)| said != id);
            let current = now.get(cluster.as_str()).copied();
            // The newest way counts. One that was told of before is told of again only when nobody else has one.
            if is_new || current.is_none_or(|kv| Held::read(kv).is_none()) {
                let value = Held { address: self.address.clone(), server: server.clone() };
                self.say(cluster, *id, &value, current.map(|kv| kv.mod_revision), lease).await?;
            }
        }
        Ok(())
    }

    /// The lease under which this replica speaks; none while it has nothing to say.
    async fn keep_lease(&mut self, is_silent: bool) -> store::Result<Option<LeaseId>> {
        if let Some(lease) = self.lease {
            match self.store.keep_alive(lease).await {
                Ok(()) => return Ok(Some(lease)),
                Err(Error::LeaseNotFound(_)) => {
                    self.lease = None;
                    // All of it went with the lease.
                    for (_, revision) in self.said.values_mut() {
                        *revision = 0;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if is_silent {
            return Ok(None);
        }
        self.lease = Some(self.store.grant(LEASE_SECONDS).await?);
        Ok(self.lease)
    }

    async fn say(
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
                self.said.insert(cluster.to_owned(), (id, revision));
                Ok(())
            }
            // Another replica was told of a way meanwhile; the next step looks again.
            Err(Error::Exists { .. } | Error::Conflict { .. } | Error::LeaseNotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn withdraw(&mut self, cluster: &str) -> store::Result<()> {
        let Some((_, revision)) = self.said.get(cluster).copied() else { return Ok(()) };
        if revision > 0 {
            match self.store.delete(&format!("{PREFIX}{cluster}"), Some(revision)).await {
                // Gone, or said of another replica since.
                Ok(_) | Err(Error::NotFound | Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.said.remove(cluster);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use store::memory::Memory;

    use super::*;

    fn publisher(store: &Arc<Memory>, address: &str) -> Publisher {
        let store = Arc::clone(store) as Arc<dyn Store>;
        Publisher { store, address: address.to_owned(), lease: None, said: HashMap::new() }
    }

    async fn holder(store: &Memory, cluster: &str) -> Option<String> {
        let found = store.get(&format!("{PREFIX}{cluster}")).await.expect("answers").0;
        found.as_ref().and_then(Held::read).map(|held| held.address)
    }

    fn way(id: u64) -> Vec<(String, u64, String)> {
        vec![("m1".to_owned(), id, "https://m1:6443".to_owned())]
    }

    #[tokio::test]
    async fn the_newest_way_counts_and_a_holder_takes_back_only_what_it_said() {
        let store = Arc::new(Memory::new());
        let (mut a, mut b) = (publisher(&store, "a:1"), publisher(&store, "b:1"));
        a.step(&way(0)).await.expect("said");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
        b.step(&way(0)).await.expect("said");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("b:1"));
        a.step(&way(0)).await.expect("has heard of b");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("b:1"), "the older way does not come back");
        a.step(&[]).await.expect("taken back");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("b:1"), "that was b's to take back");
        b.step(&[]).await.expect("taken back");
        assert_eq!(holder(&store, "m1").await, None);
    }

    #[tokio::test]
    async fn what_went_with_a_lease_is_said_again_and_the_old_way_comes_back_when_no_other_is_left() {
        let store = Arc::new(Memory::new());
        let (mut a, mut b) = (publisher(&store, "a:1"), publisher(&store, "b:1"));
        a.step(&way(0)).await.expect("said");
        store.revoke(a.lease.expect("a lease")).await.expect("gone");
        assert_eq!(holder(&store, "m1").await, None);
        a.step(&way(0)).await.expect("said again");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
        b.step(&way(7)).await.expect("said");
        b.step(&[]).await.expect("taken back");
        a.step(&way(0)).await.expect("the only one left");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
    }

    #[tokio::test]
    async fn what_a_backup_brought_back_leads_nowhere_and_is_replaced() {
        let store = Arc::new(Memory::new());
        let stale = serde_json::to_vec(&Held { address: "old:1".into(), server: "https://x".into() }).expect("JSON");
        store.create(&format!("{PREFIX}m1"), stale.into(), None).await.expect("restored");
        assert_eq!(holder(&store, "m1").await, None);
        publisher(&store, "a:1").step(&way(0)).await.expect("said");
        assert_eq!(holder(&store, "m1").await.as_deref(), Some("a:1"));
    }
}
