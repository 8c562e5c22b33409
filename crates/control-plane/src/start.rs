//! Starts and stops a control plane: store, certificates, API server, controllers, in that order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use api::capacity::Board;
use apiserver::admission::agents::AgentRestriction;
use apiserver::admission::karmada;
use apiserver::admission::limit_ranger::LimitRanger;
use apiserver::admission::namespace_lifecycle::NamespaceLifecycle;
use apiserver::admission::policies::ValidatingPolicies;
use apiserver::admission::quota::Quotas;
use apiserver::admission::service_account::ServiceAccountDefaults;
use apiserver::admission::service_ip::ServiceAddresses;
use apiserver::admission::webhooks::{MutatingWebhooks, ValidatingWebhooks};
use apiserver::admission::{Admission, Chain};
use apiserver::aggregate::Aggregator;
use apiserver::audit::Audit;
use apiserver::auth::bootstrap::{self, PublishedTrust};
use apiserver::auth::escalation::EscalationCheck;
use apiserver::auth::{Auth, AuthConfig, FrontProxyConfig, ServiceAccountConfig};
use apiserver::documents::Version;
use apiserver::http::{Listening, listen};
use apiserver::server::{Server, ServerConfig};
use explain::Explainer;
use pki::jwt::signer::JwtSigner;
use pki::tls::client_trust::ClientTrust;
use pki::tls::server::{ClientCertificates, server_config};
use scheduler::Decisions;
use store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::certificates::{Certificates, KUBECONFIG_FILE};
use crate::explaining::Explaining;
use crate::interpretation;
use crate::options::{Options, Storage};
use crate::rooms::{self, Running, Shared};

/// `iss` of ServiceAccount tokens, as in every Kubernetes cluster that was not told otherwise.
const SERVICE_ACCOUNT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A running control plane.
pub struct ControlPlane {
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    pub server: Arc<Server>,
    listening: Listening,
    rooms: Running,
    store: Arc<dyn Store>,
    stop: CancellationToken,
}

impl ControlPlane {
    /// Returns when the API answers and is ready.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&options.data_dir)
            .with_context(|| format!("cannot make the data directory {}", options.data_dir.display()))?;
        let stop = CancellationToken::new();
        let store = open_store(&options).await?;
        let listener = TcpListener::bind(options.bind).await.with_context(|| {
            format!("cannot listen on {}: choose another address with --bind, or port 0 for a free one", options.bind)
        })?;
        let address = listener.local_addr()?;
        let certificates = Arc::new(Certificates::ensure(&options.data_dir.join("pki"), address, &options.names)?);
        let url = options.advertise.clone().unwrap_or_else(|| format!("https://{}", reachable(address)));
        certificates.write_admin_kubeconfig(&options.data_dir, &url)?;

        let explaining = Explaining::default();
        let mut parts = server_parts(&options, &certificates, store.clone(), stop.clone())?;
        parts.extensions.push(Box::new(explaining.clone()));
        let server = Server::new(parts);
        server.set_address(address);
        let tls = server_config(certificates.resolver.clone(), ClientCertificates::Ask)?;
        let listening = listen(server.clone(), listener, Arc::new(tls))?;
        apiserver::prepare(&server).await.map_err(|status| anyhow::anyhow!("the API server cannot start: {status}"))?;
        let (client_ca, front_proxy_ca) = (certificates.ca_pem(), certificates.front_proxy.certificate().to_pem());
        let trust = PublishedTrust {
            client_ca: &client_ca,
            front_proxy_ca: &front_proxy_ca,
            front_proxy_names: &["front-proxy-client"],
        };
        let published = bootstrap::publish_trust(&server, &trust).await;
        published.map_err(|status| anyhow::anyhow!("the API server cannot start: {status}"))?;
        server.set_ready();
        let client = rooms::federation_client(&server)?;
        let interpreter = interpretation::start(client.clone(), &server, stop.clone()).await;
        let shared = Shared { client, interpreter, board: Board::default(), decisions: Decisions::default() };
        explaining.answer_with(Explainer::new(explain::Parts {
            client: shared.client.clone(),
            interpreter: shared.interpreter.clone(),
            board: shared.board.clone(),
            decisions: shared.decisions.clone(),
            features: Arc::clone(&options.propagation.features),
        }));
        let plane = rooms::Plane {
            shared,
            server: &server,
            certificates: &certificates,
            url: &url,
            propagation: &options.propagation,
            candidate: candidate(&options, address)?,
        };
        let rooms = rooms::start(plane)?;
        tokio::spawn(certificates.keep_fresh(options.data_dir.clone(), url, stop.clone()));
        let kubeconfig = options.data_dir.join(KUBECONFIG_FILE);
        Ok(Self { address, kubeconfig, server, listening, rooms, store, stop })
    }

    /// Lets requests and writes finish, then closes the store.
    pub async fn stop(self) {
        self.rooms.end().await;
        self.stop.cancel();
        if let Err(error) = self.listening.task.await {
            tracing::error!(%error, "the listener ended badly");
        }
        self.store.close().await;
    }
}

async fn open_store(options: &Options) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match &options.storage {
        Storage::Memory => Arc::new(store::memory::Memory::new()),
        Storage::Embedded => {
            let place = store::embedded::Options::new(options.data_dir.join("store"));
            let opened = tokio::task::spawn_blocking(move || store::embedded::Embedded::open(&place)).await?;
            Arc::new(opened.context("cannot open the store")?)
        }
        Storage::Etcd(etcd) => Arc::new(store::etcd::Etcd::connect(etcd).await.context("cannot use etcd")?),
    })
}

fn server_parts(
    options: &Options,
    certificates: &Certificates,
    store: Arc<dyn Store>,
    stop: CancellationToken,
) -> anyhow::Result<ServerConfig> {
    let audit = match &options.audit_log {
        Some(path) => Audit::to_file(path, options.audit_level)
            .with_context(|| format!("cannot write the audit log {}", path.display()))?,
        None => Audit::off(),
    };
    Ok(ServerConfig {
        store,
        kinds: [kinds::builtin(), validation::kinds(&options.propagation.features)].concat(),
        auth: callers(options, certificates)?,
        admission: admission_steps(options).without(&options.admission_off).map_err(anyhow::Error::msg)?,
        aggregator: Aggregator::new(certificates.front_proxy_identity.clone()),
        audit,
        limits: options.limits,
        version: Version::default(),
        event_ttl: options.event_ttl,
        connect_handlers: vec![Box::new(apiserver::cluster_proxy::ClusterProxy)],
        extensions: Vec::new(),
        stop,
    })
}

/// Who is believed: holders of our certificates, of our ServiceAccount tokens, and what the front proxy says.
fn callers(options: &Options, certificates: &Certificates) -> anyhow::Result<Auth> {
    let front_proxy = ClientTrust::new(std::slice::from_ref(certificates.front_proxy.certificate()))?;
    let signer = JwtSigner::new(certificates.service_account_key.clone());
    Ok(Auth::new(AuthConfig {
        client_ca: certificates.client_trust.clone(),
        front_proxy: Some(FrontProxyConfig { ca: Arc::new(front_proxy), allowed_names: Vec::new() }),
        service_accounts: ServiceAccountConfig::new(SERVICE_ACCOUNT_ISSUER, signer),
        oidc: options.oidc.clone(),
        static_tokens: options.static_tokens.clone(),
        anonymous: options.anonymous,
    }))
}

/// Every admission step, in the order they run.
fn admission_steps(options: &Options) -> Chain {
    let karmada = karmada::steps(karmada::Options {
        features: Arc::clone(&options.propagation.features),
        allow_no_execute_taints: options.propagation.allow_no_execute_taint_policy,
        compile: Arc::new(interpreter::check::compile),
    });
    let mut steps: Vec<Box<dyn Admission>> = vec![
        Box::new(NamespaceLifecycle),
        Box::new(LimitRanger),
        Box::new(ServiceAccountDefaults),
        Box::new(MutatingWebhooks::default()),
        Box::new(ServiceAddresses),
        Box::new(EscalationCheck),
        Box::new(AgentRestriction),
        Box::new(ValidatingPolicies::default()),
        Box::new(ValidatingWebhooks::default()),
    ];
    steps.extend(karmada);
    // Last, so that nothing is booked for a write another step refuses.
    steps.push(Box::new(Quotas));
    Chain::new(steps)
}

/// What this process is called among those that share its storage. Storage of its own is shared with nobody.
fn candidate(options: &Options, address: SocketAddr) -> anyhow::Result<Option<String>> {
    Ok(match options.storage {
        // Addresses and process ids repeat across machines.
        Storage::Etcd(_) => Some(format!("{address}_{}", pki::token::random_lowercase(12)?)),
        Storage::Embedded | Storage::Memory => None,
    })
}

/// An address clients on this machine can use: a wildcard is no destination.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    SocketAddr::new([127, 0, 0, 1].into(), address.port())
}
