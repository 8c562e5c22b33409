//! Pod Security: refuses pods that the labels of their namespace do not allow, and warns about workloads that create such
//! pods.

use async_trait::async_trait;
use kinds::pod_security::{
    self, Level, LevelVersion, PodSecurityPolicy, describe, is_significant_update, template_of, violations,
};
use object::request::Subresource;
use object::{GroupKind, Object, Status};
use std::collections::BTreeMap;

use super::dynamic::facts::Facts;
use super::{Admission, Attributes};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;

/// Existing pods that are checked when a namespace gets a stricter level.
const EXISTING_PODS_MAX: usize = 3_000;
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const AUDITED: &str = "pod-security.kubernetes.io/audit-violations";
const ERROR: &str = "pod-security.kubernetes.io/error";

/// kube-apiserver's `PodSecurity`, with its built-in configuration: nothing is exempt, and namespaces without labels are
/// privileged.
pub struct PodSecurity;

#[async_trait]
impl Admission for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        if !attributes.is_write() {
            return Ok(());
        }
        let Some(object) = object else { return Ok(()) };
        let facts = Facts::new(scope, ctx, attributes);
        if facts.is_about_namespace() {
            return if attributes.subresource.is_none() { judge_namespace(&facts, object).await } else { Ok(()) };
        }
        let kind = &attributes.resource.kind.gvk;
        let is_pod = kind.group.is_empty() && kind.kind == "Pod";
        match attributes.subresource {
            None => {}
            Some(Subresource::EphemeralContainers) if is_pod => {}
            Some(_) => return Ok(()),
        }
        let Some((metadata, spec)) = template_of(object) else { return Ok(()) };
        if let Some(old) = attributes.old.filter(|_| is_pod)
            && !is_significant_update(object, old)
        {
            return Ok(());
        }
        let (policy, errors) = PodSecurityPolicy::of_namespace(&*facts.namespace_object().await?);
        if errors.is_empty() && policy.allows_everything() {
            return Ok(());
        }
        if !errors.is_empty() {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            ctx.annotate_audit(ERROR, format!("Failed to parse policy: {}", all.join(", ")));
        }
        let judge = |at: LevelVersion| describe(&violations(at, metadata, spec));
        let audited = judge(policy.audit);
        if !audited.is_empty() {
            ctx.annotate_audit(AUDITED, format!("would violate PodSecurity \"{}\": {audited}", policy.audit));
        }
        if is_pod {
            ctx.annotate_audit(ENFORCED, policy.enforce.to_string());
            let broken = judge(policy.enforce);
            if !broken.is_empty() {
                let text = format!("violates PodSecurity \"{}\": {broken}", policy.enforce);
                return Err(facts.forbidden(Some(object), text));
            }
        }
        let broken = judge(policy.warn);
        if !broken.is_empty() {
            ctx.warn(format!("would violate PodSecurity \"{}\": {broken}", policy.warn));
        }
        Ok(())
    }
}

/// Refuses labels that cannot be read, and warns when existing pods break a stricter level.
async fn judge_namespace(facts: &Facts<'_>, namespace: &Object) -> Result<(), Status> {
    let (policy, errors) = PodSecurityPolicy::of_namespace(namespace);
    let before = facts.attributes.old.map(PodSecurityPolicy::of_namespace);
    // Labels that were wrong before do not stop other changes.
    if !errors.is_empty() && before.as_ref().is_none_or(|(_, old_errors)| *old_errors != errors) {
        return Err(Status::invalid(&GroupKind::new("", "Namespace"), namespace.name(), &errors));
    }
    let Some((old, _)) = before else { return Ok(()) };
    let (new, old) = (policy.enforce, old.enforce);
    let is_stricter =
        new != old && new.level != Level::Privileged && (new.version != old.version || new.level > old.level);
    if !is_stricter {
        return Ok(());
    }
    for warning in judge_existing(facts, namespace.name(), new).await? {
        facts.ctx.warn(warning);
    }
    Ok(())
}

/// Pods with the same violations share one line.
async fn judge_existing(facts: &Facts<'_>, namespace: &str, at: LevelVersion) -> Result<Vec<String>, Status> {
    let Some(pods) = facts.scope.resources.registry.find("", "v1", "pods") else { return Ok(Vec::new()) };
    pods.cache.ready().await?;
    let entries = pods.cache.entries(&Filter { namespace: namespace.to_owned(), ..Filter::default() });
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in entries.iter().take(EXISTING_PODS_MAX) {
        let pod = entry.decode();
        let Some((metadata, spec)) = template_of(&pod) else { continue };
        let broken = violations(at, metadata, spec);
        if !broken.is_empty() {
            lines.entry(pod_security::reasons(&broken)).or_default().push(pod.name().to_owned());
        }
    }
    let mut warnings = Vec::new();
    if entries.len() > EXISTING_PODS_MAX {
        let total = entries.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {EXISTING_PODS_MAX} of {total} existing pods"
        ));
    }
    if !lines.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{at}\""
        ));
    }
    let mut named: Vec<String> = lines.into_iter().map(|(reasons, pods)| line(&reasons, pods)).collect();
    named.sort();
    warnings.extend(named);
    Ok(warnings)
}

fn line(reasons: &str, mut pods: Vec<String>) -> String {
    pods.sort();
    match &pods[..] {
        [] => reasons.to_owned(),
        [one] => format!("{one}: {reasons}"),
        [first, _] => format!("{first} (and 1 other pod): {reasons}"),
        [first, others @ ..] => format!("{first} (and {} other pods): {reasons}", others.len()),
    }
}
