//! Unschedulable pods, and the events that make a retry worthwhile.

use std::collections::HashMap;
use std::time::Duration;

use placement::Pod;
use reconcile::{ObjectKey, Priority};
use tokio::time::Instant;

/// Bounds of the exponential backoff of a pod.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// An event that may make pods schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnblockingEvent {
    /// A node was added or changed.
    Node,
    /// A pod left its node, or gave up its nomination.
    PodLeft,
    /// A pod was bound: others may have affinity to it.
    PodCame,
    /// Claims, volumes or classes changed.
    Storage,
}

/// Bounded by the number of pods without a node.
#[derive(Default)]
pub struct UnschedulablePods {
    pods: HashMap<ObjectKey, UnschedulablePod>,
    /// Events since the last attempt.
    causes: Vec<UnblockingEvent>,
    /// Failed attempts by pod, whether queued or being tried.
    attempts: HashMap<ObjectKey, u32>,
}

struct UnschedulablePod {
    priority: Priority,
    since: Instant,
    not_before: Instant,
    wants_company: bool,
    has_claims: bool,
}

impl UnschedulablePod {
    fn is_helped_by(&self, cause: UnblockingEvent) -> bool {
        match cause {
            UnblockingEvent::Node | UnblockingEvent::PodLeft => true,
            UnblockingEvent::PodCame => self.wants_company,
            UnblockingEvent::Storage => self.has_claims,
        }
    }
}

impl UnschedulablePods {
    pub fn add(&mut self, key: &ObjectKey, pod: &Pod) {
        let attempts = self.attempts.entry(key.clone()).or_insert(0);
        let backoff = BACKOFF_FIRST.saturating_mul(1 << (*attempts).min(8)).min(BACKOFF_MAX);
        *attempts += 1;
        let now = Instant::now();
        let wants_company = !pod.spread.is_empty() || pod.terms.is_some();
        let waiter = UnschedulablePod {
            priority: Priority(pod.priority),
            since: now,
            not_before: now + backoff,
            wants_company,
            has_claims: !pod.claims.is_empty(),
        };
        self.pods.insert(key.clone(), waiter);
    }

    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.pods.contains_key(key)
    }

    /// Retries the pod at once, regardless of the reason it waits for.
    pub fn release(&mut self, key: &ObjectKey) {
        self.pods.remove(key);
    }

    pub fn forget(&mut self, key: &ObjectKey) {
        self.release(key);
        self.attempts.remove(key);
    }

    /// Records an event; returns true if any pod waits.
    pub fn help(&mut self, cause: UnblockingEvent) -> bool {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
        !self.pods.is_empty()
    }

    /// Returns the pods an event may help, each with its remaining backoff.
    pub fn take_helped(&mut self) -> Vec<(ObjectKey, Priority, Duration)> {
        let now = Instant::now();
        let causes = std::mem::take(&mut self.causes);
        let is_helped =
            |_: &ObjectKey, waiter: &mut UnschedulablePod| causes.iter().any(|cause| waiter.is_helped_by(*cause));
        let helped = self.pods.extract_if(is_helped);
        helped.map(|(key, waiter)| (key, waiter.priority, waiter.not_before.saturating_duration_since(now))).collect()
    }

    pub fn take_older_than(&mut self, age: Duration) -> Vec<(ObjectKey, Priority)> {
        let old = self.pods.iter().filter(|(_, waiter)| waiter.since.elapsed() >= age);
        let old: Vec<(ObjectKey, Priority)> = old.map(|(key, waiter)| (key.clone(), waiter.priority)).collect();
        old.iter().for_each(|(key, _)| self.release(key));
        old
    }
}
