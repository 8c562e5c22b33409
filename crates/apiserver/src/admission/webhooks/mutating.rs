//! Mutating webhooks: in order, and a second time for those that want to see what later ones changed.

use std::collections::BTreeSet;

use object::{Object, Status, patch};
use serde_json::{Value, json};

use super::call::{CallError, Role, call};
use super::hook::{Hook, Seen};
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::{Matched, reshape, version};

/// The state of the calls so far, by the index of the webhook.
#[derive(Default)]
struct Rounds {
    round: usize,
    /// Called, and willing to be called again.
    willing: BTreeSet<usize>,
    /// To be called again because something changed after they were.
    again: BTreeSet<usize>,
    changed: bool,
}

impl Rounds {
    fn note_change(&mut self) {
        self.changed = true;
        self.again.append(&mut self.willing);
    }
}

pub async fn run(facts: &Facts<'_>, hooks: &[Hook], object: &mut Object) -> Result<(), Status> {
    let mut rounds = Rounds::default();
    run_round(facts, hooks, object, &mut rounds).await?;
    if !rounds.changed && !facts.attributes.policy_rounds.changed() {
        return Ok(());
    }
    // The server's own steps complete the changes of policies and webhooks. If they changed anything, webhooks with reinvocation
    // are called again.
    let before = object.clone();
    let chain = facts.scope.chain;
    chain.mutate_until(super::MUTATING, facts.scope, facts.ctx, facts.attributes, object).await?;
    if *object != before {
        rounds.note_change();
    }
    if rounds.again.is_empty() {
        return Ok(());
    }
    rounds.round = 1;
    run_round(facts, hooks, object, &mut rounds).await
}

async fn run_round(facts: &Facts<'_>, hooks: &[Hook], object: &mut Object, rounds: &mut Rounds) -> Result<(), Status> {
    for (index, hook) in hooks.iter().enumerate() {
        if rounds.round > 0 && !rounds.again.contains(&index) {
            continue;
        }
        let Some(matched) = hook.is_called(facts, Some(object)).await? else { continue };
        let asked = ask(facts, hook, &matched, object).await;
        let mark = format!("round_{}_index_{index}", rounds.round);
        let changed = settle(facts, hook, &mark, asked)?;
        if changed {
            rounds.note_change();
        }
        if hook.reinvocable {
            rounds.willing.insert(index);
        }
    }
    Ok(())
}

/// Calls every matching webhook for a write that has no object; a patch is an error then.
pub async fn run_without_object(facts: &Facts<'_>, hooks: &[Hook]) -> Result<(), Status> {
    for (index, hook) in hooks.iter().enumerate() {
        let Some(matched) = hook.is_called(facts, None).await? else { continue };
        let seen = Seen::of(facts, &matched, None).await?;
        let asked = match call(facts, hook, &matched, &seen, Role::Mutating).await {
            Ok(None) => Ok(false),
            Ok(Some(_)) => {
                let text = "attempted to modify the object, which is not supported for this operation";
                Err(CallError::refused(Status::internal(format!("admission webhook {:?} {text}", hook.name))))
            }
            Err(error) => Err(error),
        };
        settle(facts, hook, &format!("round_0_index_{index}"), asked)?;
    }
    Ok(())
}

/// Records what a call did and applies the failure policy. True when the object changed.
fn settle(facts: &Facts<'_>, hook: &Hook, mark: &str, asked: Result<bool, CallError>) -> Result<bool, Status> {
    let changed = match asked {
        Ok(changed) => changed,
        Err(CallError::Refused(status)) => return Err(*status),
        Err(CallError::Failed(problem)) => {
            let text = format!("failed calling webhook {:?}: {problem}", hook.name);
            if hook.fails_closed {
                return Err(Status::internal(text));
            }
            tracing::warn!(webhook = hook.name, problem = text, "webhook failed, ignored by failurePolicy");
            facts.ctx.annotate_audit(format!("failed-open.mutation.webhook.admission.k8s.io/{mark}"), &hook.name);
            false
        }
    };
    let note = json!({"configuration": hook.configuration, "mutated": changed, "webhook": hook.name});
    facts.ctx.annotate_audit(format!("mutation.webhook.admission.k8s.io/{mark}"), note.to_string());
    Ok(changed)
}

async fn ask(facts: &Facts<'_>, hook: &Hook, matched: &Matched, object: &mut Object) -> Result<bool, CallError> {
    let patched = {
        let seen = Seen::of(facts, matched, Some(object)).await.map_err(CallError::refused)?;
        let Some(patch) = call(facts, hook, matched, &seen, Role::Mutating).await? else { return Ok(false) };
        let before = seen.object().expect("an object was given to be seen");
        let patched =
            apply(facts, matched, before, &patch).map_err(|problem| CallError::refused(Status::internal(problem)))?;
        if patched == *before {
            return Ok(false);
        }
        patched
    };
    let taken = version::take_back(facts, matched, patched).await;
    *object = taken.map_err(|status| CallError::refused(Status::internal(status)))?;
    Ok(true)
}

/// Names the operation that does not apply.
fn blame(before: &Object, patch: &Value, error: &patch::PatchError) -> String {
    let mut value = before.to_value();
    for operation in patch.as_array().into_iter().flatten() {
        if patch::json::apply(&mut value, &json!([operation])).is_err() {
            let text = |key: &str| operation[key].as_str().unwrap_or_default();
            return format!("error in {} for path: '{}': {error}", text("op"), text("path"));
        }
    }
    error.to_string()
}

/// The patched object in the form every other object of its kind has.
fn apply(facts: &Facts<'_>, matched: &Matched, before: &Object, patch: &Value) -> Result<Object, String> {
    let mut value = before.to_value();
    patch::json::apply(&mut value, patch).map_err(|error| blame(before, patch, &error))?;
    let object = Object::from_value(value).ok_or("the patched object is not a JSON object")?;
    reshape(facts, matched, before, object)
}
