//! Opens, serves and stops an API server with its store, certificates and listener.

use core_controllers::{AgentApproval, ControllerClients, ControllerParameters, SignToken};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver::admission::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use apiserver::admission::ingress_class::DefaultIngressClass;
use apiserver::admission::limit_ranger::LimitRanger;
use apiserver::admission::namespace_lifecycle::NamespaceLifecycle;
use apiserver::admission::pod_security::PodSecurity;
use apiserver::admission::policies::{MutatingPolicies, ValidatingPolicies};
use apiserver::admission::quota::Quotas;
use apiserver::admission::service_account::ServiceAccountDefaults;
use apiserver::admission::service_ip::{ServiceAddresses, ServiceRange};
use apiserver::admission::webhooks::{MutatingWebhooks, ValidatingWebhooks};
use apiserver::admission::{Admission, Chain};
use apiserver::aggregate::Aggregator;
use apiserver::audit::{Audit, AuditWebhook, LogFile};
use apiserver::auth::bootstrap::{self, PublishedTrust};
use apiserver::auth::escalation::EscalationCheck;
use apiserver::auth::param_access::ParamAccess;
use apiserver::auth::webhook::TokenWebhook;
use apiserver::auth::{AnonymousAccess, Auth, AuthConfig, FrontProxyConfig, ServiceAccountConfig};
use apiserver::direct::Direct;
use apiserver::http::{Listening, listen, serve_plain};
use apiserver::server::{Handlers, Server, ServerConfig};
use cluster_client::{Backend, ClusterClient, Endpoint, Identity, User};
use kinds::Kind;
use metrics::Registry;
use object::Object;
use pki::authority::CertificateAuthority;
use pki::jwt::signer::JwtSigner;
use pki::tls::client_trust::ClientTrust;
use pki::tls::server::{ClientCertificates, TlsPolicy, server_config_under};
use reconcile::Clock;
use store::embedded::{Embedded, EmbeddedOptions};
use store::{SizeLimit, Store};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::at_rest::{self, AtRest};
use crate::at_rest_state::{AtRestState, KmsHealth};
use crate::certificates::{AdminKubeconfig, Certificates};
use crate::follow::follow_files;
use crate::options::{Options, Storage};
use crate::provided_tls::{OWN_NAME, TlsOptions};
use crate::{config_files, peers, shared_keys};

/// `iss` of ServiceAccount tokens: the default of Kubernetes clusters.
pub(crate) const SERVICE_ACCOUNT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

const MANAGER: (&str, &[&str]) = ("system:kube-controller-manager", &["system:masters", "system:authenticated"]);

/// Interval for checking whether the store has stopped.
const STORE_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time for which the end waits for audit events to reach their webhook.
const AUDIT_FLUSH_MAX: Duration = Duration::from_secs(5);

/// Kinds, objects and admission steps of an API server in addition to those of Kubernetes.
#[derive(Default)]
pub struct Additions {
    pub kinds: Vec<Kind>,
    /// Namespaces, roles and bindings to create when they are missing.
    pub objects: Vec<Object>,
    /// Steps between Kubernetes' own mutating and validating steps.
    pub judges: Vec<Box<dyn Admission>>,
    /// Steps after all others except the quota.
    pub admission: Vec<Box<dyn Admission>>,
    /// Their metrics, which the server's `/metrics` includes.
    pub metrics: Registry,
}

/// An API server. `ApiHost<TcpListener>` is open: its in-process clients work and its address is known, but it accepts no
/// connection. `serve` makes it an `ApiHost` that listens.
pub struct ApiHost<L = Listening> {
    pub address: SocketAddr,
    /// The URL for clients on this machine, or the advertised one.
    pub url: String,
    /// The address for other servers on the same storage, `HOST:PORT`; `None` when the storage cannot be shared.
    pub peer_address: Option<String>,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    pub server: Arc<Server>,
    pub certificates: Arc<Certificates>,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
    listener: L,
    store: Arc<dyn Store>,
    size_limit: SizeLimit,
    /// Applied once the server accepts connections: a start may create objects, and only a started server can delete some.
    storage_bytes_max: u64,
    at_rest: Option<AtRest>,
    tls_policy: TlsPolicy,
    audit_webhook: Option<Arc<AuditWebhook>>,
}

impl ApiHost<TcpListener> {
    /// Opens the store, prepares certificates and bootstrap objects, and binds the address. Connections wait until `serve`.
    pub async fn open(options: &Options, additions: Additions) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&options.data_dir)
            .with_context(|| format!("cannot make the data directory {}", options.data_dir.display()))?;
        listener::raise_open_files_limit();
        let stop = CancellationToken::new();
        let size_limit = SizeLimit::default();
        let (store, at_rest) = at_rest::seal(options, open_store(options, &size_limit).await?).await?;
        let listener = TcpListener::bind(options.bind).await.with_context(|| {
            format!("cannot listen on {}: choose another address with --bind, or port 0 for a free one", options.bind)
        })?;
        let address = listener.local_addr()?;
        let peer_address = peers::address(options, address)?;
        let certificates = Arc::new(certificates(options, &*store, address, peer_address.as_deref()).await?);
        provide_certificates(&options.tls, &certificates, &stop)?;
        let url = options.advertise.clone().unwrap_or_else(|| format!("https://{}", reachable(address)));
        let kubeconfig = options.kubeconfig();
        // Clients that request the name get the server's own certificate, which the kubeconfig's CA has signed.
        let server_name = options.tls.default.is_some().then_some(OWN_NAME);
        let admin = AdminKubeconfig {
            file: kubeconfig.clone(),
            context: options.context.clone(),
            url: url.clone(),
            server_name,
        };
        certificates.write_admin_kubeconfig(&admin)?;

        let Additions { kinds, objects, judges, admission, metrics } = additions;
        let steps = admission_steps(options.service_range, judges, admission);
        let audit_webhook = options.audit_webhook.clone();
        let audit_webhook = audit_webhook.map(|(endpoint, batches)| Arc::new(AuditWebhook::start(endpoint, batches)));
        let parts = (kinds, steps, metrics);
        let config = server_config(options, audit_webhook.clone(), parts, &certificates, store.clone(), stop.clone())?;
        let server = Server::new(config);
        if let Some(webhook) = &audit_webhook {
            count_dropped_events(&server, webhook);
        }
        server.set_address(address);
        let prepared = apiserver::prepare(&server, objects).await;
        prepared.map_err(|status| anyhow::anyhow!("the API server cannot start: {status}"))?;
        publish_trust(&server, &certificates).await?;
        if let Some(at_rest) = &at_rest {
            at_rest.start(&server.metrics, &stop);
        }
        config_files::follow(options, &server, &stop);
        listen_plain(options, &server).await?;
        tokio::spawn(certificates.clone().keep_fresh(admin, stop.clone()));
        let tls_policy = options.tls.policy.clone();
        Ok(Self {
            address,
            url,
            peer_address,
            kubeconfig,
            server,
            certificates,
            stop,
            listener,
            store,
            size_limit,
            storage_bytes_max: options.storage_bytes_max,
            at_rest,
            tls_policy,
            audit_webhook,
        })
    }

    /// Starts to accept connections and reports ready.
    pub fn serve(self, mut handlers: Handlers) -> anyhow::Result<ApiHost> {
        let Self {
            address,
            url,
            peer_address,
            kubeconfig,
            server,
            certificates,
            stop,
            listener,
            store,
            size_limit,
            storage_bytes_max,
            at_rest,
            tls_policy,
            audit_webhook,
        } = self;
        let sealing = at_rest.as_ref().map(|at_rest| (at_rest.encryption.clone(), at_rest.rewriter.clone()));
        handlers.checks.extend(sealing.iter().map(|(encryption, _)| Box::new(KmsHealth(encryption.clone())) as _));
        handlers.extensions.push(Box::new(AtRestState { sealing }));
        server.install(handlers);
        let tls = server_config_under(&tls_policy, certificates.resolver.clone(), ClientCertificates::Ask)?;
        let listener = listen(server.clone(), listener, Arc::new(tls))?;
        size_limit.set(storage_bytes_max);
        server.set_ready();
        Ok(ApiHost {
            address,
            url,
            peer_address,
            kubeconfig,
            server,
            certificates,
            stop,
            listener,
            store,
            size_limit,
            storage_bytes_max,
            at_rest,
            tls_policy,
            audit_webhook,
        })
    }
}

impl<L> ApiHost<L> {
    /// Returns an in-process client.
    pub fn client(&self, user: User) -> anyhow::Result<ClusterClient> {
        connect(&direct(&self.server), user)
    }

    /// Returns the clients and parameters for Kubernetes' own controllers.
    pub fn controllers(&self, clock: Arc<dyn Clock>) -> anyhow::Result<(ControllerClients, ControllerParameters)> {
        let manager = self.client(User::new(MANAGER.0, MANAGER.1))?;
        let direct = direct(&self.server);
        let acting = move |name: &str| {
            connect(&direct, User::service_account("kube-system", name)).expect("a direct connection cannot fail")
        };
        let signer = JwtSigner::new(self.certificates.service_account_key.clone());
        let sign_token: SignToken = Arc::new(move |claims| signer.sign(claims).map_err(|error| error.to_string()));
        let authority = &self.certificates.authority;
        let authority = CertificateAuthority::new(authority.certificate().clone(), authority.key().clone())?;
        let parameters = ControllerParameters {
            ca_pem: self.certificates.ca_pem(),
            authority: Arc::new(authority),
            sign_token,
            server_url: self.url.clone(),
            server_ca_pem: self.certificates.ca_pem(),
            agent_approval: AgentApproval::default(),
            clock,
        };
        Ok((ControllerClients { manager, controller: Arc::new(acting) }, parameters))
    }
}

impl ApiHost {
    /// Returns when the process must be restarted, with the reason: the store accepts no more writes, and only a new process
    /// can read the state of the disk.
    pub async fn broken(&self) -> anyhow::Error {
        loop {
            if let Some(error) = self.store.stopped() {
                return anyhow::Error::new(error).context("the store accepts no more writes: restart this process");
            }
            tokio::time::sleep(STORE_LOOK_EVERY).await;
        }
    }

    /// Lets requests and writes finish, then closes the store.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.listener.task.await {
            tracing::error!(%error, "the listener exited with an error");
        }
        if let Some(webhook) = &self.audit_webhook {
            webhook.flush(AUDIT_FLUSH_MAX).await;
        }
        self.store.close().await;
    }
}

fn direct(server: &Arc<Server>) -> Arc<dyn Backend> {
    Arc::new(Direct::new(Arc::clone(server)))
}

fn connect(direct: &Arc<dyn Backend>, user: User) -> anyhow::Result<ClusterClient> {
    Ok(ClusterClient::connect(Endpoint::Direct { server: Arc::clone(direct), identity: Identity::of(user) })?)
}

async fn open_store(options: &Options, size_limit: &SizeLimit) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match &options.storage {
        Storage::Memory => Arc::new(store::memory::Memory::new()),
        Storage::Embedded => {
            let directory = options.data_dir.join("store");
            if options.requires_existing_data {
                refuse_missing(&[&directory, &options.data_dir.join("pki/ca.key")])?;
            }
            let size_limit = size_limit.clone();
            let place = EmbeddedOptions { size_limit, ..EmbeddedOptions::new(directory) };
            let opened = tokio::task::spawn_blocking(move || Embedded::open(&place)).await?;
            Arc::new(opened.context("cannot open the store")?)
        }
        Storage::Etcd(etcd) => {
            let raw = Arc::new(store::etcd::Etcd::connect(etcd).await.context("cannot use etcd")?);
            let place = format!("etcd at {} (prefix {})", etcd.endpoints.join(","), etcd.prefix);
            if options.requires_existing_data {
                refuse_empty(&*raw, &place).await?;
            }
            store::reserved::admit(raw, &place).await.context("cannot use etcd")?
        }
    })
}

/// The text of every refusal to create a control plane where one should be.
const NO_DATA: &str = "there is no control plane to start";

fn refuse_missing(paths: &[&Path]) -> anyhow::Result<()> {
    for path in paths {
        anyhow::ensure!(path.exists(), "{NO_DATA}: {} does not exist", path.display());
    }
    Ok(())
}

/// Every server publishes its keys before it writes anything else.
async fn refuse_empty(store: &dyn Store, place: &str) -> anyhow::Result<()> {
    let keys = store.get(shared_keys::KEY).await.context("the shared keys cannot be read from the storage")?.0;
    anyhow::ensure!(keys.is_some(), "{NO_DATA}: the {place} has no keys of one");
    Ok(())
}

/// Loads the keys, which servers on the same storage share, and a certificate for the addresses of this server.
async fn certificates(
    options: &Options,
    store: &dyn Store,
    address: SocketAddr,
    peer_address: Option<&str>,
) -> anyhow::Result<Certificates> {
    let directory = options.data_dir.join("pki");
    if matches!(options.storage, Storage::Etcd(_)) {
        shared_keys::settle(store, &directory, jiff::Timestamp::now()).await?;
    }
    let mut names = options.names.clone();
    let host = peer_address.and_then(|peer| peer.rsplit_once(':')).map(|(host, _)| host.trim_matches(['[', ']']));
    names.extend(host.map(str::to_owned));
    let service_address = IpAddr::V4(options.service_range.first());
    Certificates::ensure(&directory, (address, service_address), &names, options.leaf_validity)
}

fn server_config(
    options: &Options,
    audit_webhook: Option<Arc<AuditWebhook>>,
    (more_kinds, admission, component_metrics): (Vec<Kind>, Chain, Registry),
    certificates: &Certificates,
    store: Arc<dyn Store>,
    stop: CancellationToken,
) -> anyhow::Result<ServerConfig> {
    let audit_file = match &options.audit_log {
        Some(path) => Some(
            LogFile::open(path, options.audit_rotation)
                .with_context(|| format!("cannot write the audit log {}", path.display()))?,
        ),
        None => None,
    };
    let audit = match audit_file.is_some() || audit_webhook.is_some() {
        true => Audit::to(options.audit_policy.clone(), audit_file, audit_webhook),
        false => Audit::off(),
    };
    for name in options.admission_on.iter().filter(|name| !admission.has(name)) {
        tracing::warn!(name, "--enable-admission-plugins names a plugin this server does not have; it has no effect");
    }
    Ok(ServerConfig {
        store,
        kinds: [kinds::builtin(), more_kinds].concat(),
        auth: callers(options, certificates)?,
        admission: admission.without(&options.admission_off).map_err(anyhow::Error::msg)?,
        aggregator: Aggregator::new(certificates.front_proxy_identity.clone()),
        audit,
        limits: options.limits,
        version: options.version.clone(),
        event_ttl: options.event_ttl,
        addresses: options.addresses,
        component_metrics,
        stop,
    })
}

/// Configures authentication: client certificates, ServiceAccount tokens, the front proxy, OIDC and static tokens.
fn callers(options: &Options, certificates: &Certificates) -> anyhow::Result<Auth> {
    let front_proxy = ClientTrust::new(std::slice::from_ref(certificates.front_proxy.certificate()))?;
    let signer = JwtSigner::new(certificates.service_account_key.clone());
    let authorizers = match &options.authorization_config {
        Some(path) => config_files::authorization(path)?,
        None => options.authorizers.clone(),
    };
    let auth = Auth::new(AuthConfig {
        client_ca: certificates.client_trust.clone(),
        front_proxy: Some(FrontProxyConfig { ca: Arc::new(front_proxy), allowed_names: Vec::new() }),
        service_accounts: ServiceAccountConfig::new(SERVICE_ACCOUNT_ISSUER, signer),
        oidc: options.oidc.clone(),
        static_tokens: options.static_tokens.clone(),
        issued_tokens: options.issued_tokens.clone(),
        token_webhook: options.token_webhook.clone().map(|(endpoint, kept)| TokenWebhook::new(endpoint, kept)),
        authorizers,
        anonymous: AnonymousAccess::of_flag(options.anonymous),
    });
    if let Some(path) = &options.authentication_config {
        auth.configure(config_files::authentication(path)?);
    }
    Ok(auth)
}

/// Serves metrics and health checks over plain HTTP; `/readyz` fails until the server is ready.
async fn listen_plain(options: &Options, server: &Arc<Server>) -> anyhow::Result<()> {
    for (address, paths) in &options.plain_listeners {
        let bound = TcpListener::bind(address).await;
        let tcp = bound.with_context(|| format!("cannot listen on {address} for metrics or health checks"))?;
        tracing::info!(address = %tcp.local_addr()?, ?paths, "serving plain HTTP without credentials");
        tokio::spawn(serve_plain(server.clone(), tcp, *paths));
    }
    Ok(())
}

fn count_dropped_events(server: &Server, webhook: &Arc<AuditWebhook>) {
    let registry = &server.metrics.components;
    let help = "Audit events that the webhook did not get since the start.";
    let dropped = registry.gauge("flotilla_audit_webhook_dropped_events", &[], help);
    let webhook = Arc::clone(webhook);
    registry.before_render(move || dropped.set(&[], webhook.dropped() as f64));
}

/// Shows the certificates of files to clients, and follows the files.
fn provide_certificates(tls: &TlsOptions, certificates: &Certificates, stop: &CancellationToken) -> anyhow::Result<()> {
    let files = tls.files();
    if files.is_empty() {
        return Ok(());
    }
    certificates.resolver.provide(&tls.load()?, OWN_NAME);
    let (tls, resolver) = (tls.clone(), certificates.resolver.clone());
    let apply = move || tls.load().map(|provided| resolver.provide(&provided, OWN_NAME));
    tokio::spawn(follow_files("the server certificate", files, apply, stop.clone()));
    Ok(())
}

/// Returns all admission steps in the order they run.
fn admission_steps(range: ServiceRange, judges: Vec<Box<dyn Admission>>, last: Vec<Box<dyn Admission>>) -> Chain {
    let mut steps: Vec<Box<dyn Admission>> = vec![
        Box::new(NamespaceLifecycle),
        Box::new(LimitRanger),
        Box::new(ServiceAccountDefaults),
        Box::new(PodSecurity),
        Box::new(MutatingPolicies::default()),
        Box::new(MutatingWebhooks::default()),
        Box::new(DefaultIngressClass),
        Box::new(ServiceAddresses { range }),
        Box::new(EscalationCheck),
        Box::new(ParamAccess),
        Box::new(CertificateApproval),
        Box::new(CertificateSigning),
        Box::new(CertificateSubjectRestriction),
    ];
    steps.extend(judges);
    steps.push(Box::new(ValidatingPolicies::default()));
    steps.push(Box::new(ValidatingWebhooks::default()));
    steps.extend(last);
    // Last, so that a write that another step refuses uses no quota.
    steps.push(Box::new(Quotas));
    Chain::new(steps)
}

async fn publish_trust(server: &Arc<Server>, certificates: &Certificates) -> anyhow::Result<()> {
    let (client_ca, front_proxy_ca) = (certificates.ca_pem(), certificates.front_proxy.certificate().to_pem());
    let trust = PublishedTrust {
        client_ca: &client_ca,
        front_proxy_ca: &front_proxy_ca,
        front_proxy_names: &["front-proxy-client"],
    };
    let published = bootstrap::publish_trust(server.write_scope(), &trust).await;
    published.map_err(|status| anyhow::anyhow!("the API server cannot start: {status}"))
}

/// Replaces a wildcard address by loopback, for clients on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    SocketAddr::new([127, 0, 0, 1].into(), address.port())
}
