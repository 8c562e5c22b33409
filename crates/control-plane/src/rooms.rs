//! Runs everything that works on a plane's objects against its own API server, in process.

use std::sync::Arc;
use std::time::Duration;

use api::capacity::Board;
use apiserver::direct::Direct;
use apiserver::server::Server;
use cluster_client::{Backend, ClusterClient, Endpoint, Identity, UserInfo};
use controllers::{Clients, Parameters, SignToken};
use pki::authority::CertificateAuthority;
use pki::jwt::signer::JwtSigner;
use reconcile::{Clock, LeaderElection, LeaderElector, SystemClock};
use scheduler::Decisions;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::certificates::Certificates;
use crate::options::Propagation;

const MANAGER: (&str, &[&str]) = ("system:kube-controller-manager", &["system:masters", "system:authenticated"]);
const FEDERATION: (&str, &[&str]) = ("system:admin", &["system:masters", "system:authenticated"]);

/// Held by the one process that works, of those that share a storage.
const LEASE: (&str, &str) = ("kube-system", "flotilla-controllers");

/// How long work under way may take when the plane stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// What works on a plane's objects needs to know of it.
pub struct Plane<'a> {
    pub server: &'a Arc<Server>,
    pub certificates: &'a Certificates,
    pub url: &'a str,
    pub propagation: &'a Propagation,
    pub shared: Shared,
    /// This process among those that share the storage; `None` when it has the storage for itself.
    pub candidate: Option<String>,
}

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

pub fn start(plane: Plane<'_>) -> anyhow::Result<Running> {
    let candidate = plane.candidate.clone();
    let rooms = Rooms::new(&plane)?;
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
    fn new(plane: &Plane<'_>) -> anyhow::Result<Self> {
        let direct: Arc<dyn Backend> = Arc::new(Direct::new(Arc::clone(plane.server)));
        let manager = connect(&direct, UserInfo::new(MANAGER.0, MANAGER.1))?;
        let acting = move |name: &str| {
            connect(&direct, UserInfo::service_account("kube-system", name)).expect("a direct connection cannot fail")
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Ok(Self {
            clients: Clients { manager, controller: Arc::new(acting) },
            shared: plane.shared.clone(),
            parameters: parameters(plane, Arc::clone(&clock))?,
            propagation: plane.propagation.clone(),
            clock,
        })
    }

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

fn parameters(plane: &Plane<'_>, clock: Arc<dyn Clock>) -> anyhow::Result<Parameters> {
    let signer = JwtSigner::new(plane.certificates.service_account_key.clone());
    let sign_token: SignToken = Arc::new(move |claims| signer.sign(claims).map_err(|error| error.to_string()));
    let authority = &plane.certificates.authority;
    let authority = CertificateAuthority::new(authority.certificate().clone(), authority.key().clone())?;
    Ok(Parameters {
        ca_pem: plane.certificates.ca_pem(),
        authority: Arc::new(authority),
        sign_token,
        server_url: plane.url.to_owned(),
        clock,
    })
}

/// The client of everything that propagates.
pub fn federation_client(server: &Arc<Server>) -> anyhow::Result<ClusterClient> {
    let direct: Arc<dyn Backend> = Arc::new(Direct::new(Arc::clone(server)));
    connect(&direct, UserInfo::new(FEDERATION.0, FEDERATION.1))
}

fn connect(direct: &Arc<dyn Backend>, user: UserInfo) -> anyhow::Result<ClusterClient> {
    Ok(ClusterClient::connect(Endpoint::Direct { server: Arc::clone(direct), identity: Identity::of(user) })?)
}
