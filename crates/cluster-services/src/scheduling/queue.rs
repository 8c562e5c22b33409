//! Pods that fit nowhere, and what must happen before it is worth trying them again.

use std::collections::HashMap;
use std::time::Duration;

use placement::Pod;
use reconcile::{ObjectKey, Priority};
use tokio::time::Instant;

/// The wait before a pod is tried again doubles from the first to the last of these.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// What happened that may make pods fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A node came or says something else of itself.
    Node,
    /// A pod left its node, or its claim on one.
    PodLeft,
    /// A pod got a node: others may want to be near it.
    PodCame,
    /// Claims, volumes or classes changed.
    Storage,
}

/// As many as there are pods without a node, at most.
#[derive(Default)]
pub struct Waiting {
    pods: HashMap<ObjectKey, Waiter>,
    /// What happened since they were last tried.
    causes: Vec<Cause>,
    /// Failed attempts of pods, whether they wait or are being tried.
    attempts: HashMap<ObjectKey, u32>,
}

struct Waiter {
    priority: Priority,
    since: Instant,
    not_before: Instant,
    wants_company: bool,
    has_claims: bool,
}

impl Waiter {
    fn is_helped_by(&self, cause: Cause) -> bool {
        match cause {
            Cause::Node | Cause::PodLeft => true,
            Cause::PodCame => self.wants_company,
            Cause::Storage => self.has_claims,
        }
    }
}

impl Waiting {
    pub fn add(&mut self, key: &ObjectKey, pod: &Pod) {
        let attempts = self.attempts.entry(key.clone()).or_insert(0);
        let backoff = BACKOFF_FIRST.saturating_mul(1 << (*attempts).min(8)).min(BACKOFF_MAX);
        *attempts += 1;
        let now = Instant::now();
        let wants_company = !pod.spread.is_empty() || pod.terms.is_some();
        let waiter = Waiter {
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

    /// It is tried again at once, whatever it waited for.
    pub fn release(&mut self, key: &ObjectKey) {
        self.pods.remove(key);
    }

    pub fn forget(&mut self, key: &ObjectKey) {
        self.release(key);
        self.attempts.remove(key);
    }

    /// Takes note of what happened; true when somebody waits.
    pub fn help(&mut self, cause: Cause) -> bool {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
        !self.pods.is_empty()
    }

    /// Those who may be helped by what happened, each with the wait that it still owes.
    pub fn take_helped(&mut self) -> Vec<(ObjectKey, Priority, Duration)> {
        let now = Instant::now();
        let causes = std::mem::take(&mut self.causes);
        let is_helped = |_: &ObjectKey, waiter: &mut Waiter| causes.iter().any(|cause| waiter.is_helped_by(*cause));
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
