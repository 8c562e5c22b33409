//! Enqueues bindings on changes of the binding itself or of a cluster that may be a target.

use std::sync::Arc;

use api::cluster::ClusterSpec;
use api::policy::{ClusterAffinity, DEFAULT_SCHEDULER, LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID, Placement};
use api::work::LABEL_BINDING_MANAGED_BY;
use futures::FutureExt;
use object::Object;
use plane_metrics::QueueReason;
use reconcile::{Change, Mirror, ObjectKey};

use crate::BindingScheduler;
use crate::gather::{Binding, priority_of, put};

/// Bindings processed before yielding to other tasks.
const BINDINGS_AT_ONCE: usize = 256;

/// A change of a cluster that may matter to bindings.
struct Touched {
    cluster: Arc<Object>,
    spec: ClusterSpec,
    /// Only bindings of these kinds; all when `None`.
    kinds: Option<Vec<(String, String)>>,
}

/// Feeds changes of bindings into the queue.
pub async fn watch_bindings(scheduler: &Arc<BindingScheduler>, mirror: &Mirror) {
    let mut changes = mirror.subscribe();
    while let Some(change) = changes.next().await {
        scheduler.note_binding(&change);
        let Some(now) = &change.now else { continue };
        if is_due(scheduler, change.before.as_deref(), now) {
            let why = if change.before.is_none() { QueueReason::BindingAdd } else { QueueReason::BindingUpdate };
            scheduler.queue.add(change.key.clone(), priority_of(now), change.is_initial, why).await;
        }
    }
}

/// A binding that becomes ours counts as new; one that stays ours is due when its spec has changed.
fn is_due(scheduler: &BindingScheduler, before: Option<&Object>, now: &Object) -> bool {
    let was_ours = before.filter(|before| is_ours(scheduler, before));
    is_ours(scheduler, now) && was_ours.is_none_or(|before| before.generation() != now.generation())
}

/// Reports whether this scheduler places the binding. Attached dependencies without a policy follow their parents.
fn is_ours(scheduler: &BindingScheduler, binding: &Object) -> bool {
    let has = |label: &str| binding.label(label).is_some_and(|value| !value.is_empty());
    is_for_this_scheduler(scheduler, binding)
        && [LABEL_PROPAGATION_ID, LABEL_CLUSTER_PROPAGATION_ID, LABEL_BINDING_MANAGED_BY].into_iter().any(has)
}

fn is_for_this_scheduler(scheduler: &BindingScheduler, binding: &Object) -> bool {
    let wanted = match binding.str_at(&["spec", "schedulerName"]) {
        "" => DEFAULT_SCHEDULER,
        name => name,
    };
    wanted == scheduler.settings.scheduler_name && binding.bool_at(&["spec", "suspension", "scheduling"]) != Some(true)
}

impl BindingScheduler {
    /// Updates reservations and pending placements from the mirror.
    fn note_binding(&self, change: &Change) {
        let name = change.key.to_string();
        match &change.now {
            None => {
                self.snapshot.lock().release(&name);
                self.pending.lock().remove(&change.key);
                self.decisions.forget(&name);
                self.failbacks.lock().remove(&change.key);
            }
            Some(now) => {
                let statuses = now.items(&["status", "aggregatedStatus"]);
                let mut snapshot = self.snapshot.lock();
                let is_waiting = |item: &serde_json::Value| {
                    item["clusterName"].as_str().is_some_and(|cluster| snapshot.has_reserved(&name, cluster))
                };
                // Most changes are irrelevant here, and parsing a whole binding is the expensive part.
                if statuses.iter().any(is_waiting)
                    && let Ok(binding) = Binding::read(now)
                {
                    snapshot.release_seen(&name, &binding.spec, &binding.status.aggregated_status);
                }
            }
        }
    }
}

/// Updates the snapshot and enqueues the bindings affected by a change.
pub async fn watch_clusters(scheduler: &Arc<BindingScheduler>) {
    let mut changes = scheduler.clusters.subscribe();
    while let Some(first) = changes.next().await {
        let mut touched = take_in(scheduler, &first);
        // Pending changes are handled in one walk over the bindings.
        while let Some(change) = changes.next().now_or_never().flatten() {
            touched.extend(take_in(scheduler, &change));
        }
        if !touched.is_empty() {
            enqueue_affected(scheduler, &scheduler.bindings, &touched).await;
            enqueue_affected(scheduler, &scheduler.cluster_bindings, &touched).await;
        }
    }
}

fn take_in(scheduler: &BindingScheduler, change: &Change) -> Vec<Touched> {
    let mut snapshot = scheduler.snapshot.lock();
    match &change.now {
        Some(now) => put(&mut snapshot, now),
        None => {
            snapshot.remove(&change.key.name);
            if let Some(estimators) = &scheduler.estimators {
                estimators.forget(&change.key.name);
            }
        }
    }
    drop(snapshot);
    if change.is_initial {
        return Vec::new();
    }
    let touched = touched_by(change.before.as_ref(), change.now.as_ref());
    touched
        .into_iter()
        .filter_map(|(cluster, kinds)| Some(Touched { spec: api::read(&cluster).ok()?, cluster, kinds }))
        .collect()
}

type Kinds = Option<Vec<(String, String)>>;

/// Returns the cluster states to compare bindings with.
fn touched_by(before: Option<&Arc<Object>>, now: Option<&Arc<Object>>) -> Vec<(Arc<Object>, Kinds)> {
    let all = |cluster: &Arc<Object>| (Arc::clone(cluster), None);
    match (before, now) {
        (Some(before), Some(now)) if !before.is_deleting() && now.is_deleting() => vec![all(now)],
        (Some(before), Some(now)) if before.generation() != now.generation() || !before.labels().eq(now.labels()) => {
            vec![all(before), all(now)]
        }
        (Some(before), Some(now)) => {
            let kinds = new_kinds(before, now);
            // Karmada does not retry on this event, so a CRD and its objects created together stay pending there.
            if kinds.is_empty() { Vec::new() } else { vec![(Arc::clone(now), Some(kinds))] }
        }
        // New to this watch, but several changes may already have happened.
        (None, Some(now)) => vec![all(now)],
        (_, None) => Vec::new(),
    }
}

/// Returns the kinds a cluster newly serves.
fn new_kinds(before: &Object, now: &Object) -> Vec<(String, String)> {
    let path = ["status", "apiEnablements"];
    if before.get(&path) == now.get(&path) {
        return Vec::new();
    }
    let read =
        |cluster: &Object| -> Vec<api::cluster::ApiEnablement> { api::read_at(cluster, &path).unwrap_or_default() };
    let kinds = |groups: Vec<api::cluster::ApiEnablement>| -> Vec<(String, String)> {
        let of_group = |group: api::cluster::ApiEnablement| {
            group.resources.into_iter().map(move |resource| (group.group_version.clone(), resource.kind))
        };
        groups.into_iter().flat_map(of_group).collect()
    };
    let known: std::collections::HashSet<_> = kinds(read(before)).into_iter().collect();
    kinds(read(now)).into_iter().filter(|kind| !known.contains(kind)).collect()
}

async fn enqueue_affected(scheduler: &Arc<BindingScheduler>, mirror: &Mirror, touched: &[Touched]) {
    for some in mirror.list().chunks(BINDINGS_AT_ONCE) {
        for binding in some.iter().filter(|binding| is_for_this_scheduler(scheduler, binding)) {
            if is_affected(binding, touched) {
                scheduler
                    .queue
                    .add(ObjectKey::of(binding), priority_of(binding), false, QueueReason::ClusterChanged)
                    .await;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Reports whether the binding could be placed on one of these clusters, by its current affinity group.
fn is_affected(binding: &Object, touched: &[Touched]) -> bool {
    let Some(placement) = binding.get(&["spec", "placement"]).filter(|placement| !placement.is_null()) else {
        return false;
    };
    let kind = |touched: &&Touched| {
        let own = |(version, kind): &(String, String)| {
            binding.str_at(&["spec", "resource", "apiVersion"]) == version
                && binding.str_at(&["spec", "resource", "kind"]) == kind
        };
        touched.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(own))
    };
    let mut touched = touched.iter().filter(kind).peekable();
    if touched.peek().is_none() {
        return false;
    }
    let Ok(placement) = <Placement as serde::Deserialize>::deserialize(placement) else { return false };
    let affinity = if placement.cluster_affinities.is_empty() {
        placement.cluster_affinity.as_ref()
    } else {
        let observed = binding.i64_at(&["status", "schedulerObservedGeneration"]).unwrap_or(0);
        if observed != binding.generation() {
            return true;
        }
        Some(affinity_in_use(&placement, binding.str_at(&["status", "schedulerObservingAffinityName"])))
    };
    affinity.is_none_or(|affinity| touched.any(|own| affinity.matches(&own.cluster, &own.spec)))
}

fn affinity_in_use<'a>(placement: &'a Placement, observed: &str) -> &'a ClusterAffinity {
    let terms = &placement.cluster_affinities;
    let term = terms.iter().find(|term| term.affinity_name == observed);
    &term.unwrap_or(&terms[0]).affinity
}
