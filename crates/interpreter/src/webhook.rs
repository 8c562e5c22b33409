//! Webhook interpreters: selection, request and response. The HTTP call is made by a [`WebhookCaller`].

use std::sync::Arc;

use api::config::{DependentObjectReference, InterpreterWebhook, InterpreterWebhookRule};
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{GroupVersionKind, Object};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::dependency;
use crate::operation::{InterpretError, InterpretResult, Operation};

/// One call to make.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookCall {
    /// `<configuration>/<webhook>`, for messages.
    pub uid: String,
    /// As in admissionregistration.k8s.io/v1: `url` or `service`, and `caBundle`.
    pub client_config: Value,
    pub timeout_seconds: Option<i32>,
    /// A ResourceInterpreterContext with its request.
    pub body: Value,
}

/// Performs webhook calls over the network.
#[async_trait]
pub trait WebhookCaller: Send + Sync {
    /// Posts the body as JSON and returns the JSON response.
    async fn call(&self, call: WebhookCall) -> Result<Value, String>;
}

/// For programs without webhooks, such as checks of files.
pub struct NoWebhooks;

#[async_trait]
impl WebhookCaller for NoWebhooks {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        Err(format!("webhook {} cannot be called from here", call.uid))
    }
}

/// The supported version of ResourceInterpreterContext.
const CONTEXT_VERSION: &str = "v1alpha1";

struct Hook {
    uid: String,
    webhook: InterpreterWebhook,
}

/// All webhooks, sorted by uid.
pub struct Webhooks {
    hooks: Vec<Hook>,
    caller: Arc<dyn WebhookCaller>,
}

/// The inputs of a request besides the object itself.
#[derive(Clone, Copy, Default)]
pub struct OperationInputs<'a> {
    pub replicas: i64,
    pub observed: Option<&'a Object>,
    pub items: &'a [AggregatedStatusItem],
}

impl Webhooks {
    /// From ResourceInterpreterWebhookConfigurations. Invalid webhooks are ignored.
    pub fn new(configurations: &[Arc<Object>], caller: Arc<dyn WebhookCaller>) -> Self {
        let mut hooks = Vec::new();
        for configuration in configurations {
            for value in configuration.items(&["webhooks"]) {
                match serde_json::from_value::<InterpreterWebhook>(value.clone()) {
                    Ok(webhook) => {
                        hooks.push(Hook { uid: format!("{}/{}", configuration.name(), webhook.name), webhook });
                    }
                    Err(error) => tracing::warn!(name = configuration.name(), %error, "webhook cannot be read"),
                }
            }
        }
        hooks.sort_by(|a, b| a.uid.cmp(&b.uid));
        Self { hooks, caller }
    }

    pub fn has_hook(&self, gvk: &GroupVersionKind, operation: Operation) -> bool {
        self.pick(gvk, operation).is_some()
    }

    /// Of all that match only the first is ever called.
    fn pick(&self, gvk: &GroupVersionKind, operation: Operation) -> Option<&Hook> {
        self.hooks.iter().find(|hook| hook.webhook.rules.iter().any(|rule| matches(rule, gvk, operation)))
    }

    // Each of these is `None` if no webhook applies.

    pub async fn replicas(&self, object: &Object) -> Option<InterpretResult<(i32, Option<ReplicaRequirements>)>> {
        let answer = self.ask(object, Operation::InterpretReplica, OperationInputs::default()).await?;
        Some(answer.and_then(|(hook, response)| {
            let replicas = response.required("replicas").map_err(|why| hook.invalid(&why))?;
            let requirements = response.optional("replicaRequirements").map_err(|why| hook.invalid(&why))?;
            Ok((replicas, requirements))
        }))
    }

    pub async fn components(&self, object: &Object) -> Option<InterpretResult<Vec<Component>>> {
        let answer = self.ask(object, Operation::InterpretComponent, OperationInputs::default()).await?;
        Some(answer.and_then(|(hook, response)| {
            let components = response.optional("components").map_err(|why| hook.invalid(&why))?;
            Ok(components.unwrap_or_default())
        }))
    }

    pub async fn dependencies(&self, object: &Object) -> Option<InterpretResult<Vec<DependentObjectReference>>> {
        let answer = self.ask(object, Operation::InterpretDependency, OperationInputs::default()).await?;
        Some(answer.and_then(|(hook, response)| {
            let found = response.optional("dependencies").map_err(|why| hook.invalid(&why))?;
            let found: Vec<DependentObjectReference> = found.unwrap_or_default();
            dependency::verify(&found).map_err(|error| hook.invalid(&error.0))?;
            Ok(found)
        }))
    }

    pub async fn reflect_status(&self, object: &Object) -> Option<InterpretResult<Value>> {
        let answer = self.ask(object, Operation::InterpretStatus, OperationInputs::default()).await?;
        Some(answer.and_then(|(hook, response)| response.required("rawStatus").map_err(|why| hook.invalid(&why))))
    }

    pub async fn is_healthy(&self, object: &Object) -> Option<InterpretResult<bool>> {
        let answer = self.ask(object, Operation::InterpretHealth, OperationInputs::default()).await?;
        Some(answer.and_then(|(hook, response)| response.required("healthy").map_err(|why| hook.invalid(&why))))
    }

    /// The object with the webhook's patch applied; unchanged without a patch.
    pub async fn patched(
        &self,
        object: &Object,
        operation: Operation,
        question: OperationInputs<'_>,
    ) -> Option<InterpretResult<Object>> {
        let answer = self.ask(object, operation, question).await?;
        Some(answer.and_then(|(hook, response)| match response.patch().map_err(|why| hook.invalid(&why))? {
            Some(patch) => apply(object, &patch),
            None => Ok(object.clone()),
        }))
    }

    async fn ask(
        &self,
        object: &Object,
        operation: Operation,
        question: OperationInputs<'_>,
    ) -> Option<InterpretResult<(&Hook, Response)>> {
        if self.hooks.is_empty() {
            return None;
        }
        let hook = self.pick(&object.gvk(), operation)?;
        Some(self.ask_hook(hook, object, operation, question).await.map(|response| (hook, response)))
    }

    async fn ask_hook(
        &self,
        hook: &Hook,
        object: &Object,
        operation: Operation,
        question: OperationInputs<'_>,
    ) -> InterpretResult<Response> {
        if !hook.webhook.interpreter_context_versions.iter().any(|version| version == CONTEXT_VERSION) {
            let known =
                format!("webhook does not accept known ResourceInterpreterContext versions ({CONTEXT_VERSION})");
            return Err(hook.failed(&format!("could not create ResourceInterpreterContext objects: {known}")));
        }
        let uid = uuid::Uuid::new_v4().to_string();
        let call = WebhookCall {
            uid: hook.uid.clone(),
            client_config: hook.webhook.client_config.clone(),
            timeout_seconds: hook.webhook.timeout_seconds,
            body: request(&uid, object, operation, question),
        };
        let answer = self.caller.call(call).await;
        let answer = answer.map_err(|error| hook.failed(&format!("failed to call webhook: {error}")))?;
        let response = Response::check(answer, &uid).map_err(|why| hook.invalid(&why))?;
        match response.failure().map_err(|why| hook.invalid(&why))? {
            Some(failure) => Err(hook.failed(&failure)),
            None => Ok(response),
        }
    }
}

impl Hook {
    fn failed(&self, reason: &str) -> InterpretError {
        InterpretError(format!("Internal error occurred: failed calling webhook {:?}: {reason}", self.uid))
    }

    fn invalid(&self, why: &str) -> InterpretError {
        self.failed(&format!("received invalid webhook response: {why}"))
    }
}

fn matches(rule: &InterpreterWebhookRule, gvk: &GroupVersionKind, operation: Operation) -> bool {
    let has = |list: &[String], value: &str| list.iter().any(|item| item == "*" || item == value);
    has(&rule.operations, operation.name())
        && has(&rule.api_groups, &gvk.group)
        && has(&rule.api_versions, &gvk.version)
        && has(&rule.kinds, &gvk.kind)
}

fn request(uid: &str, object: &Object, operation: Operation, question: OperationInputs<'_>) -> Value {
    let gvk = object.gvk();
    let mut request = json!({
        "uid": uid,
        "kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
        "name": object.name(),
        "operation": operation.name(),
        "object": object.to_value(),
        "replicas": question.replicas as i32,
    });
    if !object.namespace().is_empty() {
        request["namespace"] = object.namespace().into();
    }
    if let Some(observed) = question.observed {
        request["observedObject"] = observed.to_value();
    }
    if !question.items.is_empty() {
        request["aggregatedStatus"] = serde_json::to_value(question.items).unwrap_or_default();
    }
    json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request})
}

/// The `response` of a ResourceInterpreterContext that matches our request.
struct Response(Value);

impl Response {
    /// Webhooks built with Karmada's library omit apiVersion and kind.
    fn check(mut answer: Value, uid: &str) -> Result<Self, String> {
        let response = answer.get_mut("response").map(Value::take).filter(Value::is_object);
        let response = response.ok_or_else(|| "webhook response was absent".to_owned())?;
        let found = response["uid"].as_str().unwrap_or_default();
        if found != uid {
            return Err(format!("expected response.uid {uid:?}, got {found:?}"));
        }
        Ok(Self(response))
    }

    /// The webhook's own error, if any.
    fn failure(&self) -> Result<Option<String>, String> {
        if self.0["successful"] == true {
            return Ok(None);
        }
        let status = self.0.get("status").filter(|status| status.is_object());
        let status = status.ok_or("webhook require response.status when response.successful is false")?;
        let (code, message) = (status["code"].as_i64().unwrap_or(0), status["message"].as_str().unwrap_or_default());
        Ok(Some(format!("webhook call failed, get status code: {code}, msg: {message}")))
    }

    fn optional<T: DeserializeOwned>(&self, field: &str) -> Result<Option<T>, String> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                T::deserialize(value).map(Some).map_err(|error| format!("response.{field} cannot be read: {error}"))
            }
        }
    }

    fn required<T: DeserializeOwned>(&self, field: &str) -> Result<T, String> {
        self.optional(field)?.ok_or_else(|| format!("webhook returned nil response.{field}"))
    }

    /// A JSON patch, base64-encoded.
    fn patch(&self) -> Result<Option<Value>, String> {
        let patch = self.0["patch"].as_str().unwrap_or_default();
        match (patch.is_empty(), self.0["patchType"].as_str()) {
            (true, None) => Ok(None),
            (false, None) => Err("webhook returned nil response.patchType".to_owned()),
            (true, Some(_)) => Err("webhook returned empty response.patch".to_owned()),
            (false, Some("JSONPatch")) => {
                let bytes =
                    STANDARD.decode(patch).map_err(|error| format!("response.patch cannot be read: {error}"))?;
                let patch = serde_json::from_slice(&bytes);
                patch.map(Some).map_err(|error| format!("response.patch cannot be read: {error}"))
            }
            (false, Some(other)) => Err(format!("webhook returned invalid response.patchType of {other:?}")),
        }
    }
}

fn apply(object: &Object, patch: &Value) -> InterpretResult<Object> {
    let mut value = object.to_value();
    object::patch::json::apply(&mut value, patch).map_err(|error| InterpretError(error.to_string()))?;
    Object::from_value(value)
        .ok_or_else(|| InterpretError("the webhook's patch does not result in an object".to_owned()))
}

#[cfg(test)]
mod tests;
