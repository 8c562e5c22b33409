//! The order in which the tiers are asked: customizations, webhooks, bundled rules, native rules.

use std::sync::Arc;

use api::config::DependentObjectReference;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use object::{GroupVersionKind, Object};
use serde_json::Value;

use crate::operation::{InterpretError, Operation};
use crate::webhook::WebhookCaller;

/// What every kind means, as of one set of customizations. Immutable: a change makes a new one.
pub struct Interpreter {
    #[expect(dead_code, reason = "asked once webhooks are read")]
    caller: Arc<dyn WebhookCaller>,
}

type Answer<T> = Result<T, InterpretError>;

impl Interpreter {
    /// From the ResourceInterpreterCustomizations and ResourceInterpreterWebhookConfigurations there are.
    pub fn new(_customizations: &[Arc<Object>], _webhooks: &[Arc<Object>], caller: Arc<dyn WebhookCaller>) -> Self {
        Self { caller }
    }

    /// Does any tier answer this question for this kind?
    pub fn has_hook(&self, _gvk: &GroupVersionKind, _operation: Operation) -> bool {
        false
    }

    pub async fn replicas(&self, object: &Object) -> Answer<(i32, Option<ReplicaRequirements>)> {
        Err(none(object, Operation::InterpretReplica))
    }

    pub async fn components(&self, object: &Object) -> Answer<Vec<Component>> {
        Err(none(object, Operation::InterpretComponent))
    }

    pub async fn revise_replicas(&self, object: Object, _replicas: i64) -> Answer<Object> {
        Err(none(&object, Operation::ReviseReplica))
    }

    pub async fn retain(&self, desired: Object, _observed: &Object) -> Answer<Object> {
        Err(none(&desired, Operation::Retain))
    }

    pub async fn aggregate_status(&self, object: Object, _items: &[AggregatedStatusItem]) -> Answer<Object> {
        Err(none(&object, Operation::AggregateStatus))
    }

    pub async fn dependencies(&self, object: &Object) -> Answer<Vec<DependentObjectReference>> {
        Err(none(object, Operation::InterpretDependency))
    }

    pub async fn reflect_status(&self, object: &Object) -> Answer<Option<Value>> {
        Err(none(object, Operation::InterpretStatus))
    }

    pub async fn is_healthy(&self, object: &Object) -> Answer<bool> {
        Err(none(object, Operation::InterpretHealth))
    }
}

fn none(object: &Object, operation: Operation) -> InterpretError {
    InterpretError(format!("no rule says {operation:?} for {} {}", object.api_version(), object.kind()))
}
