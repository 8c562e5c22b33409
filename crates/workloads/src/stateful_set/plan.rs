//! One reconcile step of a StatefulSet: pods to create, update and delete, in order or in parallel.

use std::sync::Arc;

use jiff::Timestamp;
use object::Object;
use serde_json::{Map, Value};

use crate::pods::Pod;
use crate::stateful_set::retention::{ClaimOwners, ClaimRetention, belongs_to_earlier_pod};
use crate::stateful_set::spec::{
    POD_NAME_LABEL, REVISION_LABEL, StatefulSetSpec, StatefulSetStrategy, claim_name, claim_templates, ordinal_of,
};

/// An action on one pod.
#[derive(Clone, Debug)]
pub enum StatefulSetStep {
    Create {
        ordinal: i64,
        from: From,
    },
    /// Create the claims of a pod that waits for them.
    EnsureClaims {
        ordinal: i64,
        pod: Pod,
    },
    /// Restore missing identity labels.
    Identify {
        ordinal: i64,
        pod: Pod,
    },
    /// Fix the owners of claims.
    Retain {
        ordinal: i64,
        pod: Pod,
    },
    Delete {
        pod: Pod,
    },
}

/// The revision a pod is created from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Current,
    Update,
}

#[derive(Debug, Default)]
pub struct StatefulSetPlan {
    pub steps: Vec<StatefulSetStep>,
    pub status: Value,
}

pub type ClaimLookup<'a> = dyn Fn(&str) -> Option<Arc<Object>> + Send + Sync + 'a;

pub struct StatefulSetInputs<'a> {
    pub set: &'a Object,
    pub spec: StatefulSetSpec,
    pub pods: &'a [Pod],
    /// The names of both revisions.
    pub current: &'a str,
    pub update: &'a str,
    pub collisions: i64,
    pub claims: &'a ClaimLookup<'a>,
    pub now: Timestamp,
}

/// Reports whether later steps must wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    Wait,
}

pub fn plan(inputs: &StatefulSetInputs<'_>) -> StatefulSetPlan {
    let mut counts = inputs.count();
    let mut steps = Vec::new();
    if !inputs.set.is_deleting() {
        let slots = inputs.slots();
        let condemned = inputs.condemned();
        let flow = inputs.plan_slots(&slots, &mut steps);
        let flow = if flow == Flow::GoOn { inputs.plan_condemned(&slots, &condemned, &mut steps) } else { flow };
        if flow == Flow::GoOn {
            let outdated = inputs.plan_update(&slots);
            counts.current = (counts.current - outdated.len() as i64).max(0);
            steps.extend(outdated.into_iter().map(|pod| StatefulSetStep::Delete { pod }));
        }
    }
    StatefulSetPlan { steps, status: inputs.status(&counts) }
}

#[derive(Clone, Copy, Default)]
struct Counts {
    replicas: i64,
    ready: i64,
    available: i64,
    current: i64,
    updated: i64,
}

impl StatefulSetInputs<'_> {
    /// Returns the pod of each desired ordinal.
    fn slots(&self) -> Vec<(i64, Option<Pod>)> {
        let ordinals = self.spec.start..self.spec.start + self.spec.replicas;
        let pod = |ordinal: i64| self.pods.iter().find(|pod| ordinal_of(self.set, pod) == Some(ordinal)).cloned();
        ordinals.map(|ordinal| (ordinal, pod(ordinal))).collect()
    }

    /// Returns the pods to delete, highest ordinal first.
    fn condemned(&self) -> Vec<(i64, Pod)> {
        let pods = self.pods.iter().filter_map(|pod| Some((ordinal_of(self.set, pod)?, pod.clone())));
        let mut condemned: Vec<_> = pods.filter(|(ordinal, _)| !self.spec.has_ordinal(*ordinal)).collect();
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        condemned
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.spec.ready_seconds_min, self.now)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        pod.is_deleting() || !self.is_available(pod)
    }

    fn is_running_and_ready(&self, pod: &Pod) -> bool {
        pod.phase() == "Running" && pod.is_ready()
    }

    fn plan_slots(&self, slots: &[(i64, Option<Pod>)], steps: &mut Vec<StatefulSetStep>) -> Flow {
        for (ordinal, pod) in slots {
            let flow = match pod {
                Some(pod) => self.plan_pod(*ordinal, pod, steps),
                None => self.plan_missing(*ordinal, steps),
            };
            if flow == Flow::Wait && self.spec.is_ordered {
                return Flow::Wait;
            }
        }
        Flow::GoOn
    }

    fn plan_missing(&self, ordinal: i64, steps: &mut Vec<StatefulSetStep>) -> Flow {
        if !self.has_stale_claim(ordinal) {
            steps.push(StatefulSetStep::Create { ordinal, from: self.revision_for(ordinal) });
        }
        Flow::Wait
    }

    /// A claim that is deleted with an earlier pod must be gone before the next pod is created.
    fn has_stale_claim(&self, ordinal: i64) -> bool {
        let name = format!("{}-{ordinal}", self.set.name());
        let claim = |template: &Value| (self.claims)(&claim_name(self.set, template, ordinal));
        ClaimRetention::of(self.set).deletes_with_scale
            && claim_templates(self.set)
                .iter()
                .filter_map(claim)
                .any(|claim| belongs_to_earlier_pod(&claim, &name, None))
    }

    fn revision_for(&self, ordinal: i64) -> From {
        let StatefulSetStrategy::Rolling { partition, .. } = self.spec.strategy else { return From::Update };
        let kept = partition.unwrap_or_else(|| self.set.i64_at(&["status", "currentReplicas"]).unwrap_or(0));
        if ordinal < self.spec.start + kept { From::Current } else { From::Update }
    }

    fn plan_pod(&self, ordinal: i64, pod: &Pod, steps: &mut Vec<StatefulSetStep>) -> Flow {
        if pod.is_terminal() {
            if !pod.is_deleting() {
                steps.push(StatefulSetStep::Delete { pod: pod.clone() });
            }
            return Flow::Wait;
        }
        let has_claims = !claim_templates(self.set).is_empty();
        if has_claims && pod.phase() == "Pending" && self.is_claim_missing(ordinal) {
            steps.push(StatefulSetStep::EnsureClaims { ordinal, pod: pod.clone() });
        }
        let is_settled = !pod.is_deleting() && self.is_running_and_ready(pod) && self.is_available(pod);
        if self.spec.is_ordered && !is_settled {
            return Flow::Wait;
        }
        if pod.label(POD_NAME_LABEL) != Some(pod.name()) {
            steps.push(StatefulSetStep::Identify { ordinal, pod: pod.clone() });
        }
        if !self.has_right_claims(ordinal, pod) {
            steps.push(StatefulSetStep::Retain { ordinal, pod: pod.clone() });
        }
        Flow::GoOn
    }

    fn is_claim_missing(&self, ordinal: i64) -> bool {
        let mut templates = claim_templates(self.set).iter();
        templates.any(|template| (self.claims)(&claim_name(self.set, template, ordinal)).is_none())
    }

    fn has_right_claims(&self, ordinal: i64, pod: &Pod) -> bool {
        let retention = ClaimRetention::of(self.set);
        let is_scaled_down = !self.spec.has_ordinal(ordinal);
        let is_right = |claim: Arc<Object>| {
            !matches!(retention.plan_owners(&claim, self.set, pod, is_scaled_down), ClaimOwners::Should(_))
        };
        let mut templates = claim_templates(self.set).iter();
        templates.all(|template| (self.claims)(&claim_name(self.set, template, ordinal)).is_none_or(is_right))
    }

    fn plan_condemned(
        &self,
        slots: &[(i64, Option<Pod>)],
        condemned: &[(i64, Pod)],
        steps: &mut Vec<StatefulSetStep>,
    ) -> Flow {
        for (ordinal, pod) in condemned.iter().filter(|(ordinal, pod)| !self.has_right_claims(*ordinal, pod)) {
            steps.push(StatefulSetStep::Retain { ordinal: *ordinal, pod: pod.clone() });
        }
        let existing = slots.iter().filter_map(|(_, pod)| pod.as_ref());
        let mut all = existing.chain(condemned.iter().rev().map(|(_, pod)| pod));
        let has_missing = slots.iter().any(|(_, pod)| pod.is_none());
        let first_unavailable = if has_missing { None } else { all.find(|pod| self.is_unavailable(pod)) };
        for (_, pod) in condemned {
            if !self.spec.is_ordered {
                if !pod.is_deleting() {
                    steps.push(StatefulSetStep::Delete { pod: pod.clone() });
                }
                continue;
            }
            let is_first = first_unavailable.is_some_and(|first| first.uid() == pod.uid());
            let is_settled = self.is_running_and_ready(pod) && self.is_available(pod);
            if !pod.is_deleting() && (is_settled || is_first) {
                steps.push(StatefulSetStep::Delete { pod: pod.clone() });
            }
            return Flow::Wait;
        }
        Flow::GoOn
    }

    /// Returns the outdated pods that may be deleted now, highest ordinal first.
    fn plan_update(&self, slots: &[(i64, Option<Pod>)]) -> Vec<Pod> {
        let StatefulSetStrategy::Rolling { partition, unavailable_max } = self.spec.strategy else { return Vec::new() };
        let partition = usize::try_from(partition.unwrap_or(0)).unwrap_or(0);
        let candidates = slots.iter().skip(partition).rev().map(|(_, pod)| pod.as_ref());
        let is_outdated = |pod: &Pod| pod.label(REVISION_LABEL) != Some(self.update) && !pod.is_deleting();
        match unavailable_max {
            None => {
                for pod in candidates {
                    match pod {
                        Some(pod) if is_outdated(pod) => return vec![pod.clone()],
                        Some(pod) if !self.is_unavailable(pod) => {}
                        _ => return Vec::new(),
                    }
                }
                Vec::new()
            }
            Some(unavailable_max) => {
                let is_unavailable = |pod: Option<&Pod>| pod.is_none_or(|pod| self.is_unavailable(pod));
                let unavailable = slots.iter().filter(|(_, pod)| is_unavailable(pod.as_ref())).count();
                let budget = usize::try_from(unavailable_max).unwrap_or(0).saturating_sub(unavailable);
                candidates.flatten().filter(|pod| is_outdated(pod)).take(budget).cloned().collect()
            }
        }
    }

    fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for pod in self.pods.iter().filter(|pod| ordinal_of(self.set, pod).is_some()) {
            counts.replicas += 1;
            if self.is_running_and_ready(pod) {
                counts.ready += 1;
                counts.available += i64::from(self.is_available(pod));
            }
            if !pod.is_deleting() {
                counts.current += i64::from(pod.label(REVISION_LABEL) == Some(self.current));
                counts.updated += i64::from(pod.label(REVISION_LABEL) == Some(self.update));
            }
        }
        counts
    }

    fn status(&self, counts: &Counts) -> Value {
        let mut counts = *counts;
        let mut current = self.current;
        let replicas = self.spec.replicas;
        let is_rolling = matches!(self.spec.strategy, StatefulSetStrategy::Rolling { .. });
        if is_rolling && (counts.updated, counts.ready, counts.replicas) == (replicas, replicas, replicas) {
            counts.current = counts.updated;
            current = self.update;
        }
        let mut status = Map::new();
        if let Some(conditions) = self.set.get(&["status", "conditions"]) {
            status.insert("conditions".into(), conditions.clone());
        }
        status.insert("observedGeneration".into(), self.set.generation().into());
        status.insert("replicas".into(), counts.replicas.into());
        status.insert("availableReplicas".into(), counts.available.into());
        status.insert("currentRevision".into(), current.into());
        status.insert("updateRevision".into(), self.update.into());
        status.insert("collisionCount".into(), self.collisions.into());
        for (field, count) in
            [("readyReplicas", counts.ready), ("currentReplicas", counts.current), ("updatedReplicas", counts.updated)]
        {
            if count > 0 {
                status.insert(field.to_owned(), count.into());
            }
        }
        Value::Object(status)
    }
}
