//! Runs everything that works on a plane's objects against its own API server, in process.

use std::sync::Arc;
use std::time::Duration;

use api::capacity::Board;
use api_host::ApiHost;
use cluster_client::ClusterClient;
use controllers::{Clients, Parameters};
use reconcile::{Clock, LeaderElection, LeaderElector, SystemClock};
use scheduler::Decisions;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::options::Propagation;

/// Held by the one process that works, of those that share a storage.
const LEASE: (&str, &str) = ("kube-system", "flotilla-controllers");

/// How long work under way may take when the plane stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// What rooms and those who ask questions both use, whether this process works or waits for its turn.
#[derive(Clone)]
pub struct Shared {
    pub client: ClusterClient,
    pub interpreter: interpreter::Shared,
    pub board: Board,
    pub decisions: Decisions,
}

/// Rooms at work.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Lets work under way finish. To be called while the API still answers, or it would take its end for a fault.
    pub async fn end(self) {
        self.stop.cancel();
        match tokio::time::timeout(END_WAIT_MAX, self.task).await {
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
    let rooms = Rooms { clients, shared, parameters, propagation, clock };
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    let task = tokio::spawn(async move {
        let Some(candidate) = candidate else {
            return rooms.run(cancel).await;
        };
        let election = LeaderElection::new(LEASE.0, LEASE.1, &candidate);
        let elector = LeaderElector::new(election, rooms.clients.manager.clone(), Arc::clone(&rooms.clock));
        elector.run(cancel, |term| rooms.clone().run(term)).await;
    });
    Ok(Running { stop, task })
}

/// Everything one term of work is started from.
#[derive(Clone)]
struct Rooms {
    clients: Clients,
    shared: Shared,
    parameters: Parameters,
    propagation: Propagation,
    clock: Arc<dyn Clock>,
}

impl Rooms {
    /// Runs until cancelled.
    async fn run(self, cancel: CancellationToken) {
        let mut running = JoinSet::new();
        running.spawn(controllers::run(self.clients.clone(), self.parameters.clone(), cancel.clone()));
        let Shared { client, interpreter, board, decisions } = self.shared;
        let (features, clock) = (Arc::clone(&self.propagation.features), Arc::clone(&self.clock));
        running.spawn(fleet::run(
            fleet::Parts {
                client: client.clone(),
                features: features.clone(),
                clock: clock.clone(),
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
                settings: self.propagation.federation.clone(),
            },
            cancel.clone(),
        ));
        running.spawn(scheduling::run(
            scheduling::Parts {
                client: client.clone(),
                board: board.clone(),
                decisions,
                features: features.clone(),
                clock: clock.clone(),
                settings: self.propagation.scheduling.clone(),
            },
            cancel.clone(),
        ));
        let settings = self.propagation.member_sync.clone();
        let parts = member_sync::push::Parts { client, interpreter, board, features, clock, settings };
        running.spawn(member_sync::push::run(parts, cancel));
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a part of the control plane ended badly");
            }
        }
    }
}
