//! The order of the tiers: customizations, webhooks, bundled rules, native rules.
//!
//! The first tier that has a rule for the kind decides, with its result or with its error.

use std::sync::Arc;

use api::config::DependentObjectReference;
use api::features::Features;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use object::{GroupVersionKind, Object};
use serde_json::Value;

use crate::customization::Customizations;
use crate::operation::{InterpretError, InterpretResult, Operation};
use crate::webhook::{OperationInputs, WebhookCaller, Webhooks};
use crate::{native, pod, thirdparty};

/// The interpretation of every kind for one set of customizations. Immutable: a change creates a new one.
pub struct Interpreter {
    customized: Customizations,
    webhooks: Webhooks,
    bundled: Customizations,
    options: pod::PodOptions,
}

impl Interpreter {
    /// From ResourceInterpreterCustomizations and ResourceInterpreterWebhookConfigurations.
    pub fn new(customizations: &[Arc<Object>], webhooks: &[Arc<Object>], caller: Arc<dyn WebhookCaller>) -> Self {
        Self::with_features(customizations, webhooks, caller, &Features::default())
    }

    /// The same, with options from the feature gates.
    pub fn with_features(
        customizations: &[Arc<Object>],
        webhooks: &[Arc<Object>],
        caller: Arc<dyn WebhookCaller>,
        features: &Features,
    ) -> Self {
        let options = pod::PodOptions { with_priority_class: features.resource_quota_estimate };
        Self {
            customized: Customizations::new(customizations.iter().map(Arc::as_ref), options, &[]),
            webhooks: Webhooks::new(webhooks, caller),
            bundled: thirdparty::customizations(options),
            options,
        }
    }

    /// Reports whether any tier implements this operation for this kind.
    pub fn has_hook(&self, gvk: &GroupVersionKind, operation: Operation) -> bool {
        let api_version = gvk.api_version();
        native::has_hook(&api_version, &gvk.kind, operation)
            || self.bundled.has_hook(&api_version, &gvk.kind, operation)
            || self.customized.has_hook(&api_version, &gvk.kind, operation)
            || self.webhooks.has_hook(gvk, operation)
    }

    pub async fn replicas(&self, object: &Object) -> InterpretResult<(i32, Option<ReplicaRequirements>)> {
        if let Some(answer) = self.customized.replicas(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.replicas(object).await {
            return answer;
        }
        self.bundled.replicas(object).unwrap_or_else(|| native::replicas(object, self.options))
    }

    pub async fn components(&self, object: &Object) -> InterpretResult<Vec<Component>> {
        if let Some(answer) = self.customized.components(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.components(object).await {
            return answer;
        }
        let none = || Err(InterpretError("interface GetComponents not implemented yet".to_owned()));
        self.bundled.components(object).unwrap_or_else(none)
    }

    pub async fn revise_replicas(&self, object: Object, replicas: i64) -> InterpretResult<Object> {
        if let Some(answer) = self.customized.revise_replicas(&object, replicas) {
            return answer;
        }
        let question = OperationInputs { replicas, ..OperationInputs::default() };
        if let Some(answer) = self.webhooks.patched(&object, Operation::ReviseReplica, question).await {
            return answer;
        }
        match self.bundled.revise_replicas(&object, replicas) {
            Some(answer) => answer,
            None => native::revise_replicas(object, replicas),
        }
    }

    pub async fn retain(&self, desired: Object, observed: &Object) -> InterpretResult<Object> {
        if let Some(answer) = self.customized.retain(&desired, observed) {
            return answer;
        }
        let question = OperationInputs { observed: Some(observed), ..OperationInputs::default() };
        if let Some(answer) = self.webhooks.patched(&desired, Operation::Retain, question).await {
            return answer;
        }
        match self.bundled.retain(&desired, observed) {
            Some(answer) => answer,
            None => native::retain(desired, observed),
        }
    }

    pub async fn aggregate_status(&self, object: Object, items: &[AggregatedStatusItem]) -> InterpretResult<Object> {
        if let Some(answer) = self.customized.aggregate_status(&object, items) {
            return answer;
        }
        let question = OperationInputs { items, ..OperationInputs::default() };
        if let Some(answer) = self.webhooks.patched(&object, Operation::AggregateStatus, question).await {
            return answer;
        }
        match self.bundled.aggregate_status(&object, items) {
            Some(answer) => answer,
            None => native::aggregate_status(object, items),
        }
    }

    pub async fn dependencies(&self, object: &Object) -> InterpretResult<Vec<DependentObjectReference>> {
        if let Some(answer) = self.customized.dependencies(object) {
            return answer;
        }
        if let Some(answer) = self.webhooks.dependencies(object).await {
            return answer;
        }
        self.bundled.dependencies(object).unwrap_or_else(|| native::dependencies(object))
    }

    pub async fn reflect_status(&self, object: &Object) -> InterpretResult<Option<Value>> {
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

    pub async fn is_healthy(&self, object: &Object) -> InterpretResult<bool> {
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
