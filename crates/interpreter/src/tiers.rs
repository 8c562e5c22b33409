//! The order in which the tiers are asked: customizations, webhooks, bundled rules, native rules.

use std::sync::Arc;

use api::config::DependentObjectReference;
use api::features::Features;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use object::{GroupVersionKind, Object};
use serde_json::Value;

use crate::operation::{Answer, InterpretError, Operation};
use crate::webhook::WebhookCaller;
use crate::{native, pod};

/// What every kind means, as of one set of customizations. Immutable: a change makes a new one.
pub struct Interpreter {
    #[expect(dead_code, reason = "asked once webhooks are read")]
    caller: Arc<dyn WebhookCaller>,
    options: pod::Options,
}

impl Interpreter {
    /// From the ResourceInterpreterCustomizations and ResourceInterpreterWebhookConfigurations there are.
    pub fn new(_customizations: &[Arc<Object>], _webhooks: &[Arc<Object>], caller: Arc<dyn WebhookCaller>) -> Self {
        Self { caller, options: pod::Options::default() }
    }

    /// With what the feature gates add to the answers.
    #[must_use]
    pub fn with_features(mut self, features: &Features) -> Self {
        self.options.with_priority_class = features.resource_quota_estimate;
        self
    }

    /// Does any tier answer this question for this kind?
    pub fn has_hook(&self, gvk: &GroupVersionKind, operation: Operation) -> bool {
        native::has_hook(&gvk.api_version(), &gvk.kind, operation)
    }

    pub async fn replicas(&self, object: &Object) -> Answer<(i32, Option<ReplicaRequirements>)> {
        native::replicas(object, self.options)
    }

    pub async fn components(&self, object: &Object) -> Answer<Vec<Component>> {
        let _ = object;
        Err(InterpretError("interface GetComponents not implemented yet".to_owned()))
    }

    pub async fn revise_replicas(&self, object: Object, replicas: i64) -> Answer<Object> {
        native::revise_replicas(object, replicas)
    }

    pub async fn retain(&self, desired: Object, observed: &Object) -> Answer<Object> {
        native::retain(desired, observed)
    }

    pub async fn aggregate_status(&self, object: Object, items: &[AggregatedStatusItem]) -> Answer<Object> {
        native::aggregate_status(object, items)
    }

    pub async fn dependencies(&self, object: &Object) -> Answer<Vec<DependentObjectReference>> {
        native::dependencies(object)
    }

    pub async fn reflect_status(&self, object: &Object) -> Answer<Option<Value>> {
        native::reflect_status(object)
    }

    pub async fn is_healthy(&self, object: &Object) -> Answer<bool> {
        native::is_healthy(object)
    }
}
