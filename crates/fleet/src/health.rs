//! Notices pull clusters that fell silent, by the Leases their agents renew, and says so in their Ready condition.
//!
//! Push clusters need none of it: the controller of their status asks them directly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::{CONDITION_READY, ClusterStatus};
use api::core::{Condition, find_condition};
use api::names::CLUSTER_NAMESPACE;
use jiff::{SignedDuration, Timestamp};
use object::builtin;
use object::conditions::{self, NewCondition};
use object::time::format_seconds;
use object::{GroupVersionResource, Object, Status, time};
use reconcile::{Mirror, MirrorSpec, ObjectKey, commit_status};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};

/// However near the end of a patience is, there is this much time between two looks.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(100);

/// Grace periods for missing heartbeats.
#[derive(Clone, Copy, Debug)]
struct Grace {
    /// Once it has said anything.
    running: Duration,
    /// Before.
    starting: Duration,
}

impl Grace {
    /// Time left of the grace period; `None` when it is over.
    fn left(self, seen: &Seen, signs: &Signs, now: Timestamp) -> Option<Duration> {
        let patience = if signs.ready.is_some() { self.running } else { self.starting };
        let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
        let left = patience.saturating_sub(now.duration_since(seen.at));
        // A moment more: a silence as long as the patience is not too long yet.
        Duration::try_from(left).ok().map(|left| left + Duration::from_millis(1))
    }
}

/// The last sign of life of a cluster, and what it was seen by. The time is that of `SuspendDetector::watched`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    at: Timestamp,
    ready: Option<Condition>,
    renewed: Option<Timestamp>,
}

/// The observed state of a cluster.
struct Signs {
    ready: Option<Condition>,
    created: Timestamp,
    /// Time of the last Lease renewal, by the clock of the agent.
    renewed: Option<Timestamp>,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let leases = plane.mirror(MirrorSpec::new(&leases()).within(CLUSTER_NAMESPACE));
    tokio::select! {
        () = cancel.cancelled() => return,
        _ = futures::future::join(plane.clusters.synced(), leases.synced()) => {}
    }
    let mut seen = HashMap::new();
    loop {
        let patience = look(&plane, &leases, &mut seen).await;
        // Karmada looks at fixed times, and finds a silence up to a period after it has lasted too long.
        let wait = patience.map_or(plane.settings.cluster_monitor_period, |patience| {
            patience.clamp(LOOK_EVERY_MIN, plane.settings.cluster_monitor_period)
        });
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Checks all pull-mode clusters. Returns the time until the first missing heartbeat exceeds its grace period.
async fn look(plane: &Plane, leases: &Mirror, seen: &mut HashMap<String, Seen>) -> Option<Duration> {
    let mut first: Option<Duration> = None;
    let unseen = plane.suspend_detector.look(plane.clock.now());
    if !unseen.is_zero() {
        tracing::warn!(%unseen, "clusters were not observed for a while, or the clock was set: that time is not counted as missed heartbeats");
    }
    let clusters = plane.pull_clusters();
    seen.retain(|name, _| plane.cluster(name).is_some());
    for cluster in clusters {
        let name = cluster.name();
        let lease = leases.get(&ObjectKey::new(CLUSTER_NAMESPACE, name));
        match look_at(plane, &cluster, lease.as_deref(), seen).await {
            Ok(patience) => first = first.into_iter().chain(patience).min(),
            // The next look tries again.
            Err(error) => {
                tracing::warn!(cluster = name, %error, "the silence of a cluster could not be written down");
            }
        }
    }
    first
}

async fn look_at(
    plane: &Plane,
    cluster: &Object,
    lease: Option<&Object>,
    seen: &mut HashMap<String, Seen>,
) -> Result<Option<Duration>, Status> {
    let time = plane.clock.now();
    let now = plane.suspend_detector.watched(time);
    let settings = &plane.settings;
    let grace =
        Grace { running: settings.cluster_monitor_grace_period, starting: settings.cluster_startup_grace_period };
    let status: ClusterStatus = api::read_at(cluster, &["status"])?;
    let signs = Signs {
        ready: find_condition(&status.conditions, CONDITION_READY).cloned(),
        created: time::parse(cluster.creation_timestamp())
            .map_or(now, |created| plane.suspend_detector.watched(created)),
        renewed: lease.and_then(|lease| time::parse(lease.str_at(&["spec", "renewTime"]))),
    };
    let state = observe(seen.get(cluster.name()), &signs, now);
    let verdict = judge(&state, &signs, grace, now);
    let verdict = verdict.map(|silent| Condition { last_transition_time: format_seconds(time), ..silent });
    let patience = grace.left(&state, &signs, now);
    seen.insert(cluster.name().to_owned(), state);
    let Some(silent) = verdict else { return Ok(patience) };
    let mut desired = cluster.clone();
    conditions::edit(&mut desired, &silent.kind, |condition| {
        let Condition { kind, status, reason, message, last_transition_time, .. } = &silent;
        condition.write(&NewCondition { kind, status, reason, message });
        condition.set("lastTransitionTime", last_transition_time.as_str());
    });
    let target = plane.clusters.target(&ObjectKey::of(cluster));
    commit_status(&plane.client, target, cluster, &desired, FIELD_MANAGER).await?;
    // A condition written by this controller is no sign of life.
    if let Some(state) = seen.get_mut(cluster.name()) {
        state.ready = Some(silent);
    }
    Ok(None)
}

/// The last sign of life: a changed condition, or a renewed Lease. A cluster that never said anything lives since it
/// was made; one this process sees for the first time, since now.
fn observe(before: Option<&Seen>, signs: &Signs, now: Timestamp) -> Seen {
    let mut seen = match before {
        Some(before) if before.ready == signs.ready => before.clone(),
        Some(_) => Seen { at: now, ready: signs.ready.clone(), renewed: None },
        None => {
            let at = if signs.ready.is_none() { signs.created } else { now };
            Seen { at, ready: signs.ready.clone(), renewed: None }
        }
    };
    // Kubernetes wants a later time than before. An agent whose clock was put back lives, whatever time it says it is.
    if signs.renewed.is_some() && seen.renewed != signs.renewed {
        seen.renewed = signs.renewed;
        seen.at = now;
    }
    seen
}

/// The condition of a cluster that was silent for too long; `None` where nothing is to be said that was not said before.
fn judge(seen: &Seen, signs: &Signs, grace: Grace, now: Timestamp) -> Option<Condition> {
    if grace.left(seen, signs, now).is_some() {
        return None;
    }
    let (reason, message) = match &signs.ready {
        None => ("ClusterStatusNeverUpdated", "Cluster status controller never posted cluster status."),
        Some(ready) if ready.status == "Unknown" => return None,
        Some(_) => ("ClusterStatusUnknown", "Cluster status controller stopped posting cluster status."),
    };
    Some(Condition {
        kind: CONDITION_READY.to_owned(),
        status: "Unknown".to_owned(),
        observed_generation: signs.ready.as_ref().and_then(|ready| ready.observed_generation),
        last_transition_time: format_seconds(now),
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}

fn leases() -> GroupVersionResource {
    builtin::leases()
}

#[cfg(test)]
mod tests;
