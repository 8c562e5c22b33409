//! Runs the components of a control plane against its own API server, in process.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api_host::ApiHost;
use cluster_client::remote::gate::Gate;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use core_controllers::{ControllerClients, ControllerParameters};
use federation::Timeline;
use member_sync::push::Connect;
use membership::MemberAccess;
use membership::cluster_api::DiscoveryDeps;
use metrics_adapter::MetricsAdapter;
use plane_metrics::PlaneMetrics;
use plane_state::Decisions;
use plane_state::MemberCapacity;
use plane_state::Propagations;
use reconcile::{Clock, Fence, LeaderElection, LeaderElector, Mirrors, ReconcileError, SystemClock, Term};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::options::Propagation;

/// Held by the active replica among those that share a storage.
const LEASE: (&str, &str) = ("kube-system", "flotilla-controllers");

/// Leases of the programs whose controllers run here, which dashboards and alerts know.
const REPLACED_LEASES: [&str; 3] = ["kube-controller-manager", "karmada-controller-manager", "karmada-scheduler"];
const DESCHEDULER_LEASE: &str = "karmada-descheduler";

/// Maximum time for work in progress when the control plane stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum time to release the lease after that.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Clients and state shared by components and request handlers, on the active replica and on others.
#[derive(Clone)]
pub struct Shared {
    pub client: ClusterClient,
    /// Mirrors that every replica has, also without the lease.
    pub mirrors: Mirrors,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub member_capacity: MemberCapacity,
    pub decisions: Decisions,
    pub propagations: Propagations,
    pub metrics: PlaneMetrics,
    /// Reads metrics of members.
    pub adapter: MetricsAdapter,
}

/// Running components.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Lets work in progress finish. Call it while the API server still runs, so that the last writes succeed.
    pub async fn end(self) {
        self.stop.cancel();
        match tokio::time::timeout(END_WAIT_MAX + RELEASE_WAIT_MAX, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the controllers exited with an error"),
            Err(_) => tracing::warn!("the controllers did not stop in time"),
        }
    }
}

/// `candidate` is the name of this process in the leader election; `None` when its storage is not shared.
pub fn start(
    host: &ApiHost,
    shared: Shared,
    propagation: Propagation,
    candidate: Option<String>,
) -> anyhow::Result<Running> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (clients, parameters) = host.controllers(Arc::clone(&clock))?;
    let mut parameters = ControllerParameters { agent_approval: propagation.agent_approval, ..parameters };
    if let Some(published) = &propagation.published {
        parameters.server_url.clone_from(&published.url);
        parameters.server_ca_pem.clone_from(&published.ca_pem);
    }
    let connect = Arc::new(member_sync::connect::connect);
    let background = propagation.background.clone().unwrap_or_else(Handle::current);
    follow_propagations(&background, &shared, Arc::clone(&clock), host.stop.clone());
    let leader = shared.metrics.leader.clone();
    let descheduler = propagation.scheduling.descheduling.map(|_| DESCHEDULER_LEASE);
    leader.compete(&REPLACED_LEASES.into_iter().chain(descheduler).collect::<Vec<_>>());
    let components = Components { clients, shared, parameters, propagation, clock, connect };
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    let Some(candidate) = candidate else {
        let stopped = stop.clone();
        leader.leads_while(move || !stopped.is_cancelled());
        return Ok(Running { stop, task: background.spawn(components.run_restarting(cancel)) });
    };
    // The election runs among the requests: a busy plane must not lose its lease.
    let task = tokio::spawn(async move {
        let election = LeaderElection::new(LEASE.0, LEASE.1, &candidate);
        let elector = LeaderElector::new(election, components.clients.manager.clone(), Arc::clone(&components.clock));
        let run_term = |term: Term| {
            let fence = term.fence.clone();
            leader.leads_while(move || fence.is_open());
            let running = background.spawn(components.within(&term.fence).run_restarting(term.cancel));
            async move {
                if let Err(error) = running.await {
                    tracing::error!(%error, "the controllers exited with an error");
                }
            }
        };
        elector.run_terms(cancel, run_term).await;
    });
    Ok(Running { stop, task })
}

/// Records the steps of propagations on every replica, from mirrors that the controllers share.
fn follow_propagations(background: &Handle, shared: &Shared, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let _in_background = background.enter();
    let timeline = Timeline::new(&shared.mirrors, clock, shared.propagations.clone());
    tokio::spawn(timeline.record(stop));
}

/// The inputs of one leader term.
#[derive(Clone)]
struct Components {
    clients: ControllerClients,
    shared: Shared,
    parameters: ControllerParameters,
    propagation: Propagation,
    clock: Arc<dyn Clock>,
    /// Creates clients of members.
    connect: Arc<Connect>,
}

impl Components {
    /// Returns a copy that writes nothing to the control plane or to a member after the term has ended.
    fn within(&self, fence: &Fence) -> Self {
        let mut components = self.clone();
        components.shared.client = fence.guard(&self.shared.client);
        let (acting, of_controllers) = (Arc::clone(&self.clients.controller), fence.clone());
        components.clients = ControllerClients {
            manager: fence.guard(&self.clients.manager),
            controller: Arc::new(move |name| of_controllers.guard(&acting(name))),
        };
        let of_members = fence.clone();
        components.connect = Arc::new(move |name, spec, secret, settings| {
            let mut config = member_sync::connect::remote_config(name, spec, secret, settings)?;
            let fence = of_members.clone();
            config.gate = Some(Gate::new(move || fence.is_open()));
            Ok(of_members.guard(&ClusterClient::connect(Endpoint::Remote(config))?))
        });
        components
    }

    /// Runs until cancelled and restarts once when safe mode ends: writes that were refused until then would otherwise wait up to
    /// 15 minutes for their next retry.
    async fn run_restarting(self, cancel: CancellationToken) {
        let gate = self.propagation.member_sync.gate.clone();
        let first = cancel.child_token();
        let mut running = std::pin::pin!(self.clone().run(first.clone()));
        tokio::select! {
            () = &mut running => return,
            () = gate.ended() => first.cancel(),
        }
        running.await;
        if !cancel.is_cancelled() {
            self.run(cancel).await;
        }
    }

    /// Runs until cancelled, then until work in progress has finished.
    async fn run(self, cancel: CancellationToken) {
        let mut running = JoinSet::new();
        running.spawn(core_controllers::run(self.clients.clone(), self.parameters.clone(), cancel.clone()));
        let Shared { client, mirrors, interpreter, member_capacity, decisions, metrics, adapter, .. } = self.shared;
        // One mirror per resource for all components. They end with the term.
        let mirrors = mirrors.within(client, cancel.clone());
        let (features, clock) = (Arc::clone(&self.propagation.features), Arc::clone(&self.clock));
        running.spawn(fleet::run(
            fleet::FleetDeps {
                mirrors: mirrors.clone(),
                features: features.clone(),
                clock: clock.clone(),
                metrics: metrics.clone(),
                settings: self.propagation.fleet.clone(),
            },
            cancel.clone(),
        ));
        running.spawn(services::run(
            services::ServiceDeps {
                mirrors: mirrors.clone(),
                features: features.clone(),
                clock: clock.clone(),
                metrics: metrics.clone(),
                settings: self.propagation.services.clone(),
            },
            cancel.clone(),
        ));
        if self.propagation.fleet.controllers.is_enabled(autoscaling::FEDERATED_HPA_CONTROLLER) {
            let deps = autoscaling::AutoscalingDeps {
                mirrors: mirrors.clone(),
                adapter,
                clock: clock.clone(),
                metrics: metrics.clone(),
                settings: self.propagation.autoscaling.clone(),
            };
            running.spawn(autoscaling::run(deps, cancel.clone()));
        }
        running.spawn(discover_clusters(self.propagation.cluster_api.clone(), mirrors.clone(), cancel.clone()));
        running.spawn(federation::run(
            federation::FederationDeps {
                mirrors: mirrors.clone(),
                interpreter: interpreter.clone(),
                features: features.clone(),
                clock: clock.clone(),
                metrics: metrics.clone(),
                settings: self.propagation.federation.clone(),
            },
            cancel.clone(),
        ));
        running.spawn(binding_scheduling::run(
            binding_scheduling::SchedulingDeps {
                mirrors: mirrors.clone(),
                member_capacity: member_capacity.clone(),
                decisions,
                features: features.clone(),
                clock: clock.clone(),
                metrics: metrics.clone(),
                settings: self.propagation.scheduling.clone(),
            },
            cancel.clone(),
        ));
        let settings = self.propagation.member_sync.clone();
        let parts =
            member_sync::push::PushDeps { mirrors, interpreter, member_capacity, features, clock, metrics, settings };
        running.spawn(member_sync::push::run_with(parts, self.connect, cancel.clone()));
        finish(running, cancel).await;
    }
}

/// Joins the clusters that Cluster API provisions, if a management cluster is configured.
async fn discover_clusters(management: Option<RemoteConfig>, mirrors: Mirrors, cancel: CancellationToken) {
    let Some(management) = management else { return };
    let management = match ClusterClient::connect(Endpoint::Remote(management)) {
        Ok(management) => management,
        Err(error) => return tracing::error!(%error, "--cluster-api-kubeconfig cannot be used"),
    };
    let deps = DiscoveryDeps {
        control_plane: mirrors.client().clone(),
        clusters: mirrors.of(&CLUSTERS.gvr()),
        management,
        connect: Arc::new(|remote| MemberAccess::new(remote, None).map_err(ReconcileError::other)),
    };
    membership::cluster_api::run(deps, cancel).await;
}

/// Waits for all components. After cancellation the wait is bounded, so that a stuck one does not delay the next leader.
async fn finish(mut running: JoinSet<()>, cancel: CancellationToken) {
    let overdue = async {
        cancel.cancelled().await;
        tokio::time::sleep(END_WAIT_MAX).await;
    };
    tokio::pin!(overdue);
    loop {
        let ended = tokio::select! {
            ended = running.join_next() => ended,
            () = &mut overdue => {
                tracing::warn!(components = running.len(), "some components did not stop in time and are aborted");
                return running.shutdown().await;
            }
        };
        match ended {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "a component of the control plane exited with an error"),
        }
    }
}
