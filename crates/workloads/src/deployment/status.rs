//! The status of a Deployment: counts and the progress of its rollout.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object::conditions::{ConditionView, find, remove};
use object::{Object, time};
use serde_json::{Map, Value, json};

use crate::conditions;
use crate::deployment::sets::RolloutSet;
use crate::deployment::spec::DeploymentSpec;

const PROGRESSING: &str = "Progressing";
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// The status under construction; conditions first, then counts.
pub struct DeploymentProgress {
    status: Object,
    now: Timestamp,
}

fn count(object: &Object, field: &str) -> i64 {
    object.i64_at(&["status", field]).unwrap_or(0)
}

/// Reports whether all replicas are updated and available, and the status is current.
pub fn is_complete(deployment: &Object, spec: &DeploymentSpec) -> bool {
    is_done(deployment, deployment, spec)
}

fn is_done(deployment: &Object, status: &Object, spec: &DeploymentSpec) -> bool {
    ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|field| count(status, field) == spec.replicas)
        && count(status, "observedGeneration") >= deployment.generation()
}

impl DeploymentProgress {
    pub fn of(deployment: &Object, now: Timestamp) -> Self {
        let mut status = Object::default();
        if let Some(conditions) = deployment.get(&["status", "conditions"]) {
            status.set(&["status", "conditions"], conditions.clone());
        }
        Self { status, now }
    }

    pub fn into_status(self) -> Object {
        self.status
    }

    fn progressing(&self) -> Option<ConditionView<'_>> {
        find(&self.status, PROGRESSING)
    }

    fn reason(&self) -> &str {
        self.progressing().map_or("", ConditionView::reason)
    }

    /// Sets a condition as Deployments do: the transition time changes only with the status.
    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let now = time::format_seconds(self.now);
        let old = find(&self.status, kind).filter(|old| old.status() == status);
        let since =
            old.map(|old| old.text("lastTransitionTime")).filter(|since| !since.is_empty()).unwrap_or(&now).to_owned();
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastUpdateTime": now, "lastTransitionTime": since});
        conditions::set(&mut self.status, condition);
    }

    /// A paused Deployment makes no progress and must not exceed its deadline.
    pub fn note_pause(&mut self, spec: &DeploymentSpec) {
        if spec.deadline_seconds.is_none() || self.reason() == TIMED_OUT {
            return;
        }
        match (spec.is_paused, self.reason() == PAUSED) {
            (true, false) => self.set_condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused"),
            (false, true) => self.set_condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed"),
            _ => {}
        }
    }

    pub fn note_found(&mut self, spec: &DeploymentSpec, set: &str) {
        if spec.deadline_seconds.is_some() && self.progressing().is_none() {
            let message = format!("Found new replica set \"{set}\"");
            self.set_condition(PROGRESSING, "True", "FoundNewReplicaSet", &message);
        }
    }

    pub fn note_created(&mut self, spec: &DeploymentSpec, set: &str) {
        if spec.deadline_seconds.is_some() {
            let message = format!("Created new replica set \"{set}\"");
            self.set_condition(PROGRESSING, "True", "NewReplicaSetCreated", &message);
        }
    }

    /// Sets the counts and the Available condition.
    pub fn tally(&mut self, deployment: &Object, spec: &DeploymentSpec, sets: &[RolloutSet], new: Option<usize>) {
        let sum = |of: fn(&RolloutSet) -> i64| sets.iter().map(of).sum::<i64>();
        let available = sum(RolloutSet::available);
        if available >= spec.replicas - spec.unavailable_max() {
            let message = "Deployment has minimum availability.";
            self.set_condition("Available", "True", "MinimumReplicasAvailable", message);
        } else {
            let message = "Deployment does not have minimum availability.";
            self.set_condition("Available", "False", "MinimumReplicasUnavailable", message);
        }
        let conditions = self.status.get(&["status", "conditions"]).cloned().unwrap_or_default();
        let mut status = Map::new();
        status.insert("conditions".into(), conditions);
        let mut put = |field: &str, count: i64| {
            if count > 0 {
                status.insert(field.to_owned(), count.into());
            }
        };
        put("observedGeneration", deployment.generation());
        put("replicas", sum(RolloutSet::actual));
        put("updatedReplicas", new.map_or(0, |new| sets[new].actual()));
        put("readyReplicas", sum(RolloutSet::ready));
        put("availableReplicas", available);
        put("unavailableReplicas", sum(|set| set.replicas) - available);
        let terminating: Option<i64> = sets.iter().filter_map(RolloutSet::terminating).sum();
        if let Some(terminating) = terminating {
            status.insert("terminatingReplicas".into(), terminating.into());
        }
        if let Some(collisions) = deployment.get(&["status", "collisionCount"]) {
            status.insert("collisionCount".into(), collisions.clone());
        }
        self.status.set(&["status"], status);
    }

    /// Sets the Progressing condition, after the counts.
    pub fn judge(&mut self, deployment: &Object, spec: &DeploymentSpec, sets: &[RolloutSet], new: Option<usize>) {
        match spec.deadline_seconds {
            None => remove(&mut self.status, PROGRESSING),
            Some(deadline_seconds) => self.judge_progress(deployment, spec, deadline_seconds, sets, new),
        }
        match failure_of(sets, new) {
            Some(failure) => conditions::set(&mut self.status, failure),
            None => remove(&mut self.status, "ReplicaFailure"),
        }
    }

    fn judge_progress(
        &mut self,
        deployment: &Object,
        spec: &DeploymentSpec,
        deadline_seconds: i64,
        sets: &[RolloutSet],
        new: Option<usize>,
    ) {
        let is_settled = count(&self.status, "replicas") == count(&self.status, "updatedReplicas")
            && self.reason() == NEW_SET_AVAILABLE;
        if is_settled {
            return;
        }
        let subject = match new {
            Some(new) => format!("ReplicaSet \"{}\"", sets[new].name()),
            None => format!("Deployment \"{}\"", deployment.name()),
        };
        if is_done(deployment, &self.status, spec) {
            let message = format!("{subject} has successfully progressed.");
            self.set_condition(PROGRESSING, "True", NEW_SET_AVAILABLE, &message);
        } else if self.has_progressed(deployment) {
            self.note_progress(&format!("{subject} is progressing."));
        } else if self.has_timed_out(deadline_seconds) {
            let message = format!("{subject} has timed out progressing.");
            self.set_condition(PROGRESSING, "False", TIMED_OUT, &message);
        }
    }

    fn has_progressed(&self, deployment: &Object) -> bool {
        let old = |object: &Object| count(object, "replicas") - count(object, "updatedReplicas");
        let grew = |field| count(&self.status, field) > count(deployment, field);
        grew("updatedReplicas")
            || old(&self.status) < old(deployment)
            || grew("readyReplicas")
            || grew("availableReplicas")
    }

    /// Each sign of progress restarts the deadline, also with an unchanged reason.
    fn note_progress(&mut self, message: &str) {
        let now = time::format_seconds(self.now);
        let old = self.progressing().filter(|old| old.is_true());
        let since =
            old.map(|old| old.text("lastTransitionTime")).filter(|since| !since.is_empty()).unwrap_or(&now).to_owned();
        let condition = json!({"type": PROGRESSING, "status": "True", "reason": "ReplicaSetUpdated",
            "message": message, "lastUpdateTime": now, "lastTransitionTime": since});
        conditions::replace(&mut self.status, PROGRESSING, condition);
    }

    fn has_timed_out(&self, deadline_seconds: i64) -> bool {
        match self.reason() {
            NEW_SET_AVAILABLE => false,
            TIMED_OUT => true,
            _ => self.deadline(deadline_seconds).is_some_and(|deadline| deadline < self.now),
        }
    }

    fn deadline(&self, deadline_seconds: i64) -> Option<Timestamp> {
        let updated = time::parse(self.progressing()?.text("lastUpdateTime"))?;
        updated.checked_add(SignedDuration::from_secs(deadline_seconds)).ok()
    }

    /// Returns when to check the progress deadline.
    pub fn recheck(&self, deployment: &Object, spec: &DeploymentSpec) -> Option<Duration> {
        let deadline = self.deadline(spec.deadline_seconds?)?;
        if spec.is_paused || self.reason() == TIMED_OUT || is_done(deployment, &self.status, spec) {
            return None;
        }
        let left = deadline.duration_since(self.now);
        let left = if left.is_positive() { left.unsigned_abs() } else { Duration::ZERO };
        // Timestamps have a resolution of one second.
        Some(left + Duration::from_secs(1))
    }
}

/// Returns the replica failure condition of a set, preferring the new set.
fn failure_of(sets: &[RolloutSet], new: Option<usize>) -> Option<Value> {
    let sets = new.map(|new| &sets[new]).into_iter().chain(sets);
    let failure = sets.filter_map(|set| find(&set.object, "ReplicaFailure")).next()?;
    let mut failure = failure.to_value();
    failure["lastUpdateTime"] = failure["lastTransitionTime"].clone();
    Some(failure)
}
