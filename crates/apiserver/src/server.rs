//! The server's shared state: everything a request needs, owned in one place and never global.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use access::Action;
use cluster_client::remote::addresses::AddressPolicy;
use kinds::Kind;
use object::Status;
use object::request::User;
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityLog;
use crate::admission::Chain;
use crate::aggregate::Aggregator;
use crate::audit::Audit;
use crate::auth::{Auth, Oidc, RequestAuthenticator};
use crate::disturbance::Disturbance;
use crate::documents::{OpenApiCache, Version};
use crate::dynamic_group::DynamicGroup;
use crate::extension::Extension;
use crate::flow::FlowControl;
use crate::health::HealthCheck;
use crate::http::Peer;
use crate::limits::{Limits, LimitsConfig, Reservation};
use crate::metrics::Metrics;
use crate::mount::{Mount, RequestedNames};
use crate::request::RequestInfo;
use crate::resources::Resources;
use crate::respond::CompressedParts;
use crate::scope::{HealthScope, ReadScope, WriteScope};
use crate::served_resources::ServedResources;
use crate::storage::{EventLeases, Objects};
use crate::subresource::ConnectHandler;
use crate::verbs::Target;

/// The configuration of a server.
pub struct ServerConfig {
    pub store: Arc<dyn Store>,
    pub kinds: Vec<Kind>,
    pub auth: Auth,
    pub admission: Chain,
    pub aggregator: Aggregator,
    pub audit: Audit,
    pub limits: LimitsConfig,
    pub version: Version,
    pub event_ttl: Duration,
    /// The addresses that webhooks and APIServices may name.
    pub addresses: AddressPolicy,
    /// Metrics of what is around the server, which its `/metrics` includes.
    pub component_metrics: ::metrics::Registry,
    pub stop: CancellationToken,
}

/// Handlers of requests that are not about stored objects.
#[derive(Default)]
pub struct Handlers {
    pub connect: Vec<Box<dyn ConnectHandler>>,
    pub extensions: Vec<Box<dyn Extension>>,
    pub groups: Vec<Box<dyn DynamicGroup>>,
    pub mounts: Vec<Box<dyn Mount>>,
    pub authenticators: Vec<Box<dyn RequestAuthenticator>>,
    /// Further checks of `/readyz` and `/healthz`.
    pub checks: Vec<Box<dyn HealthCheck>>,
}

/// The handlers of a server before any are installed.
static NO_HANDLERS: Handlers = Handlers {
    connect: Vec::new(),
    extensions: Vec::new(),
    groups: Vec::new(),
    mounts: Vec::new(),
    authenticators: Vec::new(),
    checks: Vec::new(),
};

impl Handlers {
    /// Returns the handler of connections to a resource or subresource.
    pub fn connection(&self, target: &Target) -> Option<&dyn ConnectHandler> {
        self.connect.iter().map(|handler| &**handler).find(|handler| handler.handles(target))
    }

    /// Returns the extension that answers a request.
    pub fn extension(&self, path: &str, headers: &http::HeaderMap) -> Option<&dyn Extension> {
        let mut extensions = self.extensions.iter().map(|extension| &**extension);
        extensions.find(|extension| extension.handles(path) || extension.handles_page(path, headers))
    }

    /// Returns the handler of a group with changing resources.
    pub fn dynamic_group(&self, name: &str) -> Option<&dyn DynamicGroup> {
        self.groups.iter().map(|group| &**group).find(|group| group.group() == name)
    }

    /// Returns the mounted API that a path belongs to.
    pub fn mount(&self, path: &str) -> Option<&dyn Mount> {
        self.mounts.iter().map(|mount| &**mount).find(|mount| mount.handles(path))
    }

    /// Returns the path of a request to a name that belongs to a mounted API.
    pub fn path_by_name(&self, names: &RequestedNames<'_>, path: &str) -> Result<Option<String>, Status> {
        for mount in &self.mounts {
            if let Some(path) = mount.path_by_name(names, path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Returns the error with which an extension rejects a request for a resource.
    pub fn rejection(&self, info: &RequestInfo, headers: &http::HeaderMap) -> Option<Status> {
        self.extensions.iter().find_map(|extension| extension.rejection(info, headers))
    }
}

pub struct Server {
    pub objects: Objects,
    pub registry: ServedResources,
    pub(crate) auth: Auth,
    pub(crate) admission: Chain,
    pub(crate) aggregator: Aggregator,
    pub(crate) audit: Audit,
    /// The latest requests of users that changed something or were refused.
    pub activity: ActivityLog,
    pub(crate) limits: Limits,
    pub(crate) flow: FlowControl,
    pub metrics: Metrics,
    pub(crate) compressed_parts: Arc<CompressedParts>,
    pub(crate) openapi: OpenApiCache,
    pub version: Version,
    pub(crate) event_leases: EventLeases,
    handlers: OnceLock<Handlers>,
    /// Off unless a test or a demonstration switches it on.
    pub disturbance: Disturbance,
    pub stop: CancellationToken,
    ready: AtomicBool,
    address: OnceLock<SocketAddr>,
}

impl Server {
    pub fn new(config: ServerConfig) -> Arc<Self> {
        let (metrics, compressed_parts) = (Metrics::with(config.component_metrics), Arc::<CompressedParts>::default());
        compressed_parts.clone().measure(&metrics.components);
        Arc::new(Self {
            objects: Objects::new(config.store.clone()),
            registry: ServedResources::new(config.store, config.kinds, config.addresses, config.stop.clone()),
            auth: config.auth,
            admission: config.admission,
            aggregator: config.aggregator,
            audit: config.audit,
            flow: FlowControl::new(config.limits.reads_max + config.limits.writes_max),
            activity: ActivityLog::default(),
            limits: Limits::new(config.limits),
            metrics,
            compressed_parts,
            openapi: OpenApiCache::default(),
            version: config.version,
            event_leases: EventLeases::new(config.event_ttl),
            handlers: OnceLock::new(),
            disturbance: Disturbance::default(),
            stop: config.stop,
            ready: AtomicBool::new(false),
            address: OnceLock::new(),
        })
    }

    /// The objects and kinds, for steps that need nothing else of the server.
    pub fn resources(&self) -> Resources<'_> {
        Resources { objects: &self.objects, registry: &self.registry }
    }

    /// The parts that lists and watches use.
    pub fn read_scope(&self) -> ReadScope<'_> {
        ReadScope { resources: self.resources(), limits: &self.limits, parts: &self.compressed_parts, stop: &self.stop }
    }

    /// The parts that health checks look at.
    pub fn health_scope(&self) -> HealthScope<'_> {
        HealthScope {
            store: self.objects.store(),
            audit: &self.audit,
            checks: &self.handlers().checks,
            is_ready: self.is_ready(),
            is_stopping: self.stop.is_cancelled(),
        }
    }

    /// The parts that writes use.
    pub fn write_scope(&self) -> WriteScope<'_> {
        WriteScope {
            objects: &self.objects,
            registry: &self.registry,
            auth: &self.auth,
            admission: &self.admission,
            event_leases: &self.event_leases,
        }
    }

    /// The user behind a request; 401 when the credentials given are wrong, or none are and the request needs some.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &http::HeaderMap,
        info: &RequestInfo,
    ) -> Result<Arc<User>, Status> {
        self.auth.authenticate(self.resources(), &self.handlers().authenticators, peer, headers, info).await
    }

    /// 403 unless the user may send this request.
    pub async fn authorize(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        self.auth.authorize(self.resources(), user, info).await
    }

    /// Returns the namespaces in which a RoleBinding names the user or one of its groups.
    pub async fn namespaces_of(&self, user: &User) -> Result<BTreeSet<String>, Status> {
        self.auth.policy().read(self.resources(), |index| index.namespaces_of(user)).await
    }

    /// 403 unless the user may do this, for questions that are not the request itself.
    pub async fn require(&self, user: &User, action: &Action<'_>) -> Result<(), Status> {
        self.auth.require(self.resources(), user, action).await
    }

    /// Counts memory that a request takes as its user's, or refuses with the time to wait.
    pub fn reserve(&self, user: &Arc<User>, bytes: usize) -> Result<Reservation, Status> {
        self.limits.reserve(user, bytes)
    }

    /// Raises a reservation to `bytes`.
    pub fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), Status> {
        self.limits.grow(reservation, bytes)
    }

    /// Authentication and authorization, for changes of their configuration.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// The issuer at which browsers can sign in.
    pub fn oidc(&self) -> Option<&Oidc> {
        self.auth.oidc()
    }

    /// Installs the handlers, once and before the server listens. Until then in-process clients already read and write
    /// objects, so that handlers can hold services that work on them.
    pub fn install(&self, handlers: Handlers) {
        assert!(self.handlers.set(handlers).is_ok(), "handlers are installed once");
    }

    pub fn handlers(&self) -> &Handlers {
        self.handlers.get().unwrap_or(&NO_HANDLERS)
    }

    /// Returns the error with which an extension rejects a request for a resource. Where the object does not exist, it says so
    /// first, as clients expect.
    pub async fn rejection(&self, info: &RequestInfo, headers: &http::HeaderMap) -> Option<Status> {
        let rejection = self.handlers().rejection(info, headers)?;
        Some(match self.missing(info).await {
            Some(missing) => Status { message: format!("{}: {}", missing.message, rejection.message), ..missing },
            None => rejection,
        })
    }

    /// Returns the error about the object that a request names, if it does not exist.
    async fn missing(&self, info: &RequestInfo) -> Option<Status> {
        if info.name.is_empty() {
            return None;
        }
        let resource = self.registry.find(&info.group, &info.version, &info.resource)?;
        let found = self.objects.get(&resource.key(&info.namespace, &info.name)).await.ok()?;
        found.is_none().then(|| Status::not_found(&resource.kind.group_resource(), &info.name))
    }

    /// Says that everything a client relies on is in place; `/readyz` turns green.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Sets the address the server listens on, for documents that contain it.
    pub fn set_address(&self, address: SocketAddr) {
        // A second listener does not change what the first one is called.
        let _ = self.address.set(address);
    }

    /// The port the server listens on, or that of HTTPS.
    pub fn port(&self) -> u16 {
        self.address.get().map_or(443, SocketAddr::port)
    }

    pub fn address(&self) -> String {
        self.address.get().map(ToString::to_string).unwrap_or_default()
    }
}
