//! Finds the mutating policies and bindings that match a write, and applies their mutations in order.

use std::sync::Arc;

use object::status::StatusCause;
use object::{Object, Status};

use super::rounds::InvocationKey;
use super::{MutatingPolicy, patch};
use crate::admission::dynamic::conditions::{Rights, Shown, map};
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::request::admission_request;
use crate::admission::dynamic::{Matched, version};
use crate::admission::policies::dispatch::show_namespace;
use crate::admission::policies::params;
use crate::admission::policies::policy::Binding;

/// One policy under one binding with one parameter.
struct Invocation<'p> {
    policy: &'p MutatingPolicy,
    binding: &'p Binding,
    matched: Arc<Matched>,
    params: Option<Arc<Object>>,
}

/// The reason why a policy could not do its work; its failure policy decides what that means.
struct PolicyFailure {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: &'static str,
}

impl PolicyFailure {
    fn text(&self) -> String {
        let (policy, message) = (&self.policy, &self.message);
        match &self.binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {message}"),
            None => format!("policy {policy:?} denied request: {message}"),
        }
    }
}

/// The failures that refuse the write.
#[derive(Default)]
struct Failures(Vec<PolicyFailure>);

impl Failures {
    fn configuration(&mut self, policy: &MutatingPolicy, binding: Option<&Binding>, problem: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.add(policy, binding, format!("failed to configure {what}: {problem}"), "");
    }

    fn add(&mut self, policy: &MutatingPolicy, binding: Option<&Binding>, message: String, reason: &'static str) {
        if policy.base.fails_closed {
            let binding = binding.map(|binding| binding.name.clone());
            self.0.push(PolicyFailure { policy: policy.base.name.clone(), binding, message, reason });
        } else {
            tracing::debug!(policy = policy.base.name, message, "policy failed, ignored by failurePolicy");
        }
    }

    fn into_result(self, facts: &Facts<'_>, object: &Object) -> Result<(), Status> {
        let Some(first) = self.0.first() else { return Ok(()) };
        let mut status = facts.forbidden(Some(object), "");
        status.message = first.text();
        if !first.reason.is_empty() {
            status.reason = first.reason;
        }
        if let Some(details) = &mut status.details {
            let causes = self.0.iter().map(|one| StatusCause { message: one.text(), ..StatusCause::default() });
            details.causes.extend(causes);
        }
        Err(status)
    }
}

pub(super) async fn run(facts: &Facts<'_>, policies: &[MutatingPolicy], object: &mut Object) -> Result<(), Status> {
    let rounds = &facts.attributes.policy_rounds;
    let mut failures = Failures::default();
    let mut invocations = Vec::new();
    for policy in policies {
        gather(facts, policy, object, &mut invocations, &mut failures).await;
    }
    if !invocations.is_empty() {
        rounds.start(object);
        for invocation in &invocations {
            invoke(facts, invocation, object, &mut failures).await?;
        }
        rounds.end(object);
    }
    failures.into_result(facts, object)
}

/// Adds an invocation for each matching binding and each of its parameters.
async fn gather<'p>(
    facts: &Facts<'_>,
    policy: &'p MutatingPolicy,
    object: &Object,
    invocations: &mut Vec<Invocation<'p>>,
    failures: &mut Failures,
) {
    let matched = match policy.base.criteria.matches(facts, Some(object)).await {
        Ok(Some(matched)) => Arc::new(matched),
        Ok(None) => return,
        Err(status) => return failures.configuration(policy, None, &status.message),
    };
    if let Some(kind) = &policy.base.param_kind
        && facts.scope.resources.registry.snapshot().find_kind(kind).is_none()
    {
        let problem = format!("failed to find resource referenced by paramKind: '{kind}'");
        return failures.configuration(policy, None, &problem);
    }
    for binding in &policy.base.bindings {
        if let Some(criteria) = &binding.criteria {
            match criteria.matches(facts, Some(object)).await {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(status) => {
                    failures.configuration(policy, Some(binding), &status.message);
                    continue;
                }
            }
        }
        match params::collect(facts, &policy.base, binding).await {
            Err(problem) => failures.configuration(policy, Some(binding), &problem),
            Ok(params) => {
                let each =
                    params.into_iter().map(|params| Invocation { policy, binding, matched: matched.clone(), params });
                invocations.extend(each);
            }
        }
    }
}

fn key_of(invocation: &Invocation<'_>) -> InvocationKey {
    let params = invocation.params.as_ref().map(|params| format!("{}/{}", params.namespace(), params.name()));
    (invocation.policy.base.name.clone(), invocation.binding.name.clone(), params.unwrap_or_default())
}

/// Runs the mutations of one invocation in order; each sees the result of those before it.
async fn invoke(
    facts: &Facts<'_>,
    invocation: &Invocation<'_>,
    object: &mut Object,
    failures: &mut Failures,
) -> Result<(), Status> {
    let (policy, binding) = (invocation.policy, Some(invocation.binding));
    let key = key_of(invocation);
    let rounds = &facts.attributes.policy_rounds;
    if !rounds.runs(&key) {
        return Ok(());
    }
    let sight = Sight::of(facts, invocation).await?;
    let before = object.clone();
    match sight.holds(object).await? {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(problem) => {
            failures.add(policy, binding, problem, "Invalid");
            return Ok(());
        }
    }
    let mut applied = false;
    for mutation in &policy.mutations {
        let shown = version::show(facts, &invocation.matched, object).await?.into_owned();
        let patched = sight
            .with_variables(&shown, |variables| patch::apply(facts, &invocation.matched, mutation, &shown, variables));
        match patched {
            Ok(patched) if patched == shown => applied = true,
            Ok(patched) => {
                *object = version::take_back(facts, &invocation.matched, patched).await?;
                applied = true;
            }
            Err(problem) => failures.add(policy, binding, problem, "Invalid"),
        }
    }
    rounds.ran(key, *object != before, applied, policy.reinvocable);
    Ok(())
}

/// The variables of one invocation besides the object itself.
struct Sight<'a, 'p> {
    facts: &'a Facts<'a>,
    invocation: &'a Invocation<'p>,
    old: Option<Object>,
    namespace: Option<serde_json::Map<String, serde_json::Value>>,
    rights: Option<Arc<Rights>>,
}

impl<'a, 'p> Sight<'a, 'p> {
    async fn of(facts: &'a Facts<'a>, invocation: &'a Invocation<'p>) -> Result<Self, Status> {
        let base = &invocation.policy.base;
        let old = match facts.attributes.old {
            Some(old) => Some(version::show(facts, &invocation.matched, old).await?.into_owned()),
            None => None,
        };
        let in_namespace = !facts.namespace.is_empty() && !facts.is_about_namespace();
        let namespace = match base.asks_namespace && in_namespace {
            true => Some(show_namespace(&*facts.namespace_object().await?)),
            false => None,
        };
        let rights = if base.asks_rights { Some(Rights::of(facts).await?) } else { None };
        Ok(Self { facts, invocation, old, namespace, rights })
    }

    /// Evaluates the match conditions. The inner error is theirs.
    async fn holds(&self, object: &Object) -> Result<Result<bool, String>, Status> {
        let conditions = &self.invocation.policy.base.conditions;
        if conditions.is_empty() {
            return Ok(Ok(true));
        }
        let shown = version::show(self.facts, &self.invocation.matched, object).await?;
        Ok(self.with_variables(&shown, |variables| conditions.hold(variables)))
    }

    fn with_variables<T>(&self, object: &Object, work: impl FnOnce(&cel::Activation<'_>) -> T) -> T {
        let request = admission_request(self.facts, &self.invocation.matched, Some(object));
        let shown = Shown {
            object: Some(object),
            old: self.old.as_ref(),
            request: &request,
            namespace: self.namespace.as_ref(),
        };
        let params = self.invocation.params.as_ref().map(|params| params.as_map());
        let variables = shown
            .activation()
            .with("params", map(params))
            .with_composed("variables", self.invocation.policy.base.variables.clone());
        match &self.rights {
            Some(rights) => work(&rights.give(self.facts, variables)),
            None => work(&variables),
        }
    }
}
