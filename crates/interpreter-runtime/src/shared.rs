//! The current interpreter, shared by all users while customizations change.

use std::sync::Arc;

use api::features::Features;
use arc_swap::ArcSwap;
use interpreter::{InterpretResult, Interpreter, Operation, Question, WebhookAnswer, WebhookRequest};
use object::GroupVersionKind;
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

    /// The requests that many questions need, by the keys of the questions. Questions that no webhook answers need none.
    pub fn requests<K, Q: Question>(&self, questions: impl Iterator<Item = (K, Q)>) -> Vec<(K, WebhookRequest)> {
        let request = |(key, question): (K, Q)| Some((key, self.rules.webhook_request(&question, new_uid)?));
        questions.filter_map(request).collect()
    }

    /// Sends requests at the same time and returns their answers under the same keys, in any order.
    pub async fn fetch_all<K>(&self, requests: Vec<(K, WebhookRequest)>) -> Vec<(K, WebhookAnswer)> {
        webhooks::fetch_all(&self.caller, requests).await
    }
}

fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
