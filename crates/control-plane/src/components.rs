//! Runs everything that works on a plane's objects against its own API server, in process.

use std::sync::Arc;
use std::time::Duration;

use api_host::ApiHost;
use cluster_client::remote::gate::Gate;
use cluster_client::{ClusterClient, Endpoint};
use core_controllers::{ControllerClients, ControllerParameters};
use member_sync::push::Connect;
use metrics::Metrics;
use plane_state::Decisions;
use plane_state::MemberCapacity;
use reconcile::{Clock, Fence, LeaderElection, LeaderElector, SystemClock};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::options::Propagation;

/// Held by the one process that works, of those that share a storage.
const LEASE: (&str, &str) = ("kube-system", "flotilla-controllers");

/// How long work under way may take when the plane stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long giving the lease up may take after that.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(2);

/// What components and those who ask questions both use, whether this process works or waits for its turn.
#[derive(Clone)]
pub struct Shared {
    pub client: ClusterClient,
    pub interpreter: interpreter::Shared,
    pub member_capacity: MemberCapacity,
    pub decisions: Decisions,
    pub metrics: Metrics,
}

/// Components at work.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Lets work under way finish. To be called while the API still answers, or it would take its end for a fault.
    pub async fn end(self) {
        self.stop.cancel();
        match tokio::time::timeout(END_WAIT_MAX + RELEASE_WAIT_MAX, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the controllers ended badly"),
            Err(_) => tracing::warn!("the controllers did not end in time"),
        }
    }
}

/// `candidate` is this process among those that share the storage; `None` when it has the storage for itself.
pub fn start(
    host: &ApiHost,
    shared: Shared,
    propagation: Propagation,
    candidate: Option<String>,
) -> anyhow::Result<Running> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (clients, parameters) = host.controllers(Arc::clone(&clock))?;
    let parameters = ControllerParameters { agent_approval: propagation.agent_approval, ..parameters };
    let connect = Arc::new(member_sync::connect::connect);
    let components = Components { clients, shared, parameters, propagation, clock, connect };
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    let task = tokio::spawn(async move {
        let Some(candidate) = candidate else {
            return components.run_anew(cancel).await;
        };
        let election = LeaderElection::new(LEASE.0, LEASE.1, &candidate);
        let elector = LeaderElector::new(election, components.clients.manager.clone(), Arc::clone(&components.clock));
        elector.run_terms(cancel, |term| components.within(&term.fence).run_anew(term.cancel)).await;
    });
    Ok(Running { stop, task })
}

/// Everything one term of work is started from.
#[derive(Clone)]
struct Components {
    clients: ControllerClients,
    shared: Shared,
    parameters: ControllerParameters,
    propagation: Propagation,
    clock: Arc<dyn Clock>,
    /// Makes clients of members.
    connect: Arc<Connect>,
}

impl Components {
    /// The same, writing nothing to the plane or to a member once the term is over.
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

    /// Runs until cancelled, and begins anew when safe mode ends: what was refused until then would wait for its next try for up
    /// to a quarter of an hour.
    async fn run_anew(self, cancel: CancellationToken) {
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

    /// Runs until cancelled, and then for as long as work under way may take.
    async fn run(self, cancel: CancellationToken) {
        let mut running = JoinSet::new();
        running.spawn(core_controllers::run(self.clients.clone(), self.parameters.clone(), cancel.clone()));
        let Shared { client, interpreter, member_capacity, decisions, metrics } = self.shared;
        let (features, clock) = (Arc::clone(&self.propagation.features), Arc::clone(&self.clock));
        running.spawn(fleet::run(
            fleet::Parts {
                client: client.clone(),
                features: features.clone(),
                clock: clock.clone(),
                metrics: metrics.clone(),
                settings: self.propagation.fleet.clone(),
            },
            cancel.clone(),
        ));
        running.spawn(federation::run(
            federation::Parts {
                client: client.clone(),
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
                client: client.clone(),
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
            member_sync::push::Parts { client, interpreter, member_capacity, features, clock, metrics, settings };
        running.spawn(member_sync::push::run_with(parts, self.connect, cancel.clone()));
        finish(running, cancel).await;
    }
}

/// Waits for all parts. Once cancelled they have so long; what hangs then must not keep the lease from the next.
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
                tracing::warn!(parts = running.len(), "some of the controllers did not end in time and are cut off");
                return running.shutdown().await;
            }
        };
        match ended {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "a part of the control plane ended badly"),
        }
    }
}
