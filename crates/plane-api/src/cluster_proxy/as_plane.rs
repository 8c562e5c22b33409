//! Clients of members with the rights of the control plane: with the credentials their Cluster names, directly or through a
//! tunnel.

use std::io;
use std::sync::{Arc, Weak};

use api::cluster::{ClusterSpec, SECRET_TOKEN, SyncMode};
use apiserver::server::Server;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::remote::config::Credentials;
use cluster_client::remote::connect::Dialer;
use cluster_client::{
    ApiCall, Backend, ClusterClient, Endpoint, Identity, RemoteConfig, Reply, Upgraded, WatchCall, WatchEvents,
};
use object::Status;
use parking_lot::Mutex;

use super::member;
use super::tunnels::Tunnels;

/// Returns a client of a member. It may be created before the member is reachable: every call resolves the endpoint, so new
/// credentials and a reopened tunnel, here or at another replica, are used from the next call on.
pub fn client(server: &Arc<Server>, tunnels: &Arc<Tunnels>, cluster: &str) -> Result<ClusterClient, Status> {
    let backend: Arc<dyn Backend> = Arc::new(ResolvingBackend {
        server: Arc::downgrade(server),
        tunnels: Arc::clone(tunnels),
        cluster: cluster.to_owned(),
        current: Mutex::default(),
    });
    ClusterClient::connect(Endpoint::Direct { server: backend, identity: Identity::default() })
        .map_err(Status::internal)
}

struct ResolvingBackend {
    /// Weak, because the server owns the holders of this backend.
    server: Weak<Server>,
    tunnels: Arc<Tunnels>,
    cluster: String,
    current: Mutex<Option<(Known, ClusterClient)>>,
}

/// The inputs a client was created from; another client is created when they change.
#[derive(Clone, PartialEq)]
struct Known {
    spec: ClusterSpec,
    token: String,
    ca: Option<String>,
    through_agent: bool,
}

impl ResolvingBackend {
    async fn client(&self) -> Result<ClusterClient, Status> {
        let server = self.server.upgrade().ok_or_else(|| Status::unavailable("the server is stopping"))?;
        let known = self.resolve(&server).await?;
        let mut found = self.current.lock();
        if let Some((before, client)) = &*found
            && *before == known
        {
            return Ok(client.clone());
        }
        let config = self.config(&known);
        let client = ClusterClient::connect(Endpoint::Remote(config))
            .map_err(|error| member::unreachable(&self.cluster, &error.to_string()))?;
        *found = Some((known, client.clone()));
        Ok(client)
    }

    async fn resolve(&self, server: &Server) -> Result<Known, Status> {
        let cluster = self.cluster.as_str();
        let (mut spec, route) = member::locate(server, &self.tunnels, cluster).await?;
        // Fields that do not affect the connection need no other client.
        spec.taints = Vec::new();
        spec.resource_models = Vec::new();
        let Some(reference) = &spec.secret_ref else {
            return Err(member::unreachable(
                cluster,
                "it has no spec.secretRef, so the control plane has no rights in it",
            ));
        };
        let secret = member::secret(server, cluster, reference).await?;
        let token = member::secret_text(&secret, SECRET_TOKEN).ok_or_else(|| {
            member::unreachable(cluster, &format!("secret {}/{} has no token", reference.namespace, reference.name))
        })?;
        Ok(Known { token, ca: member::certificate_authority(&spec, &secret), through_agent: route.is_some(), spec })
    }

    fn config(&self, known: &Known) -> RemoteConfig {
        let mut config = member::config(&known.spec, known.ca.clone(), self.tunnels.addresses);
        config.credentials = Credentials { token: Some(known.token.clone()), ..Credentials::default() };
        if known.through_agent {
            config.dialer = Some(self.dialer(known.spec.sync_mode));
        }
        config
    }

    /// Resolves the tunnel for every connection, because an agent may reconnect to another replica.
    fn dialer(&self, mode: SyncMode) -> Dialer {
        let (server, tunnels, cluster) = (self.server.clone(), Arc::clone(&self.tunnels), self.cluster.clone());
        Dialer::new(move || {
            let (server, tunnels, cluster) = (server.clone(), Arc::clone(&tunnels), cluster.clone());
            Box::pin(async move {
                let server = server.upgrade().ok_or_else(|| io::Error::other("the server is stopping"))?;
                let route = member::route(&server, &tunnels, &cluster, mode).await;
                let route = route.map_err(|status| io::Error::other(status.to_string()))?;
                let route = route.ok_or_else(|| io::Error::other("the tunnel of its agent has closed"))?;
                route.dial().await.map_err(io::Error::other)
            })
        })
    }
}

#[async_trait]
impl Backend for ResolvingBackend {
    async fn call(&self, _: &Identity, request: ApiCall) -> Result<Reply, Status> {
        self.client().await?.call(request.target, request.request).await
    }

    async fn watch(&self, _: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.client().await?.watch(request).await
    }

    async fn raw(&self, _: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        self.client().await?.raw(request).await
    }

    async fn upgrade(&self, _: &Identity, request: http::Request<Bytes>) -> Result<Upgraded, Status> {
        self.client().await?.upgrade(request).await
    }
}
