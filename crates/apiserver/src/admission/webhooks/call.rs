//! One call of a webhook: sends the review and checks the answer.

use base64::Engine;
use object::{Object, Status};
use serde_json::{Map, Value, json};

use super::hook::{Hook, Review, Seen};
use super::refusal::{denied, of_code};
use crate::admission::dynamic::Matched;
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::request::admission_request;
use crate::outgoing::{self, Destination, OutgoingError};

/// The reason why a call does not admit the write.
pub enum CallError {
    /// The webhook gave no usable answer; its failure policy decides.
    Failed(String),
    /// The webhook refused the write, or the call may not be made at all.
    Refused(Box<Status>),
}

impl CallError {
    pub fn refused(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// The role of a webhook; only the answer of a mutating one may carry a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Mutating,
    Validating,
}

/// Calls one webhook. Returns its patch, if it has any.
pub async fn call(
    facts: &Facts<'_>,
    hook: &Hook,
    matched: &Matched,
    seen: &Seen<'_>,
    role: Role,
) -> Result<Option<Value>, CallError> {
    if facts.attributes.dry_run && !matches!(hook.side_effects.as_str(), "None" | "NoneOnDryRun") {
        let text = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(CallError::refused(Status::bad_request(text)));
    }
    let Some(review) = hook.review else {
        let problem = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(CallError::Failed(format!("could not create admission objects: {problem}")));
    };
    let uid = uuid::Uuid::new_v4().to_string();
    let mut request = admission_request(facts, matched, seen.object());
    request.insert("uid".to_owned(), uid.as_str().into());
    request.insert("object".to_owned(), seen.object().map_or(Value::Null, Object::to_value));
    request.insert("oldObject".to_owned(), seen.old().map_or(Value::Null, Object::to_value));
    let question = json!({"apiVersion": review.api_version(), "kind": "AdmissionReview", "request": request});
    let answer = send(facts, hook, &question).await.map_err(CallError::Failed)?;
    let response = verify(&answer, review, &uid, role)
        .map_err(|problem| CallError::Failed(format!("received invalid webhook response: {problem}")))?;
    take_notes(facts, hook, response);
    if response.get("allowed") != Some(&Value::Bool(true)) {
        return Err(CallError::refused(denied(&hook.name, response.get("status"))));
    }
    patch_of(response, review)
}

async fn send(facts: &Facts<'_>, hook: &Hook, question: &Value) -> Result<Value, String> {
    let seconds = hook.timeout.as_secs();
    let destination = Destination::of_client_config(facts.scope.resources, &hook.client).await;
    let mut destination = destination.map_err(|error| no_destination(hook, &error))?;
    let joint = if destination.path.contains('?') { '&' } else { '?' };
    destination.path = format!("{}{joint}timeout={seconds}s", destination.path);
    outgoing::post_json(&destination, question, hook.timeout).await.map_err(|error| match error {
        OutgoingError::Refused { code, problem } => format!("failed to call webhook: {}", of_code(code, &problem)),
        OutgoingError::BadConfiguration(problem) => format!("could not get REST client: {problem}"),
        unreachable => unreachable.to_string(),
    })
}

/// A missing service fails when it is called, as any other unreachable address.
fn no_destination(hook: &Hook, error: &OutgoingError) -> String {
    let service = &hook.client["service"];
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    if !service.is_object() {
        return format!("could not get REST client: {error}");
    }
    let (name, namespace, path) = (text("name"), text("namespace"), text("path").trim_start_matches('/'));
    let (port, seconds) = (service["port"].as_u64().unwrap_or(443), hook.timeout.as_secs());
    let url = format!("https://{name}.{namespace}.svc:{port}/{path}?timeout={seconds}s");
    let problem = match error {
        OutgoingError::ServiceNotFound { .. } => format!("service {name:?} not found"),
        other => other.to_string(),
    };
    format!("failed to call webhook: Post {url:?}: {problem}")
}

fn verify<'a>(answer: &'a Value, review: Review, uid: &str, role: Role) -> Result<&'a Map<String, Value>, String> {
    let response = answer["response"].as_object().ok_or("webhook response was absent")?;
    // kube-apiserver never checked v1beta1 reviews further, so webhooks that use it may rely on that.
    if review == Review::V1beta1 {
        return Ok(response);
    }
    let got = response.get("uid").and_then(Value::as_str).unwrap_or_default();
    if got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let text = |key: &str| answer[key].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let wanted = review.api_version();
    if version != wanted || kind != "AdmissionReview" {
        let version = if version.is_empty() { "/" } else { version };
        return Err(format!("expected webhook response of {wanted}, Kind=AdmissionReview, got {version}, Kind={kind}"));
    }
    let patch = response.get("patch").and_then(Value::as_str).is_some_and(|patch| !patch.is_empty());
    let patch_type = response.get("patchType").filter(|value| !value.is_null());
    match (role, patch, patch_type) {
        (Role::Validating, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (Role::Validating, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        (Role::Mutating, true, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (Role::Mutating, false, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".to_owned())
        }
        (Role::Mutating, true, Some(found)) if found == "" => {
            Err("webhook returned invalid response.patchType of \"\"".to_owned())
        }
        _ => Ok(response),
    }
}

/// Warnings go to the client and annotations to the audit record, whatever the verdict.
fn take_notes(facts: &Facts<'_>, hook: &Hook, response: &Map<String, Value>) {
    for (key, value) in response.get("auditAnnotations").and_then(Value::as_object).into_iter().flatten() {
        facts.ctx.annotate_audit(format!("{}/{key}", hook.name), value.as_str().unwrap_or_default());
    }
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    for warning in warnings.filter_map(Value::as_str).filter(|text| !text.is_empty()) {
        facts.ctx.warn(warning);
    }
}

fn patch_of(response: &Map<String, Value>, review: Review) -> Result<Option<Value>, CallError> {
    let Some(encoded) = response.get("patch").and_then(Value::as_str).filter(|patch| !patch.is_empty()) else {
        return Ok(None);
    };
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .map_err(|error| CallError::Failed(format!("failed to call webhook: illegal base64 data: {error}")))?;
    let undecodable =
        |problem: String| CallError::Failed(format!("received undecodable patch in webhook response: {problem}"));
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
    match &patch {
        Value::Null => return Ok(None),
        Value::Array(operations) if operations.is_empty() => return Ok(None),
        Value::Array(_) => {}
        _ => return Err(undecodable("it is not a list of operations".to_owned())),
    }
    match response.get("patchType").and_then(Value::as_str) {
        Some("JSONPatch") => Ok(Some(patch)),
        _ if review == Review::V1beta1 => Ok(Some(patch)),
        other => Err(CallError::Failed(format!("unsupported patch type {:?}", other.unwrap_or_default()))),
    }
}
