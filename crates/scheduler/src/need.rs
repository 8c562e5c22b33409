//! Decides whether a binding has to be scheduled.

use api::policy::{ClusterAffinityTerm, Placement};
use api::work::{BindingSpec, BindingStatus};
use jiff::Timestamp;

use crate::schedule::SchedulerOptions;
use crate::snapshot::ClusterSnapshot;

/// The reason for scheduling a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    PlacementChanged,
    ReplicasChanged,
    /// A rescheduling was requested.
    Reschedule,
    /// Duplicated workloads are rescheduled every time.
    Duplicated,
    ClusterLeaving,
}

/// The first reason to schedule; `None` if there is none.
pub fn need(
    snapshot: &ClusterSnapshot,
    spec: &BindingSpec,
    status: &BindingStatus,
    applied_placement: &str,
    options: &SchedulerOptions,
) -> Option<Need> {
    let placement = spec.placement.as_ref()?;
    if placement_changed(placement, applied_placement, &status.scheduler_observed_affinity_name) {
        return Some(Need::PlacementChanged);
    }
    if replicas_changed(spec, placement, options) {
        return Some(Need::ReplicasChanged);
    }
    if is_reschedule(spec, status) {
        return Some(Need::Reschedule);
    }
    if !spec.is_workload() || !placement.is_divided() {
        return Some(Need::Duplicated);
    }
    let leaves = spec.clusters.iter().any(|target| snapshot.is_leaving(&target.name));
    leaves.then_some(Need::ClusterLeaving)
}

/// Reports whether the placement differs from the applied one. Of the affinity groups only the one in use counts.
pub fn placement_changed(placement: &Placement, applied: &str, observed_affinity: &str) -> bool {
    if applied.is_empty() {
        return true;
    }
    let Ok(applied) = serde_json::from_str::<Placement>(applied) else { return false };
    if *placement == applied {
        return false;
    }
    if placement.cluster_affinity != applied.cluster_affinity
        || placement.cluster_tolerations != applied.cluster_tolerations
        || placement.spread_constraints != applied.spread_constraints
        || placement.replica_scheduling != applied.replica_scheduling
        || observed_affinity.is_empty()
    {
        return true;
    }
    let term = |placement: &Placement| -> Option<ClusterAffinityTerm> {
        placement.cluster_affinities.iter().find(|term| term.affinity_name == observed_affinity).cloned()
    };
    match (term(placement), term(&applied)) {
        (Some(now), Some(then)) => now != then,
        _ => true,
    }
}

fn replicas_changed(spec: &BindingSpec, placement: &Placement, options: &SchedulerOptions) -> bool {
    let Some(strategy) = &placement.replica_scheduling else { return false };
    if options.multiple_pod_templates && !spec.components.is_empty() && spec.clusters.is_empty() {
        return true;
    }
    match strategy.replica_scheduling_type.as_str() {
        "Duplicated" => spec.clusters.iter().any(|target| target.replicas != spec.replicas),
        "Divided" => {
            let sum: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
            sum != i64::from(spec.replicas)
        }
        _ => false,
    }
}

/// Reports whether a fresh placement was requested since the last one.
pub(crate) fn is_reschedule(spec: &BindingSpec, status: &BindingStatus) -> bool {
    let time = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    match (time(&spec.reschedule_triggered_at), time(&status.last_scheduled_time)) {
        (Some(asked), Some(scheduled)) => asked > scheduled,
        _ => false,
    }
}
