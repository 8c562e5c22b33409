//! Explains the choice of a template's policy: each policy that selects it and why it lost, or the nearest misses.

use std::fmt;
use std::sync::Arc;

use object::Object;

use crate::policy::{Policy, PolicyKey, Scope};
use crate::policy_index::{PolicyIndex, Rank};
use crate::policy_selector::{Miss, Specificity};

/// Maximum number of misses that are reported.
pub const NEAREST_MAX: usize = 5;

/// The choice of a policy for a template that is not claimed.
#[derive(Clone, Debug)]
pub struct Choice {
    pub chosen: Option<Arc<Policy>>,
    /// Every policy that selects the template, the chosen one first.
    pub candidates: Vec<Candidate>,
    /// When nothing was chosen: the policies that came nearest, the nearest first.
    pub nearest: Vec<NearMiss>,
}

/// A policy that selects the template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub policy: PolicyKey,
    pub priority: i32,
    pub specificity: Specificity,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Chosen,
    /// A policy on its way out selects nothing more.
    Deleting,
    /// Policies of the template's namespace go before cluster-wide ones.
    NotOfTheNamespace,
    LowerPriority,
    LessSpecific,
    /// All else equal, the first name goes.
    LaterName,
}

/// A policy that does not select the template, and what the nearest of its selectors would need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    pub policy: PolicyKey,
    /// Index of the selector.
    pub selector: usize,
    pub reasons: Vec<MissReason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissReason {
    Field(Miss),
    /// A PropagationPolicy selects only in its own namespace.
    OtherNamespace {
        policy: String,
        template: String,
    },
}

/// Checks every policy: for explanations, not for reconciles.
pub fn explain_choice(index: &PolicyIndex, template: &Object) -> Choice {
    let mut selecting: Vec<(&Arc<Policy>, Specificity)> = index
        .iter()
        .filter(|policy| is_in_reach(policy, template))
        .filter_map(|policy| Some((policy, policy.selects(template)?)))
        .collect();
    selecting.sort_by(|(a, _), (b, _)| {
        let by_scope = a.scope().cmp(&b.scope());
        let by_rank = Rank::of(b, template).cmp(&Rank::of(a, template));
        a.is_deleting().cmp(&b.is_deleting()).then(by_scope).then(by_rank).then(a.key.cmp(&b.key))
    });
    let chosen = selecting.first().filter(|(policy, _)| !policy.is_deleting()).map(|(policy, _)| Arc::clone(policy));
    let candidates = selecting.iter().map(|(policy, specificity)| Candidate {
        policy: policy.key.clone(),
        priority: policy.priority(),
        specificity: *specificity,
        verdict: verdict(policy, chosen.as_ref(), template),
    });
    let candidates: Vec<Candidate> = candidates.collect();
    let nearest = if chosen.is_none() { nearest_misses(index, template) } else { Vec::new() };
    Choice { chosen, candidates, nearest }
}

/// May the policy select the template at all, whatever its selectors say?
fn is_in_reach(policy: &Policy, template: &Object) -> bool {
    policy.scope() == Scope::Cluster || policy.key.namespace == template.namespace()
}

fn verdict(policy: &Policy, chosen: Option<&Arc<Policy>>, template: &Object) -> Verdict {
    let (Some(own), Some(chosen)) = (Rank::of(policy, template), chosen) else { return Verdict::Deleting };
    if policy.key == chosen.key {
        return Verdict::Chosen;
    }
    let Some(best) = Rank::of(chosen, template) else { return Verdict::Deleting };
    if policy.scope() != chosen.scope() {
        Verdict::NotOfTheNamespace
    } else if own.priority != best.priority {
        Verdict::LowerPriority
    } else if own.specificity != best.specificity {
        Verdict::LessSpecific
    } else {
        Verdict::LaterName
    }
}

fn nearest_misses(index: &PolicyIndex, template: &Object) -> Vec<NearMiss> {
    let mut misses: Vec<(u32, NearMiss)> = index
        .iter()
        .filter(|policy| !policy.is_deleting())
        .filter_map(|policy| nearest_selector(policy, template))
        // Another kind is not near.
        .filter(|(distance, _)| *distance < 100)
        .collect();
    misses.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.policy.cmp(&y.policy)));
    misses.into_iter().take(NEAREST_MAX).map(|(_, miss)| miss).collect()
}

fn nearest_selector(policy: &Policy, template: &Object) -> Option<(u32, NearMiss)> {
    let misses = policy.selectors.iter().enumerate().map(|(number, selector)| {
        let fields = selector.misses(template);
        let far = fields.iter().map(Miss::distance).sum::<u32>();
        (far, number, fields)
    });
    let (mut distance, selector, fields) = misses.min_by_key(|(far, number, _)| (*far, *number))?;
    let mut reasons: Vec<MissReason> = fields.into_iter().map(MissReason::Field).collect();
    if !is_in_reach(policy, template) {
        distance += 10;
        // A selector's own namespace says the same; once is enough.
        reasons.retain(|reason| !matches!(reason, MissReason::Field(Miss::Namespace { .. })));
        let (policy, template) = (policy.key.namespace.clone(), template.namespace().to_owned());
        reasons.push(MissReason::OtherNamespace { policy, template });
    }
    Some((distance, NearMiss { policy: policy.key.clone(), selector, reasons }))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chosen => "chosen",
            Self::Deleting => "it is being deleted",
            Self::NotOfTheNamespace => "a PropagationPolicy goes before any ClusterPropagationPolicy",
            Self::LowerPriority => "its priority is lower",
            Self::LessSpecific => "it selects less specifically",
            Self::LaterName => "its name comes later",
        })
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(miss) => miss.fmt(f),
            Self::OtherNamespace { policy, template } if template.is_empty() => {
                write!(f, "the policy is of namespace {policy} and the object of none")
            }
            Self::OtherNamespace { policy, template } => {
                write!(f, "the policy is of namespace {policy}, the object of {template}")
            }
        }
    }
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        write!(f, "{} (selector {}): {}", self.policy, self.selector, reasons.join("; "))
    }
}

#[cfg(test)]
mod tests;
