//! Admission policies in CEL. ValidatingAdmissionPolicies refuse a write, warn about it or note it in the audit record;
//! MutatingAdmissionPolicies change it.

mod dispatch;
mod evaluate;
mod mutating;
mod params;
mod policy;

use async_trait::async_trait;
use object::{Object, Status};
use policy::Policy;

pub use mutating::{MutatingPolicies, PolicyRounds};

use super::dynamic::facts::Facts;
use super::dynamic::is_exempt;
use super::dynamic::live::Live;
use super::{Admission, Attributes};
use crate::admission::AdmissionScope;
use crate::context::Context;

/// All policies that a binding puts to use.
pub struct ValidatingPolicies {
    policies: Live<Vec<Policy>>,
}

impl Default for ValidatingPolicies {
    fn default() -> Self {
        let sources = &["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        Self { policies: Live::new(sources, policy::compile) }
    }
}

#[async_trait]
impl Admission for ValidatingPolicies {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let policies = self.policies.current(scope.resources.registry).await?;
        if policies.is_empty() || is_exempt(attributes.resource) {
            return Ok(());
        }
        dispatch::run(&Facts::new(scope, ctx, attributes), &policies, object).await
    }
}
