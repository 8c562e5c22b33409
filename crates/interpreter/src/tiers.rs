//! The order of the tiers: customizations, webhooks, bundled rules, native rules.
//!
//! The first tier that has a rule for the kind decides, with its result or with its error.

use std::sync::Arc;

use api::features::Features;
use jiff::Timestamp;
use object::{GroupVersionKind, Object};

use crate::customization::{Customizations, Rule};
use crate::environment::ScriptEnvironment;
use crate::operation::{InterpretResult, Operation};
use crate::question::Question;
use crate::webhook::{Hook, WebhookAnswer, WebhookRequest, Webhooks};
use crate::{native, pod, thirdparty};

/// The interpretation of every kind for one set of customizations. Immutable: a change creates a new one.
pub struct Interpreter {
    customized: Customizations,
    webhooks: Webhooks,
    bundled: Customizations,
    options: pod::PodOptions,
    problems: Vec<String>,
}

/// The rule that answers an operation on a kind.
pub enum Tier<'a> {
    /// ResourceInterpreterCustomizations.
    Customized(Rule<'a>),
    /// A ResourceInterpreterWebhookConfiguration. Its answer is fetched before the question is answered.
    Webhook(&'a Hook),
    /// A customization that comes with this program.
    Bundled(Rule<'a>),
    /// Also of kinds without any rule: the answer is the error that says so.
    Native,
}

impl Interpreter {
    /// From ResourceInterpreterCustomizations and ResourceInterpreterWebhookConfigurations.
    pub fn new(
        customizations: &[Arc<Object>],
        webhooks: &[Arc<Object>],
        features: &Features,
        environment: &ScriptEnvironment,
    ) -> Self {
        let options = pod::PodOptions { with_priority_class: features.resource_quota_estimate };
        let mut problems = Vec::new();
        let objects = customizations.iter().map(Arc::as_ref);
        Self {
            customized: Customizations::new(objects, options, &[], environment.clone(), &mut problems),
            webhooks: Webhooks::new(webhooks, &mut problems),
            bundled: thirdparty::customizations(options, environment.clone()),
            options,
            problems,
        }
    }

    /// The customizations and webhooks that cannot be read and are ignored, each with its reason.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Reports whether any tier implements this operation for this kind.
    pub fn has_hook(&self, gvk: &GroupVersionKind, operation: Operation) -> bool {
        let api_version = gvk.api_version();
        native::has_hook(&api_version, &gvk.kind, operation)
            || !matches!(self.tier_of(&api_version, &gvk.kind, operation), Tier::Native)
    }

    /// The tier that answers: the first one with a rule.
    pub fn tier_of(&self, api_version: &str, kind: &str, operation: Operation) -> Tier<'_> {
        let customized = || self.customized.rule(api_version, kind, operation).map(Tier::Customized);
        let webhook = || self.webhooks.pick(api_version, kind, operation).map(Tier::Webhook);
        let bundled = || self.bundled.rule(api_version, kind, operation).map(Tier::Bundled);
        customized().or_else(webhook).or_else(bundled).unwrap_or(Tier::Native)
    }

    /// The request whose answer this question needs; `None` if no webhook answers it. `uid` names the request.
    pub fn webhook_request<Q: Question>(&self, question: &Q, uid: impl FnOnce() -> String) -> Option<WebhookRequest> {
        match self.tier_of_question(question) {
            Tier::Webhook(hook) => hook.request(question, uid),
            Tier::Customized(_) | Tier::Bundled(_) | Tier::Native => None,
        }
    }

    /// Answers a question. `fetched` is the answer to its [`Self::webhook_request`], if there is one.
    pub fn answer<Q: Question>(
        &self,
        question: Q,
        now: Timestamp,
        fetched: Option<&WebhookAnswer>,
    ) -> InterpretResult<Q::Answer> {
        match self.tier_of_question(&question) {
            Tier::Customized(rule) | Tier::Bundled(rule) => rule.answer(&question, now),
            Tier::Webhook(hook) => hook.answer(&question, fetched),
            Tier::Native => question.by_native(self.options, now),
        }
    }

    fn tier_of_question<Q: Question>(&self, question: &Q) -> Tier<'_> {
        self.tier_of(question.object().api_version(), question.object().kind(), Q::OPERATION)
    }
}

#[cfg(test)]
mod tests;
