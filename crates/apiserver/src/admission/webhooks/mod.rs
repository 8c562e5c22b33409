//! Admission webhooks: external servers that may change or refuse a write.

mod call;
mod hook;
mod mutating;
mod refusal;
mod validating;

use async_trait::async_trait;
use hook::Hook;
use object::{Object, Status};

use super::dynamic::facts::Facts;
use super::dynamic::is_exempt;
use super::dynamic::live::Live;
use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;

/// Webhooks that may change an object, called one after the other.
pub struct MutatingWebhooks {
    hooks: Live<Vec<Hook>>,
}

/// Webhooks that may only refuse, called all at once.
pub struct ValidatingWebhooks {
    hooks: Live<Vec<Hook>>,
}

impl Default for MutatingWebhooks {
    fn default() -> Self {
        Self { hooks: Live::new(&["mutatingwebhookconfigurations"], hook::compile) }
    }
}

impl Default for ValidatingWebhooks {
    fn default() -> Self {
        Self { hooks: Live::new(&["validatingwebhookconfigurations"], hook::compile) }
    }
}

const MUTATING: &str = "MutatingAdmissionWebhook";

#[async_trait]
impl Admission for MutatingWebhooks {
    fn name(&self) -> &'static str {
        MUTATING
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let hooks = self.hooks.current(scope.resources.registry).await?;
        // Changes of policies need the second round even without a webhook.
        let idle = hooks.is_empty() && !attributes.policy_rounds.changed();
        if idle || is_exempt(attributes.resource) {
            return Ok(());
        }
        mutating::run(&Facts::new(scope, ctx, attributes), &hooks, object).await
    }

    /// Deletes and connections have no object to change, but mutating webhooks may still refuse them.
    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        if !matches!(attributes.operation, Operation::Delete | Operation::Connect) {
            return Ok(());
        }
        let hooks = self.hooks.current(scope.resources.registry).await?;
        if hooks.is_empty() || is_exempt(attributes.resource) {
            return Ok(());
        }
        mutating::run_without_object(&Facts::new(scope, ctx, attributes), &hooks).await
    }
}

#[async_trait]
impl Admission for ValidatingWebhooks {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let hooks = self.hooks.current(scope.resources.registry).await?;
        if hooks.is_empty() || is_exempt(attributes.resource) {
            return Ok(());
        }
        validating::run(&Facts::new(scope, ctx, attributes), &hooks, object).await
    }
}
