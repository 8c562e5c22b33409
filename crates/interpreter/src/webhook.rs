//! Webhook interpreters: selection, request and response. The call between request and response is made by the program.

use std::sync::Arc;

use api::config::{InterpreterWebhook, InterpreterWebhookRule};
use api::work::AggregatedStatusItem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{GroupVersion, GroupVersionKind, Object};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::operation::{InterpretError, InterpretResult, Operation};
use crate::question::Question;

/// A request to send before a question can be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRequest {
    /// `<configuration>/<webhook>`, for messages.
    pub webhook: String,
    /// The id of this request; the response must repeat it.
    pub uid: String,
    /// As in admissionregistration.k8s.io/v1: `url` or `service`, and `caBundle`.
    pub client_config: Value,
    pub timeout_seconds: Option<i32>,
    /// A ResourceInterpreterContext with its request.
    pub body: Value,
}

/// The outcome of a [`WebhookRequest`], as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookAnswer {
    /// The id of the request.
    pub uid: String,
    /// The body of the response, or the reason why there is none.
    pub body: Result<Value, String>,
}

/// The supported version of ResourceInterpreterContext.
const CONTEXT_VERSION: &str = "v1alpha1";

/// One webhook.
pub struct Hook {
    /// `<configuration>/<webhook>`
    name: String,
    webhook: InterpreterWebhook,
}

/// All webhooks, sorted by name.
pub struct Webhooks {
    hooks: Vec<Hook>,
}

/// The inputs of a request besides the object itself.
#[derive(Clone, Copy, Default)]
pub struct OperationInputs<'a> {
    pub replicas: i64,
    pub observed: Option<&'a Object>,
    pub items: &'a [AggregatedStatusItem],
}

impl Webhooks {
    /// From ResourceInterpreterWebhookConfigurations. Invalid webhooks are ignored and reported in `problems`.
    pub fn new(configurations: &[Arc<Object>], problems: &mut Vec<String>) -> Self {
        let mut hooks = Vec::new();
        for configuration in configurations {
            for value in configuration.items(&["webhooks"]) {
                match serde_json::from_value::<InterpreterWebhook>(value.clone()) {
                    Ok(webhook) => {
                        hooks.push(Hook { name: format!("{}/{}", configuration.name(), webhook.name), webhook });
                    }
                    Err(error) => {
                        problems.push(format!("a webhook of {} cannot be read: {error}", configuration.name()));
                    }
                }
            }
        }
        hooks.sort_by(|a, b| a.name.cmp(&b.name));
        Self { hooks }
    }

    /// Of all that match only the first is ever called.
    pub fn pick(&self, api_version: &str, kind: &str, operation: Operation) -> Option<&Hook> {
        if self.hooks.is_empty() {
            return None;
        }
        let gvk = GroupVersion::parse(api_version).unwrap_or_default().kind(kind);
        self.hooks.iter().find(|hook| hook.webhook.rules.iter().any(|rule| matches(rule, &gvk, operation)))
    }
}

impl Hook {
    /// Returns `None` if the webhook cannot be asked; [`Self::answer`] reports the reason.
    pub fn request<Q: Question>(&self, question: &Q, uid: impl FnOnce() -> String) -> Option<WebhookRequest> {
        self.check_version().ok()?;
        let uid = uid();
        Some(WebhookRequest {
            webhook: self.name.clone(),
            client_config: self.webhook.client_config.clone(),
            timeout_seconds: self.webhook.timeout_seconds,
            body: request(&uid, question.object(), Q::OPERATION, question.inputs()),
            uid,
        })
    }

    /// Reads the answer of the webhook. `None` is an error: the program does not call webhooks.
    pub fn answer<Q: Question>(&self, question: &Q, fetched: Option<&WebhookAnswer>) -> InterpretResult<Q::Answer> {
        self.check_version()?;
        let not_called = || format!("webhook {} cannot be called from here", self.name);
        let unanswered = |why: &str| self.failed(&format!("failed to call webhook: {why}"));
        let fetched = fetched.ok_or_else(|| unanswered(&not_called()))?;
        let body = fetched.body.as_ref().map_err(|why| unanswered(why))?;
        let response = Response::check(body, &fetched.uid).map_err(|why| self.invalid(&why))?;
        if let Some(failure) = response.failure().map_err(|why| self.invalid(&why))? {
            return Err(self.failed(&failure));
        }
        question.by_webhook(&response).map_err(|error| match error {
            ResponseError::Invalid(why) => self.invalid(&why),
            ResponseError::Patch(why) => InterpretError(why),
        })
    }

    fn check_version(&self) -> InterpretResult<()> {
        if self.webhook.interpreter_context_versions.iter().any(|version| version == CONTEXT_VERSION) {
            return Ok(());
        }
        let known = format!("webhook does not accept known ResourceInterpreterContext versions ({CONTEXT_VERSION})");
        Err(self.failed(&format!("could not create ResourceInterpreterContext objects: {known}")))
    }

    fn failed(&self, reason: &str) -> InterpretError {
        InterpretError(format!("Internal error occurred: failed calling webhook {:?}: {reason}", self.name))
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
pub struct Response<'a>(&'a Value);

/// The reason a response does not answer the question.
pub enum ResponseError {
    /// The response does not have the form it must have.
    Invalid(String),
    /// The patch of the response does not apply to the object.
    Patch(String),
}

impl From<String> for ResponseError {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

impl<'a> Response<'a> {
    /// Webhooks built with Karmada's library omit apiVersion and kind.
    fn check(answer: &'a Value, uid: &str) -> Result<Self, String> {
        let response = answer.get("response").filter(|response| response.is_object());
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

    pub fn optional<T: DeserializeOwned>(&self, field: &str) -> Result<Option<T>, String> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                T::deserialize(value).map(Some).map_err(|error| format!("response.{field} cannot be read: {error}"))
            }
        }
    }

    pub fn required<T: DeserializeOwned>(&self, field: &str) -> Result<T, String> {
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

    /// The object with the webhook's patch applied; unchanged without a patch.
    pub fn patched(&self, object: &Object) -> Result<Object, ResponseError> {
        let Some(patch) = self.patch()? else { return Ok(object.clone()) };
        let mut value = object.to_value();
        object::patch::json::apply_strict(&mut value, &patch)
            .map_err(|error| ResponseError::Patch(error.to_string()))?;
        let no_object = || ResponseError::Patch("the webhook's patch does not result in an object".to_owned());
        Object::from_value(value).ok_or_else(no_object)
    }
}

#[cfg(test)]
mod tests;
