//! The status of a work: what it becomes of what was done, and the one write that says so.

use std::sync::Arc;

use api::core::{Condition, find_condition, set_condition};
use api::safe_mode;
use api::work::{
    ApplyFailure, CONDITION_APPLIED, CONDITION_APPLY_FAILURE, CONDITION_DISPATCHING, ManifestStatus, WORKS, WorkStatus,
};
use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use object::request::Subresource;
use object::{Object, Status, error_list};
use reconcile::commit::merge_difference;
use serde_json::{Value, json};

use crate::member::FIELD_MANAGER;

/// The result of applying the manifests of a Work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub manifests: usize,
    pub applied: usize,
    /// Something was written into the member.
    pub has_written: bool,
    /// A missing object existed before.
    pub is_recreation: bool,
    /// In the order of the manifests.
    pub errors: Vec<String>,
    /// The code of the first error.
    pub failure: Option<ApplyFailure>,
}

pub fn is_applied(status: &WorkStatus) -> bool {
    find_condition(&status.conditions, CONDITION_APPLIED).is_some_and(Condition::is_true)
}

/// The dispatching state of a Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatching {
    Yes,
    Suspended,
    /// By safe mode: what it would do.
    Held(String),
    Unchanged,
}

/// Reports whether safe mode holds the Work back from its member.
pub fn is_held(status: &WorkStatus) -> bool {
    find_condition(&status.conditions, CONDITION_DISPATCHING).is_some_and(|held| held.reason == safe_mode::REASON)
}

/// Says whether the work is sent; true when that is news.
pub fn set_dispatching(status: &mut WorkStatus, dispatching: &Dispatching, now: &str) -> bool {
    let held;
    let (value, reason, message) = match dispatching {
        Dispatching::Suspended => ("False", "SuspendDispatching", "Work dispatching is in a suspended state."),
        Dispatching::Yes => ("True", "Dispatching", "Work is being dispatched to member clusters."),
        Dispatching::Held(what) => {
            held = format!("{}: {what}", safe_mode::HELD_BACK);
            ("False", safe_mode::REASON, held.as_str())
        }
        Dispatching::Unchanged => return false,
    };
    let old = find_condition(&status.conditions, CONDITION_DISPATCHING);
    let is_same = |old: &Condition| {
        let is_ours = old.reason == safe_mode::REASON || reason == safe_mode::REASON;
        old.status == value && (!is_ours || (old.reason == reason && old.message == message))
    };
    if old.is_some_and(is_same) {
        return false;
    }
    set_condition(&mut status.conditions, condition(CONDITION_DISPATCHING, value, reason, message, now))
}

/// Says how applying went. A work that was applied and needed nothing is left as it is.
pub fn set_applied(status: &mut WorkStatus, outcome: &Outcome, now: &str) {
    let (value, reason, message) = match (outcome.errors.is_empty(), outcome.is_recreation) {
        (true, _) if is_applied(status) && !outcome.has_written => return,
        (true, false) => ("True", "AppliedSuccessful", "Manifest has been successfully applied".to_owned()),
        (true, true) => ("True", "ReCreateSuccessful", "Manifest has been successfully applied".to_owned()),
        (false, true) => ("False", "ReCreateFailed", error_list::joined(&outcome.errors)),
        (false, false) => ("False", "AppliedFailed", failure(outcome)),
    };
    set_condition(&mut status.conditions, condition(CONDITION_APPLIED, value, reason, &message, now));
    match outcome.failure {
        None => status.conditions.retain(|condition| condition.kind != CONDITION_APPLY_FAILURE),
        Some(failure) => {
            let code = condition(CONDITION_APPLY_FAILURE, "True", failure.reason(), "See the condition Applied.", now);
            set_condition(&mut status.conditions, code);
        }
    }
}

fn failure(outcome: &Outcome) -> String {
    let Outcome { applied, manifests, errors, .. } = outcome;
    format!("Failed to apply all manifests ({applied}/{manifests}): {}", error_list::joined(errors))
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        observed_generation: None,
        last_transition_time: now.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// Returns the previous status of a manifest.
pub fn manifest_status(status: &WorkStatus, ordinal: usize) -> Option<&ManifestStatus> {
    status.manifest_statuses.iter().find(|known| usize::try_from(known.identifier.ordinal) == Ok(ordinal))
}

/// Writes the status if it differs; the work after the write, `None` when there was nothing to write.
///
/// Only we write the status of works, so no version has to match: a new spec meanwhile is no reason to try again.
pub async fn commit(plane: &ClusterClient, work: &Object, next: &WorkStatus) -> Result<Option<Arc<Object>>, Status> {
    let empty = json!({});
    let current = work.get(&["status"]).unwrap_or(&empty);
    let mut desired = current.clone();
    set_list(&mut desired, "conditions", serde_json::to_value(&next.conditions).map_err(Status::internal)?);
    let statuses = serde_json::to_value(&next.manifest_statuses).map_err(Status::internal)?;
    set_list(&mut desired, "manifestStatuses", statuses);
    let Some(difference) = merge_difference(current, &desired) else { return Ok(None) };
    let body = json!({"metadata": {"uid": work.uid()}, "status": difference});
    let target = ResourceRef::of(&WORKS.gvr(), work).subresource(Subresource::Status);
    plane.patch(target, Patch::merge(body), WriteOptions::managed_by(FIELD_MANAGER)).await.map(Some)
}

fn set_list(status: &mut Value, field: &str, list: Value) {
    let Some(map) = status.as_object_mut() else { return };
    if list.as_array().is_some_and(Vec::is_empty) {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn applied(status: &WorkStatus) -> String {
        let found = find_condition(&status.conditions, CONDITION_APPLIED);
        found.map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default()
    }

    #[test]
    fn the_applied_condition_describes_the_result() {
        let good = Outcome { manifests: 1, applied: 1, ..Outcome::default() };
        let written = Outcome { has_written: true, ..good.clone() };
        let recreated = Outcome { is_recreation: true, ..written.clone() };
        let failure = Some(ApplyFailure::Forbidden);
        let failed = Outcome { manifests: 2, applied: 1, errors: vec!["no".into()], failure, ..Outcome::default() };
        let failed_twice = Outcome { applied: 0, errors: vec!["a".into(), "b".into(), "a".into()], ..failed.clone() };
        let not_recreated = Outcome { is_recreation: true, ..failed.clone() };
        let mut status = WorkStatus::default();
        for (outcome, expected) in [
            (&good, "True/AppliedSuccessful/Manifest has been successfully applied"),
            (&recreated, "True/ReCreateSuccessful/Manifest has been successfully applied"),
            // Nothing happened since.
            (&good, "True/ReCreateSuccessful/Manifest has been successfully applied"),
            (&written, "True/AppliedSuccessful/Manifest has been successfully applied"),
            (&failed, "False/AppliedFailed/Failed to apply all manifests (1/2): no"),
            (&failed_twice, "False/AppliedFailed/Failed to apply all manifests (0/2): [a, b]"),
            (&not_recreated, "False/ReCreateFailed/no"),
            (&good, "True/AppliedSuccessful/Manifest has been successfully applied"),
        ] {
            set_applied(&mut status, outcome, NOW);
            assert_eq!(applied(&status), expected);
            let code = find_condition(&status.conditions, CONDITION_APPLY_FAILURE).map(|code| code.reason.as_str());
            assert_eq!(code, outcome.failure.map(ApplyFailure::reason), "{outcome:?}");
        }
    }

    #[test]
    fn suspension_is_reported_once() {
        let mut status = WorkStatus::default();
        let (yes, suspended) = (Dispatching::Yes, Dispatching::Suspended);
        let held = |what: &str| Dispatching::Held(what.to_owned());
        let steps = [
            (&yes, true),
            (&yes, false),
            (&suspended, true),
            (&suspended, false),
            (&held("a"), true),
            (&held("a"), false),
            (&held("b"), true),
            (&Dispatching::Unchanged, false),
            (&yes, true),
        ];
        for (step, expected) in steps {
            assert_eq!(set_dispatching(&mut status, step, NOW), expected, "{step:?}");
        }
        assert_eq!(status.conditions.len(), 1);
        assert_eq!(status.conditions[0].message, "Work is being dispatched to member clusters.");
    }
}
