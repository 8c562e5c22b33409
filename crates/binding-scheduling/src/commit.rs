//! Writes a scheduling decision: the clusters into the spec, then the result into the status.

use std::sync::Arc;

use api::core::{Condition, find_condition, set_condition};
use api::failover::ANNOTATION_HISTORY;
use api::policy::ANNOTATION_APPLIED_PLACEMENT;
use api::work::{BindingStatus, CONDITION_SCHEDULED, TargetCluster};
use cluster_client::{Patch, WriteOptions};
use object::request::Subresource;
use object::time::format_seconds;
use object::{Object, Status};
use plane_metrics::ScheduleType;
use scheduler::{Decision, SUCCESS_MESSAGE, ScheduleError};
use serde_json::{Map, Value, json};

use crate::failback::notes;
use crate::gather::Binding;
use crate::queue::ScheduleOutcome;
use crate::schedule::outcome_of;
use crate::{BindingScheduler, FIELD_MANAGER};

/// Attempts to write the status when other writers cause conflicts.
const STATUS_TRIES_MAX: usize = 5;

/// Attempts to write a placement when the binding changed meanwhile but the inputs of the decision did not.
const PLACEMENT_TRIES_MAX: usize = 3;

/// The changes to write for a binding.
pub struct PlacementUpdate {
    pub binding: Binding,
    /// `None` if there was nothing to decide: only the observed generation is updated.
    pub decision: Option<Decision>,
    /// A reschedule from scratch was requested; it must not be repeated.
    pub is_asked_for: bool,
    /// The workload returns to a cluster it left by failover.
    pub is_return: bool,
    /// The type under which the attempt is counted in metrics; `None` for a pure status update.
    pub schedule_type: Option<ScheduleType>,
}

impl PlacementUpdate {
    pub fn noting_only(binding: Binding) -> Self {
        Self { binding, decision: None, is_asked_for: false, is_return: false, schedule_type: None }
    }
}

/// The result of a decision as reported in the status.
struct ScheduleReport {
    is_scheduled: bool,
    reason: &'static str,
    message: String,
    outcome: ScheduleOutcome,
}

impl ScheduleReport {
    fn success() -> Self {
        Self {
            is_scheduled: true,
            reason: "Success",
            message: SUCCESS_MESSAGE.to_owned(),
            outcome: ScheduleOutcome::Done,
        }
    }

    fn failure(error: &ScheduleError) -> Self {
        let outcome = outcome_of(error);
        Self { is_scheduled: false, reason: error.reason(), message: error.to_string(), outcome }
    }

    /// The API server rejected the placement.
    fn refused(decided: Option<&ScheduleError>, refusal: &Status) -> Self {
        let reason = match (decided, refusal.code, refusal.reason) {
            (Some(ScheduleError::NoFit(_)), ..) => "NoClusterFit",
            (_, 403, "QuotaExceeded") => "QuotaExceeded",
            _ => "SchedulerError",
        };
        let message = match decided {
            Some(error) => format!("[{error}, {refusal}]"),
            None => refusal.to_string(),
        };
        Self { is_scheduled: false, reason, message, outcome: ScheduleOutcome::Failed }
    }
}

/// Writes only the differences.
pub async fn commit(scheduler: &BindingScheduler, plan: PlacementUpdate) -> ScheduleOutcome {
    let PlacementUpdate { binding, decision, is_asked_for, is_return, .. } = plan;
    let Some(decision) = decision else {
        return match note_generation(scheduler, &binding).await {
            Ok(()) => ScheduleOutcome::Done,
            Err(error) => failed(scheduler, &binding, &error).await,
        };
    };
    let targets = match &decision.result {
        Ok(targets) => Some(targets.as_slice()),
        Err(ScheduleError::NoFit(_)) => Some([].as_slice()),
        Err(_) => None,
    };
    let written = match targets {
        Some(targets) => commit_placement(scheduler, &binding, targets, is_return).await,
        None => Ok(None),
    };
    let is_placed = matches!(&written, Ok(Some(_)));
    settle(scheduler, &binding, &decision, &written);
    let report = match (&decision.result, &written) {
        (_, Err(error)) if error.is_conflict() || error.is_not_found() => {
            return failed(scheduler, &binding, error).await;
        }
        (decided, Err(error)) => ScheduleReport::refused(decided.as_ref().err(), error),
        (Ok(_), Ok(_)) => ScheduleReport::success(),
        (Err(error), Ok(_)) => ScheduleReport::failure(error),
    };
    let current = written.ok().flatten().unwrap_or_else(|| Arc::clone(&binding.object));
    let affinity_name = decision.result.is_ok().then_some(decision.affinity_name.as_str());
    let noted = commit_report(scheduler, &binding, current, &report, affinity_name, is_asked_for).await;
    update_metrics(scheduler, &binding, &decision, &report, is_placed || matches!(noted, Ok(true)));
    match noted {
        Ok(_) => report.outcome,
        Err(error) => failed(scheduler, &binding, &error).await,
    }
}

/// Releases the reservations of a placement that was not written.
fn settle(
    scheduler: &BindingScheduler,
    binding: &Binding,
    decision: &Decision,
    written: &Result<Option<Arc<Object>>, Status>,
) {
    if let (Err(_), Ok(targets)) = (written, &decision.result) {
        scheduler.snapshot.lock().unreserve(&binding.key.to_string(), &binding.spec, targets, scheduler.clock.now());
    }
    if written.is_err() {
        scheduler.pending.lock().remove(&binding.key);
    }
}

/// Writes the clusters and the placement they were chosen by. A different order of the same clusters is no change.
async fn commit_placement(
    scheduler: &BindingScheduler,
    binding: &Binding,
    targets: &[TargetCluster],
    is_return: bool,
) -> Result<Option<Arc<Object>>, Status> {
    let placement = serde_json::to_string(&binding.spec.placement).map_err(Status::internal)?;
    let mut patch = Map::new();
    if binding.applied_placement() != placement {
        patch.insert("metadata".to_owned(), json!({"annotations": {ANNOTATION_APPLIED_PLACEMENT: placement}}));
    }
    if !is_same(&binding.spec.clusters, targets) {
        let clusters = if targets.is_empty() { Value::Null } else { json!(targets) };
        patch.insert("spec".to_owned(), json!({"clusters": clusters}));
    }
    // Without a target the workload has not moved yet.
    let is_remembered = binding.object.annotation(ANNOTATION_HISTORY).is_some() && !targets.is_empty();
    if scheduler.is_resilient && is_remembered {
        let notes = notes(binding, targets, is_return, scheduler.clock.now());
        if let Some(history) = notes.history {
            let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
            metadata["annotations"][ANNOTATION_HISTORY] = history.into();
        }
        if let Some(tasks) = notes.tasks {
            patch.entry("spec").or_insert_with(|| json!({}))["gracefulEvictionTasks"] = tasks;
        }
    }
    if patch.is_empty() {
        return Ok(None);
    }
    write_placement(scheduler, binding, patch).await.map(Some)
}

/// Writes the patch only if the inputs of the decision are unchanged, so that a concurrent eviction is not undone.
/// After a cluster loss the status of every binding changes often; repeating the decision for that would only take
/// longer.
async fn write_placement(
    scheduler: &BindingScheduler,
    binding: &Binding,
    mut patch: Map<String, Value>,
) -> Result<Arc<Object>, Status> {
    let target = scheduler.mirror_of(&binding.key).target(&binding.key);
    let mut current = Arc::clone(&binding.object);
    let mut tries = 1;
    loop {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = current.resource_version().into();
        metadata["uid"] = current.uid().into();
        let (body, options) = (Patch::merge(Value::Object(patch.clone())), WriteOptions::managed_by(FIELD_MANAGER));
        match scheduler.client.patch(target.clone(), body, options).await {
            Err(conflict) if conflict.is_conflict() && tries < PLACEMENT_TRIES_MAX => {
                current = scheduler.client.get(target.clone()).await?;
                if !is_decided_on(&binding.object, &current) {
                    return Err(conflict);
                }
                tries += 1;
            }
            Err(status) => return Err(status),
            Ok(written) => {
                scheduler.mirror_of(&binding.key).note(&written);
                return Ok(written);
            }
        }
    }
}

/// Reports whether all inputs of a decision are equal. The status fields it reads are written by the scheduler alone.
fn is_decided_on(old: &Object, new: &Object) -> bool {
    let annotations = ["metadata", "annotations"];
    old.uid() == new.uid()
        && old.generation() == new.generation()
        && old.is_deleting() == new.is_deleting()
        && old.get(&annotations) == new.get(&annotations)
}

fn is_same(old: &[TargetCluster], new: &[TargetCluster]) -> bool {
    let sorted = |targets: &[TargetCluster]| {
        let mut list: Vec<(String, i32)> =
            targets.iter().map(|target| (target.name.clone(), target.replicas)).collect();
        list.sort();
        list
    };
    old.len() == new.len() && sorted(old) == sorted(new)
}

/// Writes the condition and, on success, the generation, time and affinity group. Reports whether anything was
/// written.
async fn commit_report(
    scheduler: &BindingScheduler,
    binding: &Binding,
    mut current: Arc<Object>,
    report: &ScheduleReport,
    affinity_name: Option<&str>,
    is_asked_for: bool,
) -> Result<bool, Status> {
    // Karmada records the generation before its own write and needs a second round for the next one.
    let own = current.generation();
    for _ in 0..STATUS_TRIES_MAX {
        let old: BindingStatus = api::read_at(&current, &["status"])?;
        let mut new = old.clone();
        let now = format_seconds(scheduler.clock.now());
        let changed = set_condition(&mut new.conditions, condition(report, &now));
        let mut is_changed = changed;
        if report.is_scheduled {
            if new.scheduler_observed_generation != Some(own) {
                new.scheduler_observed_generation = Some(own);
                is_changed = true;
            }
            if let Some(name) = affinity_name.filter(|name| *name != new.scheduler_observed_affinity_name) {
                name.clone_into(&mut new.scheduler_observed_affinity_name);
                is_changed = true;
            }
            // An unchanged result is not written for its timestamp alone, unless a reschedule was requested.
            if is_changed || is_asked_for {
                new.last_scheduled_time = Some(now);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(false);
        }
        match patch_status(scheduler, binding, &current, &old, &new).await {
            Err(error) if error.is_conflict() => {
                current = scheduler.client.get(scheduler.mirror_of(&binding.key).target(&binding.key)).await?;
                if current.uid() != binding.object.uid() {
                    return Ok(false);
                }
            }
            other => return other.map(|()| true),
        }
    }
    Err(Status::conflict(&object::GroupResource::default(), &binding.key.name, "the status was changed concurrently"))
}

fn condition(report: &ScheduleReport, now: &str) -> Condition {
    Condition {
        kind: CONDITION_SCHEDULED.to_owned(),
        status: if report.is_scheduled { "True" } else { "False" }.to_owned(),
        observed_generation: None,
        last_transition_time: now.to_owned(),
        reason: report.reason.to_owned(),
        message: report.message.clone(),
    }
}

async fn patch_status(
    scheduler: &BindingScheduler,
    binding: &Binding,
    current: &Object,
    old: &BindingStatus,
    new: &BindingStatus,
) -> Result<(), Status> {
    let mut status = Map::new();
    if old.conditions != new.conditions {
        status.insert("conditions".to_owned(), json!(new.conditions));
    }
    if old.scheduler_observed_generation != new.scheduler_observed_generation {
        status.insert("schedulerObservedGeneration".to_owned(), json!(new.scheduler_observed_generation));
    }
    if old.scheduler_observed_affinity_name != new.scheduler_observed_affinity_name {
        status.insert("schedulerObservingAffinityName".to_owned(), json!(new.scheduler_observed_affinity_name));
    }
    if old.last_scheduled_time != new.last_scheduled_time {
        status.insert("lastScheduledTime".to_owned(), json!(new.last_scheduled_time));
    }
    let metadata = json!({"resourceVersion": current.resource_version(), "uid": current.uid()});
    let patch = Patch::merge(json!({"metadata": metadata, "status": status}));
    let target = scheduler.mirror_of(&binding.key).target(&binding.key).subresource(Subresource::Status);
    let written = scheduler.client.patch(target, patch, WriteOptions::managed_by(FIELD_MANAGER)).await?;
    scheduler.mirror_of(&binding.key).note(&written);
    Ok(())
}

/// Records that the current placement is the result of the newest spec.
async fn note_generation(scheduler: &BindingScheduler, binding: &Binding) -> Result<(), Status> {
    let old = &binding.status;
    let mut new = BindingStatus { scheduler_observed_generation: Some(binding.object.generation()), ..old.clone() };
    // A binding that failed to schedule and kept its clusters counts as scheduled again; no other code path reports
    // this.
    let scheduled = find_condition(&old.conditions, CONDITION_SCHEDULED);
    let is_refused = scheduled.is_some_and(|condition| condition.is_false());
    if scheduler.is_resilient && is_refused && !binding.spec.clusters.is_empty() {
        set_condition(
            &mut new.conditions,
            condition(&ScheduleReport::success(), &format_seconds(scheduler.clock.now())),
        );
    }
    patch_status(scheduler, binding, &binding.object, old, &new).await
}

fn update_metrics(
    scheduler: &BindingScheduler,
    binding: &Binding,
    decision: &Decision,
    report: &ScheduleReport,
    is_changed: bool,
) {
    match &decision.result {
        Ok(targets) if report.is_scheduled && is_changed => {
            let list: Vec<String> =
                targets.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
            let colon = if binding.key.namespace.is_empty() { "" } else { ":" };
            let text = format!("{SUCCESS_MESSAGE} Result{colon} {{{}}}", list.join(", "));
            scheduler.record_success(&binding.object, &text);
        }
        Ok(_) if report.is_scheduled => {}
        _ => scheduler.record_failure(&binding.object, &report.message),
    }
}

/// Retries after a failed write. A conflict is not an error: the binding has changed and is reconciled again once the
/// mirror has the new version. Retrying earlier would repeat the same decision on the same input.
async fn failed(scheduler: &BindingScheduler, binding: &Binding, error: &Status) -> ScheduleOutcome {
    if error.is_conflict()
        && let Ok(Some(current)) = scheduler.client.find(scheduler.mirror_of(&binding.key).target(&binding.key)).await
    {
        scheduler.mirror_of(&binding.key).note(&current);
    }
    if error.is_not_found() || is_namespace_terminating(error) {
        return ScheduleOutcome::Done;
    }
    if !error.is_conflict() {
        tracing::warn!(binding = %binding.key, %error, "failed to write placement");
    }
    ScheduleOutcome::Failed
}

fn is_namespace_terminating(error: &Status) -> bool {
    let causes = error.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
