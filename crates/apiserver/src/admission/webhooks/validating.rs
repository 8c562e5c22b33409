//! Validating webhooks: called in parallel; one refusal is enough.

use futures::future::join_all;
use object::{Object, Status};

use super::call::{CallError, Role, call};
use super::hook::{Hook, Seen};
use crate::admission::dynamic::Matched;
use crate::admission::dynamic::facts::Facts;

pub async fn run(facts: &Facts<'_>, hooks: &[Hook], object: Option<&Object>) -> Result<(), Status> {
    let mut calls = Vec::new();
    for hook in hooks {
        if let Some(matched) = hook.is_called(facts, object).await? {
            calls.push((hook, matched));
        }
    }
    let asked = calls.iter().enumerate().map(|(index, (hook, matched))| ask(facts, hook, matched, index, object));
    join_all(asked).await.into_iter().collect()
}

async fn ask(
    facts: &Facts<'_>,
    hook: &Hook,
    matched: &Matched,
    index: usize,
    object: Option<&Object>,
) -> Result<(), Status> {
    let seen = Seen::of(facts, matched, object).await?;
    match call(facts, hook, matched, &seen, Role::Validating).await {
        Ok(_) => Ok(()),
        Err(CallError::Refused(status)) => Err(*status),
        Err(CallError::Failed(problem)) => {
            let text = format!("failed calling webhook {:?}: {problem}", hook.name);
            if hook.fails_closed {
                return Err(Status::internal(text));
            }
            tracing::warn!(webhook = hook.name, problem = text, "webhook failed, ignored by failurePolicy");
            let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
            facts.ctx.annotate_audit(key, &hook.name);
            Ok(())
        }
    }
}
