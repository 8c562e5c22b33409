//! Preemption: decides if a policy takes a template from the policy that holds it.

use std::cmp::Reverse;
use std::fmt;

use crate::claim::Claim;
use crate::policy::{Policy, PolicyKey, Scope};
use crate::policy_index::PolicyIndex;

/// Does a policy take a template over?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// From the policy named.
    Takes(PolicyKey),
    Leaves(Leaves),
}

/// The reason a template stays with its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// It is not claimed: that is a matter of matching, not of preemption.
    Unclaimed,
    AlreadyHeld,
    /// A cluster-wide policy never takes from one of a namespace.
    HeldByNamespacedPolicy(PolicyKey),
    /// The priority must be higher, not equal.
    PriorityNotHigher {
        holder: PolicyKey,
        own: i32,
        holders: i32,
    },
    /// Its policy is unknown, so it is not preempted: the claim is cleaned up first.
    HolderUnknown(PolicyKey),
}

/// `holder_of` finds the policy that holds the template.
pub fn preempts<'a>(
    policy: &Policy,
    claim: Option<&Claim>,
    holder_of: impl FnOnce(&PolicyKey) -> Option<&'a Policy>,
) -> Preemption {
    let Some(claim) = claim else { return Preemption::Leaves(Leaves::Unclaimed) };
    let holder = &claim.policy;
    if *holder == policy.key {
        return Preemption::Leaves(Leaves::AlreadyHeld);
    }
    match (policy.scope(), holder.scope()) {
        (Scope::Namespaced, Scope::Cluster) => return Preemption::Takes(holder.clone()),
        (Scope::Cluster, Scope::Namespaced) => {
            return Preemption::Leaves(Leaves::HeldByNamespacedPolicy(holder.clone()));
        }
        _ => {}
    }
    let Some(known) = holder_of(holder) else { return Preemption::Leaves(Leaves::HolderUnknown(holder.clone())) };
    let (own, holders) = (policy.priority(), known.priority());
    if own > holders {
        return Preemption::Takes(holder.clone());
    }
    Preemption::Leaves(Leaves::PriorityNotHigher { holder: holder.clone(), own, holders })
}

/// Policies that may now take what a policy holds whose priority went down: of the same namespace, with preemption on
/// and a priority between the two; the highest first, so that templates change hands once.
pub fn may_preempt_now(index: &PolicyIndex, policy: &PolicyKey, from: i32, to: i32) -> Vec<PolicyKey> {
    let rivals = index.iter().filter(|rival| {
        let is_between = rival.explicit_priority.is_some_and(|priority| to < priority && priority < from);
        rival.key.namespace == policy.namespace && rival.key != *policy && rival.may_preempt && is_between
    });
    let mut rivals: Vec<_> = rivals.map(|rival| (Reverse(rival.priority()), rival.key.clone())).collect();
    rivals.sort();
    rivals.into_iter().map(|(_, key)| key).collect()
}

impl fmt::Display for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclaimed => f.write_str("no policy holds it"),
            Self::AlreadyHeld => f.write_str("it holds it already"),
            Self::HeldByNamespacedPolicy(holder) => {
                write!(f, "{holder} holds it, which goes before any ClusterPropagationPolicy")
            }
            Self::PriorityNotHigher { holder, own, holders } => {
                write!(f, "{holder} holds it with priority {holders}, and {own} is not higher")
            }
            Self::HolderUnknown(holder) => write!(f, "{holder} holds it but does not exist"),
        }
    }
}
