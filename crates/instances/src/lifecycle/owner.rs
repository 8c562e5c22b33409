//! Finds out which replica of the manager acts on an instance, and hands instances over.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::ClusterClient;
use manager_kinds::annotations::Mode;
use manager_kinds::{annotations, spec};
use object::{Object, conditions};
use reconcile::{ObjectKey, Outcome, Priority};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Lifecycle;
use crate::decide::DATA_MISSING;
use crate::existing_data;
use crate::ownership::{self, InstanceOwner, LastRan, OwnershipFacts};

/// Interval for checking whether another replica still runs what only it can run.
const ANSWER_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two attempts to act for a replica that does not answer but still reports.
const CONTRADICTION_WAIT: Duration = Duration::from_secs(60);

impl Lifecycle {
    /// Returns `None` if this replica acts on the instance. Otherwise stops what another one runs instead.
    pub(super) async fn yield_to_other(&self, instance: &Arc<Object>) -> Option<Outcome> {
        let facts = self.ownership(instance).await;
        match ownership::owner(facts) {
            InstanceOwner::This
                if facts.last_ran == (LastRan::Elsewhere { answers: false }) && facts.has_local_data =>
            {
                self.contradicted(instance).then_some(Outcome::After(CONTRADICTION_WAIT))
            }
            InstanceOwner::This => None,
            InstanceOwner::OtherSoon => Some(Outcome::Done),
            InstanceOwner::Other => {
                self.stop_running(instance.uid()).await;
                Some(if facts.leads { Outcome::After(ANSWER_INTERVAL) } else { Outcome::Done })
            }
        }
    }

    /// Returns true if a replica that did not answer still reports about the instance: it is only out of reach. Without this,
    /// both would correct each other without end.
    fn contradicted(&self, instance: &Object) -> bool {
        let is_own_report = conditions::find(instance, "Ready").is_some_and(|ready| ready.reason() == DATA_MISSING);
        let mut acted = self.acted_for.lock();
        acted.retain(|_, at| at.elapsed() < CONTRADICTION_WAIT);
        if !is_own_report && acted.contains_key(instance.uid()) {
            return true;
        }
        acted.entry(instance.uid().to_owned()).or_insert_with(Instant::now);
        false
    }

    async fn ownership(&self, instance: &Object) -> OwnershipFacts {
        let replica_context = &self.deps.replica_context;
        let (leads, has_local_data) = (replica_context.terms.is_open(), has_local_data(instance));
        let last_ran = match (replica_context.elsewhere(instance), &replica_context.replicas) {
            (Some(other), Some(replicas)) => LastRan::Elsewhere {
                answers: !ownership::needs_answer(leads, has_local_data, true) || replicas.answers(&other).await,
            },
            _ if existing_data::was_ready(instance) => LastRan::Here,
            _ => LastRan::Nowhere,
        };
        OwnershipFacts { leads, has_local_data, last_ran }
    }

    /// Returns the client for writes about an instance. Data in the directory of this replica is its own with or without the
    /// lease; all else ends with the term.
    pub(crate) fn writer(&self, instance: &Object) -> ClusterClient {
        let is_own = has_local_data(instance) && self.deps.replica_context.elsewhere(instance).is_none();
        match is_own {
            true => self.deps.client.clone(),
            false => self.deps.replica_context.terms.guard(&self.deps.client),
        }
    }

    /// Looks at all instances again when a term begins or ends.
    pub(super) async fn follow_terms(self, cancel: CancellationToken) {
        let mut changes = self.deps.replica_context.terms.changes();
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            for instance in self.karmadas.list() {
                self.controller.queue().add(ObjectKey::of(&instance), Priority::NORMAL).await;
            }
        }
    }
}

/// Returns true for an instance whose data is in the directory of a replica.
pub(super) fn has_local_data(instance: &Object) -> bool {
    let mode = annotations::read(instance).0.mode;
    existing_data::was_ready(instance) && mode != Mode::Imported && spec::read(instance, mode).plane.etcd.is_none()
}
