//! ValidatingAdmissionPolicies: rules in CEL that refuse a write, warn about it or note it in the audit record.

mod dispatch;
mod evaluate;
mod params;
mod policy;

use async_trait::async_trait;
use object::{Object, Status};

use super::dynamic::facts::Facts;
use super::dynamic::is_exempt;
use super::dynamic::live::Live;
use super::{Admission, Attributes};
use crate::context::Context;
use crate::server::Server;
use policy::Policy;

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
        server: &Server,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let policies = self.policies.current(server).await?;
        if policies.is_empty() || is_exempt(attributes.resource) {
            return Ok(());
        }
        dispatch::run(&Facts::new(server, ctx, attributes), &policies, object).await
    }
}
