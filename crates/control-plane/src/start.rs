//! Starts and stops a control plane: an API server with Karmada's kinds, and the components that work on its objects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::cluster::CLUSTERS;
use api_host::{Additions, ApiHost};
use apiserver::admission::claim_resize::ClaimResize;
use apiserver::admission::default_tolerations::DefaultTolerations;
use apiserver::admission::priority::Priorities;
use apiserver::admission::runtime_class::RuntimeClasses;
use apiserver::admission::storage_class::DefaultStorageClass;
use apiserver::server::{Handlers, Server};
use apiserver::usage::UsageApi;
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::{ClusterClient, MemberClients, User};
use estimator::server::{EstimatorDeps, EstimatorServer};
use explain::Explainer;
use member_sync::gate::Gate;
use metrics::Registry;
use metrics_adapter::MetricsAdapter;
use plane_api::admission::agents::AgentRestriction;
use plane_api::admission::cluster_secrets::ClusterSecretAccess;
use plane_api::admission::karmada;
use plane_api::admission::registry_stores::RegistryStoreAccess;
use plane_api::admission::safe_mode::SafeModeStep;
use plane_api::cluster_proxy::ClusterProxy;
use plane_api::cluster_proxy::peers::{PeerEndpoint, Peers};
use plane_api::cluster_proxy::tunnels::{TunnelEndpoint, Tunnels};
use plane_api::explaining::Explaining;
use plane_api::member_capacity::{self, CapacityReports};
use plane_api::member_metrics::{CustomMetrics, ExternalMetrics, FleetUsage};
use plane_api::pod_commands::PodCommands;
use plane_api::safe_mode::{self, SafeModeConfirm, SafeModeState};
use plane_api::searching::{PlaneClients, Searching};
use plane_api::timeline::PropagationTimeline;
use plane_metrics::PlaneMetrics;
use plane_state::Decisions;
use plane_state::MemberCapacity;
use plane_state::Propagations;
use plane_state::SafeMode;
use profiling::ProfileEndpoint;
use reconcile::{Mirrors, SystemClock};
use search::Search;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use web_console::activity::RecentActivity;
use web_console::bindings::BindingViews;
use web_console::components::RunningComponents;
use web_console::endpoints::{ConsolePages, ConsoleTickets};
use web_console::history::MetricsHistory;
use web_console::namespaces::OwnNamespaces;
use web_console::rows::SortedRows;
use web_console::secret_keys::SecretKeys;
use web_console::{SessionCookies, WebConsole};

use crate::components::{self, Running, Shared};
use crate::estimation::AllMembers;
use crate::interpretation;
use crate::joining::Joining;
use crate::options::{Options, Propagation};

const FEDERATION: (&str, &[&str]) = ("system:admin", &["system:masters", "system:authenticated"]);

/// A running control plane.
pub struct ControlPlane {
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    pub server: Arc<Server>,
    host: ApiHost,
    components: Running,
}

impl ControlPlane {
    /// Returns when the API answers and is ready.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let mut options = options;
        let mode = SafeMode::unknown();
        let registry = Registry::default();
        let metrics = PlaneMetrics::new(&registry);
        let additions = additions(&options.propagation, &mode, &metrics);
        let host = ApiHost::open(&options.host, Additions { metrics: registry, ..additions }).await?;
        metrics.build(&host.server.version.git_version);
        safe_mode::begin(&host.server, &mode).await.map_err(|status| anyhow::anyhow!("{status}"))?;
        options.propagation.member_sync.gate = Gate::shared(mode.clone());
        options.propagation.member_sync.addresses = options.host.addresses;
        let client = host.client(User::new(FEDERATION.0, FEDERATION.1))?;
        let features = Arc::clone(&options.propagation.features);
        let interpreter = interpretation::start(client.clone(), &host.server, features, host.stop.clone()).await;
        let mirrors = Mirrors::new(client.clone(), host.stop.clone());
        // Search and the controllers read Clusters; started here, all share one mirror.
        let clusters = mirrors.of(&CLUSTERS.gvr());
        let tunnels = tunnels(&host, options.host.addresses);
        let members: Arc<dyn MemberClients> =
            Arc::new(PlaneClients { server: Arc::downgrade(&host.server), tunnels: Arc::clone(&tunnels) });
        let shared = Shared {
            adapter: MetricsAdapter::new(&mirrors, Arc::clone(&members)),
            client,
            mirrors,
            interpreter,
            member_capacity: MemberCapacity::default(),
            decisions: Decisions::default(),
            propagations: Propagations::default(),
            metrics,
        };
        let capacity = shared.member_capacity.clone();
        tokio::spawn(member_capacity::follow(Arc::clone(&host.server), clusters, capacity));
        serve_estimates(&shared, &options.propagation, host.stop.clone()).await?;
        let mut handlers = handlers(&host, &shared, &options.propagation, (tunnels, members), mode);
        if options.profiling {
            handlers.extensions.push(Box::new(ProfileEndpoint));
        }
        let host = host.serve(handlers)?;
        let candidate = candidate(&options, host.address)?;
        let components = components::start(&host, shared, options.propagation, candidate)?;
        let (address, kubeconfig, server) = (host.address, host.kubeconfig.clone(), host.server.clone());
        Ok(Self { address, kubeconfig, server, host, components })
    }

    /// Returns an in-process client.
    pub fn client(&self, user: User) -> anyhow::Result<ClusterClient> {
        self.host.client(user)
    }

    /// Returns when the process must be restarted, with the reason.
    pub async fn broken(&self) -> anyhow::Error {
        self.host.broken().await
    }

    /// Lets requests and writes finish, then closes the store.
    pub async fn stop(self) {
        self.components.end().await;
        self.host.stop().await;
    }
}

/// Kinds and admission steps of a control plane in addition to those of every API server.
fn additions(propagation: &Propagation, mode: &SafeMode, metrics: &PlaneMetrics) -> Additions {
    Additions {
        kinds: [validation::kinds(&propagation.features), apiserver::usage::kinds()].concat(),
        objects: plane_api::bootstrap::objects(),
        judges: vec![
            Box::new(AgentRestriction),
            Box::new(ClusterSecretAccess),
            Box::new(RegistryStoreAccess),
            Box::new(SafeModeStep { mode: mode.clone() }),
            // Off unless asked for: see `Options::new`.
            Box::new(Priorities),
            Box::new(DefaultTolerations),
            Box::new(DefaultStorageClass),
            Box::new(ClaimResize),
            // On: Karmada's API server rejects pods of a class that it does not have too.
            Box::new(RuntimeClasses),
        ],
        admission: karmada::steps(karmada::Options {
            features: Arc::clone(&propagation.features),
            allow_no_execute_taints: propagation.allow_no_execute_taint_policy,
            compile: Arc::new(interpreter::check::compile),
            metrics: metrics.webhooks.clone(),
        }),
        ..Additions::default()
    }
}

/// Starts the services behind the control plane's own endpoints and returns their handlers.
fn handlers(
    host: &ApiHost<TcpListener>,
    shared: &Shared,
    propagation: &Propagation,
    (tunnels, members): (Arc<Tunnels>, Arc<dyn MemberClients>),
    mode: SafeMode,
) -> Handlers {
    let explainer = Arc::new(Explainer::new(explain::ExplainerDeps {
        client: shared.client.clone(),
        interpreter: shared.interpreter.clone(),
        member_capacity: shared.member_capacity.clone(),
        decisions: shared.decisions.clone(),
        features: Arc::clone(&propagation.features),
        rules: explain::PropagationRules {
            skipped_apis: propagation.federation.skipped_apis.clone(),
            skipped_namespaces: propagation.federation.skipped_namespaces.clone(),
            evicts_by_taints: propagation.fleet.enable_no_execute_taint_eviction,
            default_tolerations: propagation.fleet.default_tolerations,
        },
    }));
    // Every replica answers searches, so every replica keeps read-only copies.
    let search =
        Search::new(search::SearchDeps { mirrors: shared.mirrors.clone(), members, addresses: tunnels.addresses });
    let adapter = shared.adapter.clone();
    let usage = UsageApi { source: Arc::new(FleetUsage { adapter: adapter.clone() }) };
    tokio::spawn(search.clone().run(host.stop.clone()));
    let shared_key = &host.certificates.service_account_key;
    let console = Arc::new(WebConsole::of_plane(shared.client.clone(), shared_key));
    let joining = Joining { addresses: tunnels.addresses, ca_pem: host.certificates.ca_pem() };
    let proxy = ClusterProxy { tunnels: Arc::clone(&tunnels) };
    let searching = Searching::new(search, Arc::clone(&tunnels), propagation.search_access);
    Handlers {
        connect: vec![Box::new(proxy), Box::new(searching), Box::new(usage)],
        groups: vec![Box::new(CustomMetrics { adapter: adapter.clone() }), Box::new(ExternalMetrics { adapter })],
        extensions: vec![
            Box::new(PropagationTimeline {
                explainer: Arc::clone(&explainer),
                propagations: shared.propagations.clone(),
            }),
            Box::new(Explaining { explainer, mode: mode.clone() }),
            Box::new(PodCommands),
            Box::new(SafeModeState { mode: mode.clone() }),
            Box::new(SafeModeConfirm { mode }),
            Box::new(TunnelEndpoint { tunnels: Arc::clone(&tunnels) }),
            Box::new(PeerEndpoint { tunnels }),
            Box::new(CapacityReports { clusters: shared.mirrors.of(&CLUSTERS.gvr()) }),
            Box::new(ConsolePages { console: Arc::clone(&console) }),
            Box::new(ConsoleTickets { console: Arc::clone(&console) }),
            Box::new(MetricsHistory::start(&host.server)),
            Box::new(RecentActivity),
            Box::new(SortedRows),
            Box::new(OwnNamespaces),
            Box::new(joining),
            Box::new(BindingViews),
            Box::new(SecretKeys),
            Box::new(RunningComponents),
        ],
        authenticators: vec![Box::new(SessionCookies { console })],
        ..Handlers::default()
    }
}

/// Serves the estimator service until stopped, if it is configured.
async fn serve_estimates(shared: &Shared, propagation: &Propagation, stop: CancellationToken) -> anyhow::Result<()> {
    let Some(settings) = &propagation.estimator_server else { return Ok(()) };
    let source = Arc::new(AllMembers { capacity: shared.member_capacity.clone(), client: shared.client.clone() });
    let deps = EstimatorDeps {
        source,
        clock: Arc::new(SystemClock),
        metrics: shared.metrics.estimator.clone(),
        with_quotas: propagation.features.resource_quota_estimate,
    };
    let server = EstimatorServer::bind(settings, deps).await?;
    tracing::info!(address = %server.address, "serving estimates");
    tokio::spawn(server.run(stop));
    Ok(())
}

/// An agent opens its tunnel to one replica; the others reach the member through that replica.
fn tunnels(host: &ApiHost<TcpListener>, addresses: AddressPolicy) -> Arc<Tunnels> {
    let Some(address) = &host.peer_address else { return Tunnels::alone(addresses) };
    let ca = host.certificates.ca_pem().into_bytes();
    let identity = Arc::clone(&host.certificates.front_proxy_identity);
    Tunnels::shared(&host.server, Peers { address: address.clone(), ca, identity }, addresses)
}

/// Returns the name of this process in the leader election, or `None` when its storage is not shared.
fn candidate(options: &Options, address: SocketAddr) -> anyhow::Result<Option<String>> {
    Ok(match options.host.storage {
        // Addresses and process ids repeat across machines.
        api_host::Storage::Etcd(_) => Some(format!("{address}_{}", pki::token::random_lowercase(12)?)),
        api_host::Storage::Embedded | api_host::Storage::Memory => None,
    })
}
