//! One webhook of a configuration, read once and used for many writes.

use std::sync::Arc;
use std::time::Duration;

use kinds::strategies::admissionregistration::expressions::ExpressionScope;
use object::{Object, Status};
use serde_json::Value;

use crate::admission::dynamic::conditions::{Conditions, Expression, Rights, Shown};
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::request::admission_request;
use crate::admission::dynamic::{Criteria, Matched, version};

/// The timeout of a webhook that sets none.
const TIMEOUT_SECONDS: u64 = 10;

pub struct Hook {
    pub configuration: String,
    pub name: String,
    /// `clientConfig`, as it is written.
    pub client: Value,
    pub timeout: Duration,
    /// A call that fails refuses the write; otherwise the failure is ignored.
    pub fails_closed: bool,
    pub side_effects: String,
    /// May be called again when a later webhook has changed the object.
    pub reinvocable: bool,
    pub review: Option<Review>,
    criteria: Criteria,
    conditions: Conditions,
    asks_rights: bool,
}

/// The version of `AdmissionReview` that a webhook accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    V1,
    V1beta1,
}

impl Review {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }

    fn of_name(name: &Value) -> Option<Self> {
        match name.as_str()? {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }
}

/// All webhooks of all configurations, by the name of the configuration and then in its order.
pub fn compile(objects: &[Vec<Arc<Object>>]) -> Vec<Hook> {
    let configurations = objects.iter().flatten();
    configurations.flat_map(|object| object.items(&["webhooks"]).iter().map(|hook| Hook::read(object, hook))).collect()
}

impl Hook {
    fn read(configuration: &Object, hook: &Value) -> Self {
        let text = |key: &str| hook[key].as_str().unwrap_or_default().to_owned();
        let env = ExpressionScope { params: false, authorizer: true }.environment().build();
        let conditions = Conditions::compile(&env, &hook["matchConditions"]);
        let versions = hook["admissionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            configuration: configuration.name().to_owned(),
            name: text("name"),
            client: hook["clientConfig"].clone(),
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS).clamp(1, 30)),
            fails_closed: hook["failurePolicy"] != "Ignore",
            side_effects: text("sideEffects"),
            reinvocable: hook["reinvocationPolicy"] == "IfNeeded",
            review: versions.iter().find_map(Review::of_name),
            criteria: Criteria::of_webhook(hook),
            asks_rights: conditions.expressions().iter().any(Expression::uses_authorizer),
            conditions,
        }
    }

    /// Returns the version to call the webhook with, if the write matches.
    pub async fn is_called(&self, facts: &Facts<'_>, object: Option<&Object>) -> Result<Option<Matched>, Status> {
        let Some(matched) = self.criteria.matches(facts, object).await? else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(matched));
        }
        let seen = Seen::of(facts, &matched, object).await?;
        let rights = if self.asks_rights { Some(Rights::of(facts).await?) } else { None };
        let request = admission_request(facts, &matched, object);
        let shown = Shown { object: seen.object(), old: seen.old(), request: &request, namespace: None };
        let mut variables = shown.activation();
        if let Some(rights) = rights {
            variables = rights.give(facts, variables);
        }
        match self.conditions.hold(&variables) {
            Ok(hold) => Ok(hold.then_some(matched)),
            Err(problem) if self.fails_closed => {
                let resource = facts.attributes.resource.kind.group_resource();
                Err(Status::forbidden(&resource, facts.attributes.name, problem))
            }
            Err(_) => Ok(None),
        }
    }
}

/// The objects of a write in the version a webhook asked for.
pub struct Seen<'o> {
    object: Option<std::borrow::Cow<'o, Object>>,
    old: Option<std::borrow::Cow<'o, Object>>,
}

impl<'o> Seen<'o> {
    pub async fn of(facts: &Facts<'o>, matched: &Matched, object: Option<&'o Object>) -> Result<Self, Status> {
        let mut seen = Self { object: None, old: None };
        if let Some(object) = object {
            seen.object = Some(version::show(facts, matched, object).await.map_err(Status::internal)?);
        }
        if let Some(old) = facts.attributes.old {
            seen.old = Some(version::show(facts, matched, old).await.map_err(Status::internal)?);
        }
        Ok(seen)
    }

    pub fn object(&self) -> Option<&Object> {
        self.object.as_deref()
    }

    pub fn old(&self) -> Option<&Object> {
        self.old.as_deref()
    }
}
