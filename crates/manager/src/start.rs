//! Starts and stops the manager: its API server, its controllers and the instances.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api_host::{Additions, ApiHost, Storage};
use apiserver::auth::TokenRules;
use apiserver::server::Handlers;
use cluster_client::{ClusterClient, User};
use core_controllers::ControllerClients;
use instances::data_dir::InstanceDirs;
use instances::directory::InstanceDirectory;
use instances::etcd_location::EtcdLocation;
use instances::import::EndpointPolicy;
use instances::lifecycle::{Lifecycle, LifecycleDeps};
use instances::plane::PlaneFactory;
use instances::replica::{OtherReplicas, ReplicaContext, ReplicaName};
use instances::running::RunningInstances;
use pki::authority::CertificateAuthority;
use reconcile::{Clock, Fence, LeaderElection, LeaderElector, SystemClock, Term, TermFence};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use web_console::activity::RecentActivity;
use web_console::components::RunningComponents;
use web_console::endpoints::{ConsolePages, ConsoleTickets};
use web_console::history::MetricsHistory;
use web_console::rows::SortedRows;
use web_console::secret_keys::SecretKeys;
use web_console::{SessionCookies, WebConsole};

use crate::access::Rights;
use crate::accounts::Accounts;
use crate::admission::{GrantRules, InstanceRules, InventoryRules};
use crate::api::{ApiGateway, ManagerApi};
use crate::audit_trail::AuditTrail;
use crate::binding_intake::{BindingIntake, SignedPushEndpoint};
use crate::clusters::ClusterImport;
use crate::endpoints::{KubeconfigEndpoint, LoginEndpoint};
use crate::instance_names::InstanceNames;
use crate::operations::Operations;
use crate::options::ManagerOptions;
use crate::peer_mount::PeerMount;
use crate::planes::Planes;
use crate::proxy::InstanceProxy;
use crate::registry::InstanceRegistry;
use crate::replicas::ManagerReplicas;
use crate::revocation::Revocations;
use crate::tokens::AccessTokens;
use crate::webhooks::Webhooks;
use crate::{bootstrap, replicas, role_sync};

const CONTROLLERS: (&str, &[&str]) = ("flotilla-manager", &["system:masters", "system:authenticated"]);
/// Held by the active manager among those that share a storage.
const LEASE: (&str, &str) = ("karmada-system", "flotilla-manager");

/// The key of page tokens is derived for this purpose, so that every manager on the same storage has it.
const PAGE_KEY_PURPOSE: &[u8] = b"flotilla manager page tokens";

/// A running manager.
pub struct Manager {
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Clients, the instances and the operations on them.
    pub operations: Arc<Operations>,
    lifecycle: Lifecycle,
    host: ApiHost,
    stop: CancellationToken,
    controllers: JoinHandle<()>,
}

impl Manager {
    /// Returns when the API answers. Instances start in the background.
    pub async fn start(options: ManagerOptions) -> anyhow::Result<Self> {
        let ManagerOptions { mut host, plane_flags, server_command, clusters, grpc_reflection, backups, .. } = options;
        let names = instance_names(options.instances_domain.as_deref(), &mut host)?;
        let (endpoints, shares_storage) = (clusters.endpoints, matches!(host.storage, Storage::Etcd(_)));
        let factory = Planes { parse: plane_flags, server_command, backups: backups.clone() };
        let factory: Arc<dyn PlaneFactory> = Arc::new(factory);
        let tokens = Arc::new(AccessTokens::default());
        host.issued_tokens = Some(tokens.clone());
        let dirs = InstanceDirs::new(&host.data_dir);
        let open = ApiHost::open(&host, additions(&factory, &host.storage)).await?;
        let client = open.client(User::new(CONTROLLERS.0, CONTROLLERS.1))?;
        let stop = CancellationToken::new();
        let replica_context =
            ReplicaContext { replicas: other_replicas(&open, &host.data_dir)?, terms: TermFence::default() };
        let rights = Rights::start(&client, &stop);
        tokens.connect(client.clone(), rights.clone());
        let lifecycle =
            Lifecycle::new(lifecycle_deps(&open, &host, (&client, factory), endpoints, &replica_context), &stop);
        let (audit, revocations) = (Arc::new(AuditTrail::default()), Revocations::start(&rights, &client, &stop));
        let operations = Arc::new(Operations {
            server: Arc::clone(&open.server),
            url: open.url.clone(),
            ca_pem: open.certificates.ca_pem(),
            directory: InstanceDirectory::new(lifecycle.clone()),
            rights: rights.clone(),
            tokens,
            endpoints,
            names,
        });
        let proxy = proxy(&operations, &audit, &revocations);
        // Writes of the controllers end with the term of this replica.
        let leading = replica_context.terms.guard(&client);
        let registry = InstanceRegistry::new(&leading, lifecycle.karmadas(), rights.workspaces(), &stop);
        let webhooks = Webhooks::new(&client, &registry.registrations, endpoints, &stop);
        let shared_key = &open.certificates.service_account_key;
        let api = ManagerApi {
            operations: Arc::clone(&operations),
            accounts: Arc::new(Accounts::new(client.clone(), rights.clone())),
            system: client.clone(),
            repeated: Default::default(),
            page_key: pki::token::hmac_sha256(shared_key.to_pem().as_bytes(), PAGE_KEY_PURPOSE),
            oidc_issuer: host.oidc.as_ref().map(|oidc| issuer_of(&oidc.rules)),
            audit,
            dirs,
            backups,
            backup_turn: Default::default(),
            registrations: registry.registrations.clone(),
            webhooks: webhooks.clone(),
            console: Arc::new(WebConsole::of_manager(client.clone(), shared_key)),
            intake: BindingIntake::new(&client, &webhooks),
        };
        let handlers = handlers(&open, Arc::new(api), (grpc_reflection, revocations), proxy)?;
        let serving = open.serve(handlers)?;
        let import_clients = (&client, &replica_context.terms);
        let clusters = ClusterImport::new(import_clients, operations.directory.clone(), clusters, &stop);
        let work = Work {
            lifecycle: lifecycle.clone(),
            rights: rights.clone(),
            clusters,
            registry,
            webhooks,
            client: leading,
            terms: replica_context.terms,
        };
        let controllers = start_controllers(&serving, work, (shares_storage, client), &stop)?;
        rights.synced().await;
        let kubeconfig = serving.kubeconfig.clone();
        Ok(Self { address: serving.address, kubeconfig, operations, lifecycle, host: serving, stop, controllers })
    }

    /// Returns when the process must be restarted, with the reason.
    pub async fn broken(&self) -> anyhow::Error {
        self.host.broken().await
    }

    /// Stops the controllers, the instances of this process and the API server.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.controllers.await {
            tracing::error!(%error, "the controllers of the manager exited with an error");
        }
        self.lifecycle.stop_planes().await;
        self.host.stop().await;
    }
}

/// Reads the domain of instances and adds its names to the serving certificate.
fn instance_names(domain: Option<&str>, host: &mut api_host::Options) -> anyhow::Result<Option<InstanceNames>> {
    let names = domain.map(InstanceNames::below).transpose().map_err(anyhow::Error::msg)?;
    host.names.extend(names.as_ref().map(InstanceNames::wildcard));
    Ok(names)
}

/// The kinds, objects and rules of the manager's API.
fn additions(factory: &Arc<dyn PlaneFactory>, storage: &Storage) -> Additions {
    let own = match storage {
        Storage::Etcd(etcd) => Some(EtcdLocation::new(&etcd.endpoints, &etcd.prefix)),
        Storage::Embedded | Storage::Memory => None,
    };
    Additions {
        kinds: manager_kinds::kinds(),
        objects: bootstrap::objects(),
        admission: vec![
            Box::new(InstanceRules { factory: Arc::clone(factory), own }),
            Box::new(InventoryRules),
            Box::new(GrantRules),
        ],
        ..Additions::default()
    }
}

/// The paths of the manager besides its Kubernetes API.
fn handlers<L>(
    open: &ApiHost<L>,
    api: Arc<ManagerApi>,
    (reflects, revocations): (bool, Revocations),
    proxy: InstanceProxy,
) -> anyhow::Result<Handlers> {
    let (console, history) = (Arc::clone(&api.console), MetricsHistory::start(&open.server));
    let (operations, accounts) = (Arc::clone(&api.operations), Arc::clone(&api.accounts));
    Ok(Handlers {
        extensions: vec![
            Box::new(KubeconfigEndpoint { operations: Arc::clone(&operations) }),
            Box::new(LoginEndpoint { operations, accounts }),
            Box::new(SignedPushEndpoint { intake: api.intake.clone() }),
            Box::new(ApiGateway::new(api, reflects, revocations)?),
            Box::new(ConsolePages { console: Arc::clone(&console) }),
            Box::new(ConsoleTickets { console: Arc::clone(&console) }),
            Box::new(history),
            Box::new(RecentActivity),
            Box::new(SortedRows),
            Box::new(SecretKeys),
            Box::new(RunningComponents),
        ],
        authenticators: vec![Box::new(SessionCookies { console })],
        mounts: vec![Box::new(PeerMount { directory: proxy.directory.clone() }), Box::new(proxy)],
        ..Handlers::default()
    })
}

fn lifecycle_deps<L>(
    open: &ApiHost<L>,
    host: &api_host::Options,
    (client, factory): (&ClusterClient, Arc<dyn PlaneFactory>),
    endpoints: EndpointPolicy,
    replica_context: &ReplicaContext,
) -> LifecycleDeps {
    LifecycleDeps {
        client: client.clone(),
        factory,
        dirs: InstanceDirs::new(&host.data_dir),
        manager_url: open.url.clone(),
        manager_ca_pem: open.certificates.ca_pem(),
        bind: host.bind.ip(),
        endpoints,
        running: Arc::new(RunningInstances::default()),
        replica_context: replica_context.clone(),
    }
}

fn proxy(operations: &Operations, audit: &Arc<AuditTrail>, revocations: &Revocations) -> InstanceProxy {
    InstanceProxy {
        directory: operations.directory.clone(),
        rights: operations.rights.clone(),
        tokens: Arc::clone(&operations.tokens),
        audit: Arc::clone(audit),
        revocations: revocations.clone(),
        names: operations.names.clone(),
    }
}

/// Returns the other replicas, if other managers can use the same storage.
fn other_replicas<L>(open: &ApiHost<L>, data_dir: &Path) -> anyhow::Result<Option<Arc<dyn OtherReplicas>>> {
    let Some(address) = &open.peer_address else { return Ok(None) };
    let own = ReplicaName { name: replicas::name_of(data_dir)?, address: address.clone() };
    let authority = &open.certificates.authority;
    let authority = CertificateAuthority::new(authority.certificate().clone(), authority.key().clone())?;
    let ca_pem = open.certificates.ca_pem();
    Ok(Some(Arc::new(ManagerReplicas { own, ca_pem, authority: Arc::new(authority), certificate: Default::default() })))
}

/// The controllers of the manager.
struct Work {
    lifecycle: Lifecycle,
    rights: Rights,
    clusters: ClusterImport,
    registry: InstanceRegistry,
    webhooks: Webhooks,
    /// Refuses writes outside of terms.
    client: ClusterClient,
    terms: TermFence,
}

/// Runs the controllers; with shared storage only on the holder of the lease. The life cycle and the statistics run on every
/// replica: each has the data of some instances.
fn start_controllers(
    host: &ApiHost,
    work: Work,
    (shares_storage, elected): (bool, ClusterClient),
    stop: &CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (clients, parameters) = host.controllers(Arc::clone(&clock))?;
    let Work { lifecycle, rights, clusters, registry, webhooks, client, terms } = work;
    let statistics = tokio::spawn(instances::statistics::run(lifecycle.clone(), stop.clone()));
    let instances = tokio::spawn(lifecycle.run(stop.clone()));
    let run = move |term: Term| {
        let cancel = term.cancel;
        terms.begin(term.fence.clone());
        let core = core_controllers::run(within(&clients, &term.fence), parameters.clone(), cancel.clone());
        let roles = role_sync::run(client.clone(), rights.clone(), cancel.clone());
        let (registry, webhooks) = (registry.clone().run(cancel.clone()), webhooks.clone().run(cancel.clone()));
        let inventory = clusters.clone().run(cancel);
        let terms = terms.clone();
        async move {
            let mut running = tokio::task::JoinSet::new();
            running.spawn(core);
            running.spawn(roles);
            running.spawn(inventory);
            running.spawn(registry);
            running.spawn(webhooks);
            while let Some(ended) = running.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "a controller of the manager exited with an error");
                }
            }
            terms.end();
        }
    };
    let stop = stop.clone();
    if !shares_storage {
        let term = Term { cancel: stop, fence: Fence::unlimited() };
        let controllers = run(term);
        return Ok(tokio::spawn(async move { drop(tokio::join!(controllers, instances, statistics)) }));
    }
    let candidate = format!("{}_{}", host.address, pki::token::random_lowercase(12)?);
    let elector = LeaderElector::new(LeaderElection::new(LEASE.0, LEASE.1, &candidate), elected, clock);
    Ok(tokio::spawn(async move { drop(tokio::join!(elector.run_terms(stop, run), instances, statistics)) }))
}

/// Returns clients that write nothing after the term.
fn within(clients: &ControllerClients, fence: &Fence) -> ControllerClients {
    let (acting, fence) = (Arc::clone(&clients.controller), fence.clone());
    ControllerClients {
        manager: fence.guard(&clients.manager),
        controller: Arc::new(move |name| fence.guard(&acting(name))),
    }
}

fn issuer_of(rules: &TokenRules) -> String {
    match rules {
        TokenRules::Flags(rules) => rules.issuer.clone(),
        TokenRules::Configured(rules) => rules.issuer.clone(),
    }
}
