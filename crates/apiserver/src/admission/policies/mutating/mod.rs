//! MutatingAdmissionPolicies: expressions in CEL that change a write, as apply configurations or JSON patches.

mod dispatch;
mod patch;
mod rounds;

use std::sync::Arc;

use async_trait::async_trait;
use object::{Object, Status};

use super::policy::{self, Binding, PolicyBase};
use crate::admission::dynamic::conditions::Expression;
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::is_exempt;
use crate::admission::dynamic::live::Live;
use crate::admission::{Admission, AdmissionScope, Attributes};
use crate::context::Context;

pub use rounds::PolicyRounds;

/// All mutating policies that a binding puts to use.
pub struct MutatingPolicies {
    policies: Live<Vec<MutatingPolicy>>,
}

pub(super) struct MutatingPolicy {
    base: PolicyBase,
    mutations: Vec<Mutation>,
    /// May run again when something changed the object after it.
    reinvocable: bool,
}

enum Mutation {
    ApplyConfiguration(Expression),
    JsonPatch(Expression),
}

impl Mutation {
    fn expression(&self) -> &Expression {
        match self {
            Self::ApplyConfiguration(expression) | Self::JsonPatch(expression) => expression,
        }
    }
}

impl Default for MutatingPolicies {
    fn default() -> Self {
        let sources = &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
        Self { policies: Live::new(sources, compile) }
    }
}

fn compile(objects: &[Vec<Arc<Object>>]) -> Vec<MutatingPolicy> {
    policy::bound(objects).map(|(policy, bindings)| MutatingPolicy::read(policy, bindings)).collect()
}

impl MutatingPolicy {
    fn read(policy: &Object, bindings: Vec<Binding>) -> Self {
        let (mut base, scope, known) = PolicyBase::read(policy, bindings);
        let env = scope.for_patches(&known);
        let mutations = policy.items(&["spec", "mutations"]).iter().map(|mutation| {
            let compile = |key: &str| Expression::compile(&env, policy::text(&mutation[key], "expression"));
            match policy::text(mutation, "patchType") {
                "JSONPatch" => Mutation::JsonPatch(compile("jsonPatch")),
                _ => Mutation::ApplyConfiguration(compile("applyConfiguration")),
            }
        });
        let mutations: Vec<Mutation> = mutations.collect();
        base.note_reads(mutations.iter().map(Mutation::expression));
        let reinvocable = policy.str_at(&["spec", "reinvocationPolicy"]) == "IfNeeded";
        Self { base, mutations, reinvocable }
    }
}

#[async_trait]
impl Admission for MutatingPolicies {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let policies = self.policies.current(scope.resources.registry).await?;
        if policies.is_empty() || is_exempt(attributes.resource) {
            return Ok(());
        }
        dispatch::run(&Facts::new(scope, ctx, attributes), &policies, object).await
    }
}
