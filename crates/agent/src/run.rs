//! From start to end of an agent: registered once, then in sync until told to stop, whatever the network does.

use std::sync::Arc;
use std::time::Duration;

use api::features::Features;
use cluster_client::ClusterClient;
use member_sync::{MemberParts, Recorders, run_member};
use metrics::Metrics;
use plane_state::MemberCapacity;
use reconcile::backoff::Backoff;
use reconcile::{Clock, LeaderElection, LeaderElector};
use tokio_util::sync::CancellationToken;

use crate::credentials;
use crate::lease::{self, Pulse};
use crate::registration::{self, Refused, RegisterError, Registration};
use crate::renewal::{self, Kept, Renewal};
use crate::tunnel;
use crate::webhooks::Webhooks;

/// Between tries to register: soon at first, and never seldom.
const REGISTER_BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(30) };

/// What an agent needs.
pub struct Parts {
    pub plane: ClusterClient,
    pub member: ClusterClient,
    pub registration: Registration,
    /// The member's API as its certificate names it; the control plane is offered a way to it. `None` offers none.
    pub reachable_at: Option<String>,
    /// Where the certificate for the plane is kept, for it to be renewed there. `None` renews nothing.
    pub kept: Option<Kept>,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub settings: Settings,
}

/// The figures, with Karmada's defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    pub sync: member_sync::Settings,
    pub lease_duration: Duration,
    pub lease_renew_every: Duration,
    /// Set where several agents look after the same member.
    pub replicas: Option<Replicas>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync: member_sync::Settings::default(),
            lease_duration: Duration::from_secs(40),
            lease_renew_every: Duration::from_secs(10),
            replicas: None,
        }
    }
}

/// How several agents agree on the one that works. They do it in the member: that one is there when the plane is not.
#[derive(Clone, Debug)]
pub struct Replicas {
    pub namespace: String,
    pub identity: String,
}

/// Runs until cancelled. Ends before only when the control plane has another cluster of this name or id.
pub async fn run(parts: Parts, cancel: CancellationToken) -> Result<(), Refused> {
    let Some(replicas) = parts.settings.replicas.clone() else { return work(&parts, cancel).await };
    if let Err(error) = credentials::ensure_namespace(&parts.member, &replicas.namespace).await {
        // The elector goes on trying, and says so.
        tracing::warn!(%error, "the namespace of the agent's lease could not be made");
    }
    let name = format!("karmada-agent-{}", parts.registration.name);
    let election = LeaderElection::new(&replicas.namespace, &name, &replicas.identity);
    let elector = LeaderElector::new(election, parts.member.clone(), Arc::clone(&parts.clock));
    let outcome = parking_lot::Mutex::new(Ok(()));
    let term = |term: CancellationToken| async {
        let ended = work(&parts, term).await;
        *outcome.lock() = ended;
    };
    elector.run(cancel, term).await;
    outcome.into_inner()
}

async fn work(parts: &Parts, cancel: CancellationToken) -> Result<(), Refused> {
    let registered = tokio::select! {
        () = cancel.cancelled() => return Ok(()),
        registered = register(parts) => registered,
    };
    registered?;
    let cluster = parts.registration.name.clone();
    tracing::info!(cluster, "the member is registered and pulls its works");
    let plane = match crate::plane::connect(parts.plane.clone()) {
        Ok(plane) => plane,
        Err(error) => unreachable!("a direct connection opens nothing: {error}"),
    };
    let pulse = Pulse {
        plane: parts.plane.clone(),
        cluster: cluster.clone(),
        clock: Arc::clone(&parts.clock),
        duration: parts.settings.lease_duration,
        renew_every: parts.settings.lease_renew_every,
    };
    let sync = async {
        // What a kind means must be known before anything is written, or it would be written wrongly.
        let interpreter = member_sync::interpretation::follow(plane.clone(), Arc::new(Webhooks), cancel.clone()).await;
        if cancel.is_cancelled() {
            return;
        }
        let recorders = Recorders::start(&plane, &parts.clock, &cancel);
        let member = MemberParts {
            plane: plane.clone(),
            member: parts.member.clone(),
            cluster,
            interpreter,
            member_capacity: MemberCapacity::default(),
            features: Arc::clone(&parts.features),
            clock: Arc::clone(&parts.clock),
            metrics: parts.metrics.clone(),
            recorders,
            settings: parts.settings.sync.clone(),
        };
        run_member(member, cancel.clone()).await;
    };
    let way = async {
        if let Some(member) = &parts.reachable_at {
            let cluster = parts.registration.name.clone();
            tunnel::keep(parts.plane.clone(), cluster, member.clone(), cancel.clone()).await;
        }
    };
    let renewing = async {
        if let Some(kept) = &parts.kept {
            let renewal = Renewal {
                plane: parts.plane.clone(),
                member: parts.member.clone(),
                cluster: parts.registration.name.clone(),
                kept: kept.clone(),
                clock: Arc::clone(&parts.clock),
            };
            renewal::keep(renewal, cancel.clone()).await;
        }
    };
    tokio::join!(lease::keep(pulse, cancel.clone()), sync, way, renewing);
    Ok(())
}

/// Tries until it succeeds or must not.
async fn register(parts: &Parts) -> Result<(), Refused> {
    let mut failures = 0;
    loop {
        match registration::register(&parts.plane, &parts.member, &parts.registration).await {
            Ok(()) => return Ok(()),
            Err(RegisterError::Refused(refused)) => return Err(refused),
            Err(error) => {
                failures += 1;
                let wait = REGISTER_BACKOFF.jittered(failures);
                tracing::warn!(%error, ?wait, "the member could not be registered; trying again");
                tokio::time::sleep(wait).await;
            }
        }
    }
}
