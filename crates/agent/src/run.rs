//! Runs an agent: registers the member, then keeps it in sync until cancelled, across network failures.

use std::sync::Arc;
use std::time::Duration;

use api::features::Features;
use cluster_client::ClusterClient;
use estimator::server::{EstimatorDeps, EstimatorServer, ServerSettings};
use member_sync::interpretation::follow;
use member_sync::{MemberDeps, Recorders, run_member};
use membership::credentials;
use membership::registration::{DuplicateCluster, Registration, RegistrationError, ensure_registered};
use membership::renewal::{self, AgentKubeconfig, Renewal};
use plane_metrics::PlaneMetrics;
use plane_state::MemberCapacity;
use reconcile::backoff::Backoff;
use reconcile::{Clock, LeaderElection, LeaderElector, Term};
use tokio_util::sync::CancellationToken;

use crate::capacity;
use crate::estimation::OwnMember;
use crate::lease::{self, AgentLease};
use crate::tunnel;
use crate::webhooks::Webhooks;

/// Backoff between attempts to register.
const REGISTER_BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Everything an agent needs to run.
pub struct AgentDeps {
    pub plane: ClusterClient,
    pub member: ClusterClient,
    pub registration: Registration,
    /// The member's API as its certificate names it, offered to the control plane through a tunnel. `None` opens no
    /// tunnel.
    pub reachable_at: Option<String>,
    /// The kubeconfig whose certificate is renewed. `None` renews nothing.
    pub kubeconfig: Option<AgentKubeconfig>,
    /// Address of the estimator service; `None` serves none.
    pub estimator: Option<ServerSettings>,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: AgentSettings,
}

/// Intervals and limits, with Karmada's defaults.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    pub sync: member_sync::Settings,
    pub lease_duration: Duration,
    pub lease_renew_every: Duration,
    /// Set when several agents run for the same member.
    pub replicas: Option<AgentReplicas>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            sync: member_sync::Settings::default(),
            lease_duration: Duration::from_secs(40),
            lease_renew_every: Duration::from_secs(10),
            replicas: None,
        }
    }
}

/// Leader election among several agents. Its Lease is in the member, which is reachable when the control plane is not.
#[derive(Clone, Debug)]
pub struct AgentReplicas {
    pub namespace: String,
    pub identity: String,
}

/// Runs until cancelled. Returns earlier only when the control plane has another cluster with this name or ID.
pub async fn run(deps: AgentDeps, cancel: CancellationToken) -> Result<(), DuplicateCluster> {
    let Some(replicas) = deps.settings.replicas.clone() else { return work(&deps, cancel).await };
    if let Err(error) = credentials::ensure_namespace(&deps.member, &replicas.namespace).await {
        // The elector retries, and logs its own errors.
        tracing::warn!(%error, "cannot create the namespace of the agent's lease");
    }
    let name = format!("karmada-agent-{}", deps.registration.name);
    let election = LeaderElection::new(&replicas.namespace, &name, &replicas.identity);
    let elector = LeaderElector::new(election, deps.member.clone(), Arc::clone(&deps.clock));
    let outcome = parking_lot::Mutex::new(Ok(()));
    deps.metrics.leader.compete(&[&name]);
    let term = |term: Term| async {
        let fence = term.fence;
        deps.metrics.leader.leads_while(move || fence.is_open());
        let ended = work(&deps, term.cancel).await;
        *outcome.lock() = ended;
    };
    elector.run_terms(cancel, term).await;
    outcome.into_inner()
}

async fn work(deps: &AgentDeps, cancel: CancellationToken) -> Result<(), DuplicateCluster> {
    let registered = tokio::select! {
        () = cancel.cancelled() => return Ok(()),
        registered = register(deps) => registered,
    };
    registered?;
    let cluster = deps.registration.name.clone();
    tracing::info!(cluster, "the member is registered");
    let plane = match crate::plane::connect(deps.plane.clone()) {
        Ok(plane) => plane,
        Err(error) => unreachable!("a direct connection opens nothing: {error}"),
    };
    let agent_lease = AgentLease {
        plane: deps.plane.clone(),
        cluster: cluster.clone(),
        clock: Arc::clone(&deps.clock),
        duration: deps.settings.lease_duration,
        renew_every: deps.settings.lease_renew_every,
    };
    let member_capacity = MemberCapacity::default();
    let reporting = capacity::keep(deps.plane.clone(), cluster.clone(), member_capacity.clone(), cancel.clone());
    let sync = async {
        // Interpreter customizations must be loaded before anything is written to the member.
        let (features, clock) = (Arc::clone(&deps.features), Arc::clone(&deps.clock));
        let interpreter = follow(plane.clone(), Arc::new(Webhooks), features, clock, cancel.clone()).await;
        if cancel.is_cancelled() {
            return;
        }
        let recorders = Recorders::start(&plane, &deps.clock, &cancel);
        let member = MemberDeps {
            plane: plane.clone(),
            member: deps.member.clone(),
            cluster,
            interpreter,
            member_capacity: member_capacity.clone(),
            features: Arc::clone(&deps.features),
            clock: Arc::clone(&deps.clock),
            metrics: deps.metrics.clone(),
            recorders,
            settings: member_sync::Settings { watch_quotas: true, ..deps.settings.sync.clone() },
        };
        run_member(member, cancel.clone()).await;
    };
    let estimates = serve_estimates(deps, &member_capacity, &cancel);
    let tunnel = async {
        if let Some(member) = &deps.reachable_at {
            let cluster = deps.registration.name.clone();
            tunnel::keep(deps.plane.clone(), cluster, member.clone(), cancel.clone()).await;
        }
    };
    let renewing = async {
        if let Some(kubeconfig) = &deps.kubeconfig {
            let renewal = Renewal {
                plane: deps.plane.clone(),
                member: deps.member.clone(),
                cluster: deps.registration.name.clone(),
                kubeconfig: kubeconfig.clone(),
                clock: Arc::clone(&deps.clock),
            };
            renewal::keep(renewal, cancel.clone()).await;
        }
    };
    tokio::join!(lease::keep(agent_lease, cancel.clone()), sync, tunnel, reporting, estimates, renewing);
    Ok(())
}

/// Serves the estimator service; tries again while its address cannot be used.
async fn serve_estimates(deps: &AgentDeps, capacity: &MemberCapacity, cancel: &CancellationToken) {
    let Some(settings) = &deps.estimator else { return };
    let source = Arc::new(OwnMember {
        cluster: deps.registration.name.clone(),
        capacity: capacity.clone(),
        member: deps.member.clone(),
    });
    let mut failures = 0;
    while !cancel.is_cancelled() {
        let service = EstimatorDeps {
            source: source.clone(),
            clock: Arc::clone(&deps.clock),
            metrics: deps.metrics.estimator.clone(),
            with_quotas: deps.features.resource_quota_estimate,
        };
        match EstimatorServer::bind(settings, service).await {
            Ok(server) => {
                tracing::info!(address = %server.address, "serving estimates");
                return server.run(cancel.clone()).await;
            }
            Err(error) => {
                failures += 1;
                let wait = REGISTER_BACKOFF.jittered(failures);
                tracing::error!(%error, source = ?std::error::Error::source(&error), ?wait, "cannot serve estimates");
                let _ = cancel.run_until_cancelled(tokio::time::sleep(wait)).await;
            }
        }
    }
}

/// Retries until the member is registered, or refused as a duplicate.
async fn register(deps: &AgentDeps) -> Result<(), DuplicateCluster> {
    let mut failures = 0;
    loop {
        match ensure_registered(&deps.plane, &deps.member, &deps.registration).await {
            Ok(()) => return Ok(()),
            Err(RegistrationError::Duplicate(duplicate)) => return Err(duplicate),
            Err(error) => {
                failures += 1;
                let wait = REGISTER_BACKOFF.jittered(failures);
                tracing::warn!(%error, ?wait, "cannot register the member, will retry");
                tokio::time::sleep(wait).await;
            }
        }
    }
}
