//! The authorization webhook: asks another server whether a user may do something (`SubjectAccessReview`).

use std::time::{Duration, Instant};

use access::{AccessDecision, Action};
use cel::Program;
use object::request::User;
use serde_json::{Map, Value, json};

use super::WebhookEndpoint;
use super::cached::Cached;
use crate::auth::structured::conditions_hold;

/// The answer of the webhook; without an opinion the next authorizer is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::auth) enum Opinion {
    Allowed(String),
    Denied(String),
    None(String),
}

pub struct AccessWebhook {
    endpoint: WebhookEndpoint,
    settings: AccessWebhookSettings,
    answers: Cached<Opinion>,
}

/// Settings of a webhook.
#[derive(Clone, Debug)]
pub struct AccessWebhookSettings {
    /// Time for which its consent is kept; zero keeps none.
    pub allowed_for: Duration,
    /// Time for which its refusals are kept; zero keeps none.
    pub refused_for: Duration,
    pub timeout: Duration,
    pub version: ReviewVersion,
    /// Denies when the webhook gives no answer or a condition cannot be evaluated; otherwise the next authorizer decides.
    pub denies_on_failure: bool,
    /// The webhook is asked only when all of these are true for the review.
    pub conditions: Vec<Program>,
}

/// The version of the reviews that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl AccessWebhookSettings {
    /// The settings of the flags: without conditions, and without an opinion on failure.
    pub fn keeping(allowed_for: Duration, refused_for: Duration) -> Self {
        Self {
            allowed_for,
            refused_for,
            timeout: super::CALL_TIMEOUT,
            version: ReviewVersion::V1,
            denies_on_failure: false,
            conditions: Vec::new(),
        }
    }
}

impl AccessWebhook {
    pub fn new(endpoint: WebhookEndpoint, settings: AccessWebhookSettings) -> Self {
        Self { endpoint, settings, answers: Cached::new() }
    }

    pub(in crate::auth) async fn opinion(&self, user: &User, action: &Action<'_>) -> Opinion {
        let spec = spec(user, action);
        match conditions_hold(&self.settings.conditions, "request", &spec) {
            Ok(true) => {}
            Ok(false) => return Opinion::None(String::new()),
            Err(problem) => return self.failed("a match condition of the authorization webhook failed", &problem),
        }
        let question = review(spec, self.settings.version);
        let (key, now) = (Cached::<Opinion>::key(question.to_string().as_bytes()), Instant::now());
        if let Some(known) = self.answers.get(&key, now) {
            return known;
        }
        let answer = match self.endpoint.ask_within(&question, self.settings.timeout).await {
            Ok(answer) => answer,
            Err(problem) => return self.failed("the authorization webhook gave no answer", &problem),
        };
        let opinion = read_answer(&answer);
        let is_consent = matches!(opinion, Opinion::Allowed(_));
        let time = if is_consent { self.settings.allowed_for } else { self.settings.refused_for };
        if !time.is_zero() {
            self.answers.keep(key, opinion.clone(), now, time);
        }
        opinion
    }

    fn failed(&self, reason: &str, problem: &str) -> Opinion {
        tracing::warn!(problem, "{reason}");
        match self.settings.denies_on_failure {
            true => Opinion::Denied(reason.to_owned()),
            false => Opinion::None(reason.to_owned()),
        }
    }
}

impl Opinion {
    /// The decision, unless another authorizer must be asked.
    pub(in crate::auth) fn decision(self) -> Option<AccessDecision> {
        match self {
            Self::Allowed(reason) => Some(AccessDecision::allow(reason)),
            Self::Denied(reason) => Some(AccessDecision::deny(reason)),
            Self::None(_) => None,
        }
    }
}

/// The spec of the review, with every field, for match conditions.
fn spec(user: &User, action: &Action<'_>) -> Map<String, Value> {
    let mut spec = Map::new();
    spec.insert("user".to_owned(), json!(user.name));
    spec.insert("groups".to_owned(), json!(user.groups));
    spec.insert("uid".to_owned(), json!(user.uid));
    spec.insert("extra".to_owned(), json!(user.extra));
    let (field, attributes) = match action {
        Action::NonResource { verb, path } => ("nonResourceAttributes", json!({"verb": verb, "path": path})),
        Action::Resource(asked) => (
            "resourceAttributes",
            json!({
                "verb": asked.verb, "group": asked.group, "version": asked.version, "resource": asked.resource,
                "subresource": asked.subresource, "namespace": asked.namespace, "name": asked.name,
            }),
        ),
    };
    spec.insert(field.to_owned(), attributes);
    spec
}

fn review(mut spec: Map<String, Value>, version: ReviewVersion) -> Value {
    let version = match version {
        ReviewVersion::V1 => "v1",
        ReviewVersion::V1beta1 => {
            // The field had another name.
            let groups = spec.remove("groups").unwrap_or_default();
            spec.insert("group".to_owned(), groups);
            "v1beta1"
        }
    };
    json!({"apiVersion": format!("authorization.k8s.io/{version}"), "kind": "SubjectAccessReview", "spec": spec})
}

fn read_answer(answer: &Value) -> Opinion {
    let status = &answer["status"];
    let reason = status["reason"].as_str().unwrap_or_default().to_owned();
    match (status["allowed"] == true, status["denied"] == true) {
        (true, false) => Opinion::Allowed(reason),
        // An answer that says both is a refusal.
        (_, true) => Opinion::Denied(reason),
        (false, false) => Opinion::None(reason),
    }
}

#[cfg(test)]
mod tests {
    use access::ResourceAction;

    use super::*;

    #[test]
    fn requests_and_responses_are_those_of_kubernetes() {
        let asked = ResourceAction {
            verb: "get",
            version: "v1",
            resource: "pods",
            namespace: "n",
            name: "p",
            ..Default::default()
        };
        let spec = spec(&User::new("bob", &["g"]), &Action::Resource(asked));
        let older = review(spec.clone(), ReviewVersion::V1beta1);
        assert_eq!(
            (&older["apiVersion"], &older["spec"]["group"]),
            (&json!("authorization.k8s.io/v1beta1"), &json!(["g"]))
        );
        let question = review(spec, ReviewVersion::V1);
        assert_eq!(question["spec"]["resourceAttributes"]["resource"], "pods");
        assert_eq!(question["spec"]["groups"], json!(["g"]));
        for (status, expected) in [
            (json!({"allowed": true, "reason": "r"}), Opinion::Allowed("r".into())),
            (json!({"allowed": false, "denied": true}), Opinion::Denied(String::new())),
            (json!({"allowed": true, "denied": true}), Opinion::Denied(String::new())),
            (json!({"allowed": false}), Opinion::None(String::new())),
            (json!({}), Opinion::None(String::new())),
        ] {
            assert_eq!(read_answer(&json!({"status": status})), expected, "{status}");
        }
    }
}
