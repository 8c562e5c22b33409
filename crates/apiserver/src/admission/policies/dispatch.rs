//! Finds the policies and bindings that match a write, and applies their findings to it.

use std::collections::BTreeMap;

use object::status::StatusCause;
use object::{Object, Status};
use serde::Serialize;
use serde_json::{Map, Value};

use super::evaluate::{Annotation, Denial, Outcome, Subject, evaluate};
use super::params;
use super::policy::{Binding, Policy};
use crate::admission::dynamic::conditions::{Rights, Shown};
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::request::admission_request;
use crate::admission::dynamic::{Matched, version};

/// Values of audit annotations are cut here.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;
const FAILURE_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The value of an audit annotation for a validation that failed under the action `Audit`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditedFailure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

/// Notes of one policy, several values for a key when its bindings or parameters disagree.
type Notes = BTreeMap<String, Vec<String>>;

/// The reason to refuse, with the policy that gives it.
struct Refusal<'p> {
    policy: &'p Policy,
    binding: Option<&'p Binding>,
    message: String,
    reason: &'static str,
}

pub async fn run(facts: &Facts<'_>, policies: &[Policy], object: Option<&Object>) -> Result<(), Status> {
    let mut refusals = Vec::new();
    for policy in policies {
        apply(facts, policy, object, &mut refusals).await?;
    }
    match refusals.first() {
        Some(first) => Err(first.to_status(facts, object)),
        None => Ok(()),
    }
}

impl<'p> Refusal<'p> {
    fn of_configuration(policy: &'p Policy, binding: Option<&'p Binding>, problem: String) -> Option<Self> {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = format!("failed to configure {what}: {problem}");
        policy.base.fails_closed.then_some(Self { policy, binding, message, reason: "Invalid" })
    }

    fn to_status(&self, facts: &Facts<'_>, object: Option<&Object>) -> Status {
        let (policy, message) = (&self.policy.base.name, &self.message);
        let text = match self.binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{}' denied request: {message}",
                binding.name
            ),
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        };
        let mut status = facts.forbidden(object, &text);
        status.reason = self.reason;
        status.code = match self.reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        if let Some(details) = &mut status.details {
            details.causes.push(StatusCause { message: text, ..StatusCause::default() });
        }
        status
    }
}

async fn apply<'p>(
    facts: &Facts<'_>,
    policy: &'p Policy,
    object: Option<&Object>,
    refusals: &mut Vec<Refusal<'p>>,
) -> Result<(), Status> {
    let matched = match policy.base.criteria.matches(facts, object).await {
        Ok(Some(matched)) => matched,
        Ok(None) => return Ok(()),
        Err(status) => {
            refusals.extend(Refusal::of_configuration(policy, None, status.message));
            return Ok(());
        }
    };
    if let Some(kind) = &policy.base.param_kind
        && facts.scope.resources.registry.snapshot().find_kind(kind).is_none()
    {
        let problem = format!("failed to find resource referenced by paramKind: '{kind}'");
        refusals.extend(Refusal::of_configuration(policy, None, problem));
        return Ok(());
    }
    let mut notes = Notes::new();
    for binding in &policy.base.bindings {
        match outcomes(facts, policy, binding, &matched, object).await? {
            Ok(outcomes) => {
                for outcome in outcomes {
                    act(facts, policy, binding, outcome, &mut notes, refusals);
                }
            }
            Err(problem) => refusals.extend(Refusal::of_configuration(policy, Some(binding), problem)),
        }
    }
    for (key, values) in notes {
        facts.ctx.annotate_audit(format!("{}/{key}", policy.base.name), values.join(", "));
    }
    Ok(())
}

/// Returns the findings of the policy under one binding, once for each of its parameters, or the error of the binding.
async fn outcomes(
    facts: &Facts<'_>,
    policy: &Policy,
    binding: &Binding,
    matched: &Matched,
    object: Option<&Object>,
) -> Result<Result<Vec<Outcome>, String>, Status> {
    if let Some(criteria) = &binding.criteria {
        match criteria.matches(facts, object).await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Ok(Vec::new())),
            Err(status) => return Ok(Err(status.message)),
        }
    }
    let params = match params::collect(facts, &policy.base, binding).await {
        Ok(params) => params,
        Err(problem) => return Ok(Err(problem)),
    };
    if params.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let (mut new, mut old) = (None, None);
    for (shown, slot) in [(object, &mut new), (facts.attributes.old, &mut old)] {
        if let Some(shown) = shown {
            match version::show(facts, matched, shown).await {
                Ok(shown) => *slot = Some(shown),
                Err(status) => return Ok(Err(format!("failed to convert object version: {status}"))),
            }
        }
    }
    let in_namespace = !facts.namespace.is_empty() && !facts.is_about_namespace();
    let namespace = match policy.base.asks_namespace && in_namespace {
        true => Some(show_namespace(&*facts.namespace_object().await?)),
        false => None,
    };
    let rights = if policy.base.asks_rights { Some(Rights::of(facts).await?) } else { None };
    let request = admission_request(facts, matched, object);
    let each = params.iter().map(|params| {
        let shown =
            Shown { object: new.as_deref(), old: old.as_deref(), request: &request, namespace: namespace.as_ref() };
        let params = params.as_ref().map(|params| params.as_map());
        evaluate(policy, &Subject { facts, shown, params, rights: rights.clone() })
    });
    Ok(Ok(each.collect()))
}

fn act<'p>(
    facts: &Facts<'_>,
    policy: &'p Policy,
    binding: &'p Binding,
    outcome: Outcome,
    notes: &mut Notes,
    refusals: &mut Vec<Refusal<'p>>,
) {
    for denial in outcome.denials {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => refusals.push(Refusal {
                    policy,
                    binding: Some(binding),
                    message: denial.message.clone(),
                    reason: denial.reason,
                }),
                "Warn" => facts.ctx.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.base.name, binding.name, denial.message
                )),
                "Audit" => audit(facts, policy, binding, &denial),
                _ => {}
            }
        }
    }
    for annotation in outcome.annotations {
        match annotation {
            Annotation::Publish { key, value } => {
                let value = cut(value);
                let values = notes.entry(key).or_default();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            Annotation::Failed(message) => {
                refusals.push(Refusal { policy, binding: Some(binding), message, reason: "Invalid" });
            }
        }
    }
}

fn audit(facts: &Facts<'_>, policy: &Policy, binding: &Binding, denial: &Denial) {
    let failure = AuditedFailure {
        message: &denial.message,
        policy: &policy.base.name,
        binding: &binding.name,
        expression_index: denial.index,
        validation_actions: &binding.actions,
    };
    if let Ok(text) = serde_json::to_string(&[failure]) {
        facts.ctx.annotate_audit(FAILURE_KEY, text);
    }
}

fn cut(mut value: String) -> String {
    let mut end = value.len().min(ANNOTATION_BYTES_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.truncate(end);
    value
}

/// The parts of a namespace that expressions may read.
pub(super) fn show_namespace(namespace: &Object) -> Map<String, Value> {
    const METADATA: &[&str] = &[
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let metadata = METADATA.iter().filter_map(|field| {
        let value = namespace.get(&["metadata", field])?;
        Some(((*field).to_owned(), value.clone()))
    });
    let mut shown = Map::from_iter([("metadata".to_owned(), Value::Object(metadata.collect()))]);
    for part in ["spec", "status"] {
        if let Some(value) = namespace.get(&[part]) {
            shown.insert(part.to_owned(), value.clone());
        }
    }
    shown
}
