//! Decides how many pods to create or which to delete, and computes the status.

use jiff::Timestamp;
use object::Object;
use object::conditions::{self, NewCondition};
use reconcile::ReconcileError;
use serde_json::{Map, Value};

use crate::conditions::{plain, set as set_condition};
use crate::pod_control::BURST_MAX;
use crate::pods::Pod;
use crate::ranking::{Ranking, sort_for_deletion};

#[derive(Clone, Debug)]
pub enum Scale {
    Enough,
    Create(usize),
    Delete(Vec<Pod>),
}

pub fn plan_scale(mut active: Vec<Pod>, wanted: usize, ranking: &Ranking<'_>) -> Scale {
    let have = active.len();
    if have < wanted {
        return Scale::Create((wanted - have).min(BURST_MAX));
    }
    let surplus = (have - wanted).min(BURST_MAX);
    if surplus == 0 {
        return Scale::Enough;
    }
    if surplus < have {
        sort_for_deletion(&mut active, ranking);
        active.truncate(surplus);
    }
    Scale::Delete(active)
}

/// Computes the status of a set from its previous status and its pods.
pub fn plan_status(
    set: &Object,
    pods: &[Pod],
    counts_terminating: bool,
    failure: Option<&ReconcileError>,
    scale: &Scale,
    now: Timestamp,
) -> Value {
    let ready_seconds_min = set.i64_at(&["spec", "minReadySeconds"]).unwrap_or(0);
    let active = || pods.iter().filter(|pod| pod.is_active());
    let labels = set.get(&["spec", "template", "metadata", "labels"]).and_then(Value::as_object);
    let is_fully_labeled = |pod: &&Pod| {
        labels.into_iter().flatten().all(|(key, value)| pod.label(key).is_some_and(|label| *value == *label))
    };
    let mut desired = Object::default();
    let conditions = set.get(&["status", "conditions"]).filter(|c| c.as_array().is_some_and(|c| !c.is_empty()));
    if let Some(conditions) = conditions {
        desired.set(&["status", "conditions"], conditions.clone());
    }
    match failure {
        Some(error) => {
            let reason = if matches!(scale, Scale::Delete(_)) { "FailedDelete" } else { "FailedCreate" };
            if conditions::find(&desired, "ReplicaFailure").is_none() {
                let message = error.to_string();
                let failure = NewCondition { kind: "ReplicaFailure", status: "True", reason, message: &message };
                set_condition(&mut desired, plain(&failure, now));
            }
        }
        None => conditions::remove(&mut desired, "ReplicaFailure"),
    }
    let Some(Value::Object(mut status)) = desired.remove(&["status"]).or(Some(Value::Object(Map::new()))) else {
        return Value::Null;
    };
    status.insert("observedGeneration".into(), set.generation().into());
    status.insert("replicas".into(), active().count().into());
    let mut put = |field: &str, count: usize| {
        if count > 0 {
            status.insert(field.to_owned(), count.into());
        }
    };
    put("fullyLabeledReplicas", active().filter(is_fully_labeled).count());
    put("readyReplicas", active().filter(|pod| pod.is_ready()).count());
    put("availableReplicas", active().filter(|pod| pod.is_available(ready_seconds_min, now)).count());
    if counts_terminating {
        status.insert("terminatingReplicas".into(), pods.iter().filter(|pod| pod.is_terminating()).count().into());
    }
    Value::Object(status)
}
