//! Replicas that the quotas of a namespace in a member allow, counted as in Karmada's estimator.

use std::collections::HashMap;

use api::capacity::{Amounts, ClusterNodes, QuotaCapacity, QuotaScope};

use crate::capacity::{ComponentDemand, Demand};

/// The one scope that a replica's requirements determine; quotas with other scopes are ignored.
const PRIORITY_CLASS: &str = "PriorityClass";

/// Quota used by replicas that the member does not report yet.
#[derive(Clone, Debug, Default)]
pub struct QuotaUse {
    /// By namespace, then in the order of its quotas.
    taken: HashMap<String, Vec<Amounts>>,
}

impl QuotaUse {
    /// Replicas that still fit; `None` if no quota limits their resources.
    pub fn replicas(&self, known: &ClusterNodes, demand: &Demand) -> Option<i64> {
        let quotas = known.quotas.get(demand.namespace())?;
        let allowed = quotas.iter().enumerate().filter(|(_, quota)| means(quota, demand)).filter_map(|(at, quota)| {
            let times = |(name, amount): &(String, i64)| Some(self.left(quota, demand.namespace(), at, name)? / amount);
            demand.amounts().iter().filter_map(times).min()
        });
        allowed.min()
    }

    /// Whole sets that still fit. A quota counts the components of a set that its scopes match.
    pub fn sets(&self, known: &ClusterNodes, parts: &[ComponentDemand]) -> Option<i64> {
        let namespace = parts.iter().map(|part| part.demand.namespace()).find(|namespace| !namespace.is_empty())?;
        let quotas = known.quotas.get(namespace)?;
        let allowed = quotas.iter().enumerate().filter_map(|(at, quota)| {
            let mut needed = Amounts::new();
            for part in parts.iter().filter(|part| means(quota, &part.demand)) {
                add(&mut needed, part);
            }
            let times = |(name, needed): (&String, &i64)| Some(self.left(quota, namespace, at, name)? / needed);
            needed.iter().filter(|(_, needed)| **needed > 0).filter_map(times).min()
        });
        allowed.min()
    }

    /// Subtracts replicas reserved in the member.
    pub fn take(&mut self, known: &ClusterNodes, part: &ComponentDemand) {
        let namespace = part.demand.namespace();
        let Some(quotas) = known.quotas.get(namespace) else { return };
        if !self.taken.contains_key(namespace) {
            self.taken.insert(namespace.to_owned(), vec![Amounts::new(); quotas.len()]);
        }
        let Some(taken) = self.taken.get_mut(namespace) else { return };
        for (taken, quota) in taken.iter_mut().zip(quotas) {
            if means(quota, &part.demand) {
                add(taken, part);
            }
        }
    }

    /// The rest of a resource, if the quota limits it.
    fn left(&self, quota: &QuotaCapacity, namespace: &str, at: usize, resource: &str) -> Option<i64> {
        let free = quota.free.get(resource)?;
        let taken = self.taken.get(namespace).and_then(|taken| taken.get(at)?.get(resource)).copied();
        Some(free.saturating_sub(taken.unwrap_or(0)).max(0))
    }
}

fn add(sums: &mut Amounts, part: &ComponentDemand) {
    for (name, amount) in part.demand.amounts() {
        let sum = sums.entry(name.clone()).or_insert(0);
        *sum = sum.saturating_add(amount.saturating_mul(part.replicas));
    }
}

/// Reports whether the quota applies to these pods. One matching scope is enough.
fn means(quota: &QuotaCapacity, demand: &Demand) -> bool {
    quota.scopes.is_empty() || quota.scopes.iter().any(|scope| is_in(scope, demand.priority_class()))
}

fn is_in(scope: &QuotaScope, priority_class: &str) -> bool {
    let is_listed = scope.values.iter().any(|value| value == priority_class);
    // An invalid scope matches nothing.
    scope.name == PRIORITY_CLASS
        && match (scope.operator.as_str(), scope.values.is_empty()) {
            ("Exists", _) => !priority_class.is_empty(),
            ("DoesNotExist", true) => priority_class.is_empty(),
            ("In", false) => is_listed,
            ("NotIn", false) => !is_listed,
            _ => false,
        }
}
