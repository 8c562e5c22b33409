//! The order in which the tiers are asked: customizations, webhooks, bundled rules, native rules.
//!
//! The first tier that has a rule for the kind decides, with its answer or with its error.

use std::sync::Arc;

use api::config::DependentObjectReference;
use api::features::Features;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use object::{GroupVersionKind, Object};
use serde_json::Value;

use crate::customization::Customizations;
use crate::operation::{Answer, InterpretError, Operation};
use crate::webhook::{Question, WebhookCaller, Webhooks};
use crate::{native, pod, thirdparty};

/// What every kind means, as of one set of customizations. Immutable: a change makes a new one.
pub struct Interpreter {
    customized: Customizations,
    webhooks: Webhooks,
    bundled: Customizations,
    options: pod::Options,
}

impl Interpreter {
    /// From the ResourceInterpreterCustomizations and ResourceInterpreterWebhookConfigurations there are.
    pub fn new(customizations: &[Arc<Object>], webhooks: &[Arc<Object>], caller: Arc<dyn WebhookCaller>) -> Self {
        Self::with_features(customizations, webhooks, caller, &Features::default())
    }

    /// The same, with what the feature gates add to the answers.
    pub fn with_features(
        customizations: &[Arc<Object>],
        webhooks: &[Arc<Object>],
        caller: Arc<dyn WebhookCaller>,
        features: &Features,
    ) -> Self {
        let options = pod::Options { with_priority_class: features.resource_quota_estimate };
        Self {
            customized: Customizations::new(customizations.iter().map(Arc::as_ref), options, &[]),
            webhooks: Webhooks::new(webhooks, caller),
            bundled: thirdparty::customizations(options),
            options,
        }
    }

    /// Does any tier answer this question for this kind?
    pub fn has_hook(&self, gvk: &GroupVersionKind, operation: Operation) -> bool {
        let api_version = gvk.api_version();
        native::has_hook(&api_version, &gvk.kind, operation)
            || self.bundled.has_hook(&api_version, &gvk.kind, operation)
            || self.customized.has_hook(&api_version, &gvk.kind, operation)
            || self.webhooks.has_hook(gvk, operation)
    }

    pub async fn replicas(&self, object: &Object) -> Answer<(i32, Option<ReplicaRequirements>)> {
        if let Some(answer) = self.customized.replicas(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.replicas(object).await {
            return answer;
        }
        self.bundled.replicas(object).unwrap_or_else(|| native::replicas(object, self.options))
    }

    pub async fn components(&self, object: &Object) -> Answer<Vec<Component>> {
        if let Some(answer) = self.customized.components(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.components(object).await {
            return answer;
        }
        let none = || Err(InterpretError("interface GetComponents not implemented yet".to_owned()));
        self.bundled.components(object).unwrap_or_else(none)
    }

    pub async fn revise_replicas(&self, object: Object, replicas: i64) -> Answer<Object> {
        if let Some(answer) = self.customized.revise_replicas(&object, replicas) {
            return answer;
        }
        let question = Question { replicas, ..Question::default() };
        if let Some(answer) = self.webhooks.patched(&object, Operation::ReviseReplica, question).await {
            return answer;
        }
        match self.bundled.revise_replicas(&object, replicas) {
            Some(answer) => answer,
            None => native::revise_replicas(object, replicas),
        }
    }

    pub async fn retain(&self, desired: Object, observed: &Object) -> Answer<Object> {
        if let Some(answer) = self.customized.retain(&desired, observed) {
            return answer;
        }
        let question = Question { observed: Some(observed), ..Question::default() };
        if let Some(answer) = self.webhooks.patched(&desired, Operation::Retain, question).await {
            return answer;
        }
        match self.bundled.retain(&desired, observed) {
            Some(answer) => answer,
            None => native::retain(desired, observed),
        }
    }

    pub async fn aggregate_status(&self, object: Object, items: &[AggregatedStatusItem]) -> Answer<Object> {
        if let Some(answer) = self.customized.aggregate_status(&object, items) {
            return answer;
        }
        let question = Question { items, ..Question::default() };
        if let Some(answer) = self.webhooks.patched(&object, Operation::AggregateStatus, question).await {
            return answer;
        }
        match self.bundled.aggregate_status(&object, items) {
            Some(answer) => answer,
            None => native::aggregate_status(object, items),
        }
    }

    pub async fn dependencies(&self, object: &Object) -> Answer<Vec<DependentObjectReference>> {
        if let Some(answer) = self.customized.dependencies(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.dependencies(object).await {
            return answer;
        }
        self.bundled.dependencies(object).unwrap_or_else(|| native::dependencies(object))
    }

    pub async fn reflect_status(&self, object: &Object) -> Answer<Option<Value>> {
        if let Some(answer) = self.customized.reflect_status(object) {
            return answer.map(Some);
        }
        if let Some(answer) = self.webhooks.reflect_status(object).await {
            return answer.map(Some);
        }
        match self.bundled.reflect_status(object) {
            Some(answer) => answer.map(Some),
            None => native::reflect_status(object),
        }
    }

    pub async fn is_healthy(&self, object: &Object) -> Answer<bool> {
        if let Some(answer) = self.customized.is_healthy(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.is_healthy(object).await {
            return answer;
        }
        self.bundled.is_healthy(object).unwrap_or_else(|| native::is_healthy(object))
    }
}

#[cfg(test)]
mod tests;
