//! The current interpreter, shared by all users while customizations change.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::features::Features;
use arc_swap::ArcSwap;
use interpreter::question::ReviseReplicas;
use interpreter::{InterpretResult, Interpreter, Operation, Question, WebhookAnswer};
use jiff::Timestamp;
use object::{GroupVersionKind, Object};
use reconcile::{Clock, SystemClock};

use crate::environment;
use crate::webhooks::{self, NoWebhooks, WebhookCaller};

/// One per control plane; clones share it.
#[derive(Clone)]
pub struct SharedInterpreter {
    current: Arc<ArcSwap<CurrentInterpreter>>,
}

/// One set of rules with the means to fetch the answers of webhooks.
pub struct CurrentInterpreter {
    /// Decides, synchronously and from its arguments alone.
    pub rules: Interpreter,
    caller: Arc<dyn WebhookCaller>,
    clock: Arc<dyn Clock>,
}

impl SharedInterpreter {
    pub fn new(rules: Interpreter, caller: Arc<dyn WebhookCaller>, clock: Arc<dyn Clock>) -> Self {
        report(&rules);
        Self { current: Arc::new(ArcSwap::from_pointee(CurrentInterpreter { rules, caller, clock })) }
    }

    /// With the rules that come with this program, and no others.
    pub fn built_in() -> Self {
        let rules = Interpreter::new(&[], &[], &Features::default(), &environment::system());
        Self::new(rules, Arc::new(NoWebhooks), Arc::new(SystemClock))
    }

    pub fn load(&self) -> Arc<CurrentInterpreter> {
        self.current.load_full()
    }

    pub fn replace(&self, rules: Interpreter) {
        report(&rules);
        let current = self.load();
        let (caller, clock) = (Arc::clone(&current.caller), Arc::clone(&current.clock));
        self.current.store(Arc::new(CurrentInterpreter { rules, caller, clock }));
    }
}

fn report(rules: &Interpreter) {
    for problem in rules.problems() {
        tracing::warn!("{problem}");
    }
}

impl CurrentInterpreter {
    /// Reports whether there is a rule for this operation on this kind.
    pub fn has_hook(&self, gvk: &GroupVersionKind, operation: Operation) -> bool {
        self.rules.has_hook(gvk, operation)
    }

    /// Fetches what the question needs and answers it.
    pub async fn ask<Q: Question>(&self, question: Q) -> InterpretResult<Q::Answer> {
        let fetched = match self.rules.webhook_request(&question, new_uid) {
            Some(request) => Some(webhooks::fetch(&self.caller, request).await),
            None => None,
        };
        self.rules.answer(question, self.clock.now(), fetched.as_ref())
    }

    /// The time of an answer.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Asks a webhook, if one revises the replicas of this kind, for each number once and for all of them at the same
    /// time. Returns the answers by number; empty for kinds without such a webhook.
    pub async fn fetch_revisions(&self, template: &Object, numbers: BTreeSet<i32>) -> BTreeMap<i32, WebhookAnswer> {
        let mut requests = Vec::new();
        for replicas in numbers {
            let question = ReviseReplicas { object: Cow::Borrowed(template), replicas: i64::from(replicas) };
            requests.extend(self.rules.webhook_request(&question, new_uid).map(|request| (replicas, request)));
        }
        webhooks::fetch_all(&self.caller, requests).await
    }
}

fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
