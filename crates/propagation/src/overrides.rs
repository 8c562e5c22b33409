//! Applies override policies to the manifest for one member, in their order.

mod image;
mod ordered;
mod overriders;

use std::fmt;

use api::cluster::ClusterSpec;
use api::policy::{OverrideRule, OverrideSpec, Overriders};
use object::{Object, Status};
use serde::Serialize;

use crate::policy_selector::{Selector, Specificity};

pub use crate::overrides::image::{Image, ImageError};
pub use crate::overrides::overriders::OverrideError;

/// An override policy, ready to be matched. The namespace of a ClusterOverridePolicy is empty.
#[derive(Clone, Debug)]
pub struct OverridePolicy {
    pub namespace: String,
    pub name: String,
    /// None selects everything.
    pub selectors: Vec<Selector>,
    pub rules: Vec<OverrideRule>,
}

/// The member a manifest is made for.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub cluster: &'a Object,
    pub spec: &'a ClusterSpec,
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    pub namespace: String,
    pub name: String,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None of its selectors selects the template.
    OtherResource,
    /// No rule is for this member.
    OtherMember { specificity: Specificity },
    /// The rules at these places were applied.
    Applied { specificity: Specificity, rules: Vec<usize> },
    /// The rule at this place could not be applied, so the template does not go to this member.
    Failed { specificity: Specificity, rule: usize, error: OverrideError },
}

/// The changes of a manifest, with policies in the order they were applied.
#[derive(Clone, Debug, Default)]
pub struct Applied<'p> {
    pub considered: Vec<Considered>,
    cluster: Vec<Shadow<'p>>,
    namespaced: Vec<Shadow<'p>>,
}

/// A manifest could not be made for a member. What was considered ends with the policy that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    pub considered: Vec<Considered>,
    pub error: OverrideError,
}

/// The applied policies as recorded on the Work: JSON lists of policy names and their overriders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub cluster: Option<String>,
    pub namespaced: Option<String>,
}

/// The record of one policy on the Work.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shadow<'p> {
    policy_name: &'p str,
    overriders: &'p Overriders,
}

impl OverridePolicy {
    pub fn read(object: &Object) -> Result<Self, Status> {
        let spec: OverrideSpec = api::read(object)?;
        let rules = match spec.override_rules.is_empty() {
            true => vec![OverrideRule { target_cluster: spec.target_cluster, overriders: spec.overriders }],
            false => spec.override_rules,
        };
        Ok(Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            selectors: spec.resource_selectors.into_iter().map(Selector::new).collect(),
            rules,
        })
    }

    /// Returns how specifically it selects a template; `None` when it does not.
    pub fn selects(&self, template: &Object) -> Option<Specificity> {
        if self.selectors.is_empty() {
            return Some(Specificity::All);
        }
        self.selectors.iter().filter_map(|selector| selector.selects(template)).max()
    }
}

/// Changes a manifest for one member: first by the ClusterOverridePolicies, then by the OverridePolicies of its
/// namespace, so that these have the last word. Within each, what selects more specifically comes later, then what
/// comes later by name. A cluster-wide manifest has no namespace and thus no OverridePolicies.
pub fn apply<'p>(
    manifest: &mut Object,
    member: Member<'_>,
    cluster_policies: impl IntoIterator<Item = &'p OverridePolicy>,
    policies: impl IntoIterator<Item = &'p OverridePolicy>,
) -> Result<Applied<'p>, Failure> {
    let mut applied = Applied::default();
    applied.cluster = apply_all(manifest, member, cluster_policies, &mut applied.considered)?;
    if !manifest.namespace().is_empty() {
        // Selected only now: a label that was just added counts.
        let namespace = manifest.namespace().to_owned();
        let own = policies.into_iter().filter(|policy| policy.namespace == namespace);
        applied.namespaced = apply_all(manifest, member, own, &mut applied.considered)?;
    }
    Ok(applied)
}

fn apply_all<'p>(
    manifest: &mut Object,
    member: Member<'_>,
    policies: impl IntoIterator<Item = &'p OverridePolicy>,
    considered: &mut Vec<Considered>,
) -> Result<Vec<Shadow<'p>>, Failure> {
    let mut selected = Vec::new();
    for policy in policies {
        match policy.selects(manifest) {
            Some(specificity) => selected.push((specificity, policy)),
            None => considered.push(policy.considered(Verdict::OtherResource)),
        }
    }
    selected.sort_by(|(left, a), (right, b)| left.cmp(right).then_with(|| a.name.cmp(&b.name)));
    // Rules are chosen by the member alone, which no rule changes, so choosing and applying can take turns.
    let mut shadows = Vec::new();
    for (specificity, policy) in selected {
        let mut applied = Vec::new();
        for (index, rule) in policy.rules.iter().enumerate() {
            let is_meant =
                rule.target_cluster.as_ref().is_none_or(|affinity| affinity.matches(member.cluster, member.spec));
            if !is_meant {
                continue;
            }
            if let Err(error) = apply_rule(manifest, policy, rule) {
                let verdict = Verdict::Failed { specificity, rule: index, error: error.clone() };
                considered.push(policy.considered(verdict));
                return Err(Failure { considered: std::mem::take(considered), error });
            }
            applied.push(index);
            shadows.push(Shadow { policy_name: &policy.name, overriders: &rule.overriders });
        }
        considered.push(policy.considered(match applied.is_empty() {
            true => Verdict::OtherMember { specificity },
            false => Verdict::Applied { specificity, rules: applied },
        }));
    }
    Ok(shadows)
}

/// Applies one rule. A policy of a namespace must leave the object the one its author may propagate: members are written
/// to with the rights of the control plane.
fn apply_rule(manifest: &mut Object, policy: &OverridePolicy, rule: &OverrideRule) -> Result<(), OverrideError> {
    if policy.namespace.is_empty() {
        return overriders::apply(manifest, &rule.overriders);
    }
    let from = identity(manifest);
    overriders::apply(manifest, &rule.overriders)?;
    let to = identity(manifest);
    if from == to { Ok(()) } else { Err(OverrideError::OtherObject { from, to }) }
}

fn identity(manifest: &Object) -> String {
    let gvk = manifest.gvk();
    format!("{}.{} {}/{}", gvk.kind, gvk.group, manifest.namespace(), manifest.name())
}

impl OverridePolicy {
    fn considered(&self, verdict: Verdict) -> Considered {
        Considered { namespace: self.namespace.clone(), name: self.name.clone(), verdict }
    }
}

impl Applied<'_> {
    /// Was anything changed?
    pub fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.namespaced.is_empty()
    }

    pub fn recorded(&self) -> Recorded {
        Recorded { cluster: record(&self.cluster), namespaced: record(&self.namespaced) }
    }
}

fn record(shadows: &[Shadow<'_>]) -> Option<String> {
    if shadows.is_empty() {
        return None;
    }
    let mut shadows = shadows.to_vec();
    shadows.sort_by_key(|shadow| shadow.policy_name);
    let text = serde_json::to_string(&shadows).expect("overriders were read from JSON");
    // Go writes these so that they are harmless in a web page; outside of strings they do not occur in JSON.
    let escapes =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    Some(escapes.into_iter().fold(text, |text, (character, escape)| text.replace(character, escape)))
}

impl fmt::Display for Considered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "ClusterOverridePolicy {}: {}", self.name, self.verdict),
            namespace => write!(f, "OverridePolicy {namespace}/{}: {}", self.name, self.verdict),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherResource => f.write_str("does not select this resource"),
            Self::OtherMember { specificity } => write!(f, "selects {specificity}, but no rule is for this cluster"),
            Self::Applied { specificity, rules } => {
                let rules: Vec<String> = rules.iter().map(usize::to_string).collect();
                write!(f, "selects {specificity}, applied overrideRules {}", rules.join(", "))
            }
            Self::Failed { specificity, rule, error } => {
                write!(f, "selects {specificity}, overrideRules[{rule}] cannot be applied: {error}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
