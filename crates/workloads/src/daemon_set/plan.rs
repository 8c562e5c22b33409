//! Decides which nodes get a daemon pod, and which pods are deleted or updated.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use object::Object;
use serde_json::{Map, Value};

use crate::daemon_set::fit::Fit;
use crate::daemon_set::spec::{DaemonSetSpec, DaemonSetStrategy, node_of};
use crate::pods::Pod;

/// The changes to make.
#[derive(Clone, Debug, Default)]
pub struct DaemonSetPlan {
    /// Nodes that need a pod.
    pub create_on: Vec<String>,
    pub delete: Vec<Pod>,
    /// Failed pods with their nodes; the backoff decides when they are deleted.
    pub failed: Vec<(String, Pod)>,
    /// Pods that succeeded, which daemons should not.
    pub succeeded: Vec<(String, Pod)>,
}

impl DaemonSetPlan {
    pub fn is_empty(&self) -> bool {
        self.create_on.is_empty() && self.delete.is_empty() && self.failed.is_empty() && self.succeeded.is_empty()
    }
}

/// A DaemonSet with its nodes and the pods on them.
pub struct DaemonPods<'a> {
    pub spec: &'a DaemonSetSpec,
    pub fits: &'a BTreeMap<String, Fit>,
    pub by_node: BTreeMap<String, Vec<Pod>>,
    pub now: Timestamp,
}

impl<'a> DaemonPods<'a> {
    pub fn new(spec: &'a DaemonSetSpec, fits: &'a BTreeMap<String, Fit>, pods: &[Pod], now: Timestamp) -> Self {
        let mut by_node: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !(pod.is_terminal() && pod.is_deleting())) {
            if let Some(node) = node_of(pod) {
                by_node.entry(node.to_owned()).or_default().push(pod.clone());
            }
        }
        for pods in by_node.values_mut() {
            // Bound pods first, then by age.
            pods.sort_by(|a, b| {
                let by_age = || a.created().cmp(&b.created()).then_with(|| a.name().cmp(b.name()));
                a.node_name().is_empty().cmp(&b.node_name().is_empty()).then_with(by_age)
            });
        }
        Self { spec, fits, by_node, now }
    }

    /// Plans one pod on every eligible node and none elsewhere.
    pub fn plan(&self) -> DaemonSetPlan {
        let mut plan = DaemonSetPlan::default();
        for (node, fit) in self.fits {
            match self.by_node.get(node) {
                None if fit.should_run => plan.create_on.push(node.clone()),
                None => {}
                Some(pods) if fit.may_stay => self.plan_node(node, *fit, pods, &mut plan),
                Some(pods) => plan.delete.extend(pods.iter().filter(|pod| !pod.is_deleting()).cloned()),
            }
        }
        let elsewhere = self.by_node.iter().filter(|(node, _)| !self.fits.contains_key(*node));
        let waiting = elsewhere.flat_map(|(_, pods)| pods).filter(|pod| pod.node_name().is_empty());
        plan.delete.extend(waiting.filter(|pod| !pod.is_deleting()).cloned());
        plan
    }

    fn plan_node(&self, node: &str, fit: Fit, pods: &[Pod], plan: &mut DaemonSetPlan) {
        let mut running = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            match pod.phase() {
                "Failed" => plan.failed.push((node.to_owned(), pod.clone())),
                "Succeeded" => plan.succeeded.push((node.to_owned(), pod.clone())),
                _ => running.push(pod),
            }
        }
        if !self.spec.allows_surge() {
            plan.delete.extend(running.into_iter().skip(1).cloned());
            return;
        }
        match running.as_slice() {
            [] if fit.should_run => plan.create_on.push(node.to_owned()),
            [] | [_] => {}
            _ => self.plan_surge(&running, plan),
        }
    }

    /// An old and a new pod may run on a node until the new one is available.
    fn plan_surge(&self, running: &[&Pod], plan: &mut DaemonSetPlan) {
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().partition(|pod| self.spec.is_updated(pod));
        plan.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|pod| (*pod).clone()));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.is_ready() || self.is_available(new))
        {
            plan.delete.push((*old).clone());
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.spec.ready_seconds_min, self.now)
    }

    fn wanted(&self) -> i64 {
        self.fits.values().filter(|fit| fit.should_run).count() as i64
    }

    /// Replaces outdated pods as fast as the strategy allows.
    pub fn plan_update(&self) -> DaemonSetPlan {
        if self.spec.strategy == DaemonSetStrategy::OnDelete {
            return DaemonSetPlan::default();
        }
        let wanted = self.wanted();
        match self.spec.bounds(wanted) {
            (0, unavailable_max) => self.plan_replacing(unavailable_max),
            (surge_max, _) => self.plan_surging(surge_max, wanted),
        }
    }

    /// Returns the new and the old pod of a node; `None` if there is more than one of either.
    fn pair<'p>(&self, pods: &'p [Pod]) -> Option<(Option<&'p Pod>, Option<&'p Pod>)> {
        let alive = pods.iter().filter(|pod| !pod.is_deleting());
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = alive.partition(|pod| self.spec.is_updated(pod));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
    }

    fn plan_replacing(&self, unavailable_max: i64) -> DaemonSetPlan {
        let missing =
            self.fits.iter().filter(|(node, fit)| fit.should_run && !self.by_node.contains_key(*node)).count();
        let mut unavailable = missing as i64;
        let mut broken = Vec::new();
        let mut candidates = Vec::new();
        for pods in self.by_node.values() {
            match self.pair(pods) {
                Some((Some(new), None)) => unavailable += i64::from(!self.is_available(new)),
                Some((None, Some(old))) if self.is_available(old) => candidates.push(old.clone()),
                Some((None, Some(old))) => {
                    broken.push(old.clone());
                    unavailable += 1;
                }
                _ => unavailable += 1,
            }
        }
        let budget = usize::try_from(unavailable_max - unavailable).unwrap_or(0);
        broken.extend(candidates.into_iter().take(budget));
        DaemonSetPlan { delete: broken, ..DaemonSetPlan::default() }
    }

    fn plan_surging(&self, surge_max: i64, wanted: i64) -> DaemonSetPlan {
        let mut plan = DaemonSetPlan::default();
        let (mut surging, mut available) = (0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (node, pods) in &self.by_node {
            let Some((new, old)) = self.pair(pods) else {
                surging += 1;
                continue;
            };
            available += i64::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let should_run = self.fits.get(node).is_some_and(|fit| fit.should_run);
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) if should_run && !self.is_available(old) => plan.create_on.push(node.clone()),
                (None, Some(_)) if should_run => candidates.push(node.clone()),
                (None, Some(old)) if self.is_available(old) => misplaced.push(old.clone()),
                (None, Some(old)) => plan.delete.push(old.clone()),
                (Some(new), Some(old)) if self.is_available(new) => plan.delete.push(old.clone()),
                (Some(_), Some(_)) => surging += 1,
            }
        }
        let dispensable = usize::try_from(available - wanted).unwrap_or(0);
        plan.delete.extend(misplaced.into_iter().take(dispensable));
        let budget = usize::try_from(surge_max - surging).unwrap_or(0);
        plan.create_on.extend(candidates.into_iter().take(budget));
        plan
    }

    /// Computes the status.
    pub fn status(&self, set: &Object, collisions: Option<i64>) -> Value {
        let mut counts: HashMap<&str, i64> = HashMap::new();
        let mut count = |field: &'static str| *counts.entry(field).or_insert(0) += 1;
        for (node, fit) in self.fits {
            let pod = self.by_node.get(node).and_then(|pods| pods.first());
            match (fit.should_run, pod) {
                (true, pod) => {
                    count("desiredNumberScheduled");
                    let Some(pod) = pod else { continue };
                    count("currentNumberScheduled");
                    if pod.is_ready() {
                        count("numberReady");
                    }
                    if self.is_available(pod) {
                        count("numberAvailable");
                    }
                    if self.spec.is_updated(pod) {
                        count("updatedNumberScheduled");
                    }
                }
                (false, Some(_)) => count("numberMisscheduled"),
                (false, None) => {}
            }
        }
        let of = |field: &str| counts.get(field).copied().unwrap_or(0);
        let mut status = Map::new();
        for field in ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"] {
            status.insert(field.to_owned(), of(field).into());
        }
        let unavailable = of("desiredNumberScheduled") - of("numberAvailable");
        let optional = [
            ("updatedNumberScheduled", of("updatedNumberScheduled")),
            ("numberAvailable", of("numberAvailable")),
            ("numberUnavailable", unavailable),
            ("observedGeneration", set.generation()),
        ];
        for (field, count) in optional.into_iter().filter(|(_, count)| *count > 0) {
            status.insert(field.to_owned(), count.into());
        }
        if let Some(collisions) = collisions {
            status.insert("collisionCount".into(), collisions.into());
        }
        if let Some(conditions) = set.get(&["status", "conditions"]) {
            status.insert("conditions".into(), conditions.clone());
        }
        Value::Object(status)
    }
}

/// Returns the oldest unused revisions beyond the history limit.
pub fn surplus(
    revisions: &[Arc<Object>],
    used: &Object,
    pods: &[Pod],
    spec: &DaemonSetSpec,
    hash_label: &str,
) -> Vec<Arc<Object>> {
    let past: Vec<_> = revisions.iter().filter(|revision| revision.name() != used.name()).collect();
    let Ok(history_max) = usize::try_from(spec.history_max) else { return Vec::new() };
    let is_live = |revision: &&&Arc<Object>| {
        let hash = revision.label(hash_label);
        hash.is_some() && pods.iter().any(|pod| pod.label(hash_label) == hash)
    };
    let deleting = past.iter().filter(|revision| !is_live(revision)).take(past.len().saturating_sub(history_max));
    deleting.map(|revision| Arc::clone(revision)).collect()
}
