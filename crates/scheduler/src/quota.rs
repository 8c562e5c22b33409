//! How many replicas the quotas of a namespace in a member allow, as Karmada's estimator counts them.

use std::collections::HashMap;

use api::capacity::{Amounts, ClusterNodes, QuotaCapacity, QuotaScope};

use crate::capacity::{Demand, Part};

/// The one scope that can be told from what a replica asks for; quotas of others limit nothing here.
const PRIORITY_CLASS: &str = "PriorityClass";

/// What replicas that do not show in a member yet take of its quotas.
#[derive(Clone, Debug, Default)]
pub struct QuotaUse {
    /// By namespace, and then in the order of its quotas.
    taken: HashMap<String, Vec<Amounts>>,
}

impl QuotaUse {
    /// How many replicas may still come; `None` where no quota limits what they ask for.
    pub fn replicas(&self, known: &ClusterNodes, demand: &Demand) -> Option<i64> {
        let quotas = known.quotas.get(demand.namespace())?;
        let allowed = quotas.iter().enumerate().filter(|(_, quota)| means(quota, demand)).filter_map(|(at, quota)| {
            let times = |(name, amount): &(String, i64)| Some(self.left(quota, demand.namespace(), at, name)? / amount);
            demand.amounts().iter().filter_map(times).min()
        });
        allowed.min()
    }

    /// How many whole sets may still come. A quota counts those parts of a set that it means.
    pub fn sets(&self, known: &ClusterNodes, parts: &[Part]) -> Option<i64> {
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

    /// Takes away what is on its way to the member.
    pub fn take(&mut self, known: &ClusterNodes, part: &Part) {
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

    /// What is left of a resource, if the quota limits it.
    fn left(&self, quota: &QuotaCapacity, namespace: &str, at: usize, resource: &str) -> Option<i64> {
        let free = quota.free.get(resource)?;
        let taken = self.taken.get(namespace).and_then(|taken| taken.get(at)?.get(resource)).copied();
        Some(free.saturating_sub(taken.unwrap_or(0)).max(0))
    }
}

fn add(sums: &mut Amounts, part: &Part) {
    for (name, amount) in part.demand.amounts() {
        let sum = sums.entry(name.clone()).or_insert(0);
        *sum = sum.saturating_add(amount.saturating_mul(part.replicas));
    }
}

/// Is the quota about these pods? One of its scopes is enough.
fn means(quota: &QuotaCapacity, demand: &Demand) -> bool {
    quota.scopes.is_empty() || quota.scopes.iter().any(|scope| is_in(scope, demand.priority_class()))
}

fn is_in(scope: &QuotaScope, priority_class: &str) -> bool {
    let is_listed = scope.values.iter().any(|value| value == priority_class);
    // What is not well formed means nobody.
    scope.name == PRIORITY_CLASS
        && match (scope.operator.as_str(), scope.values.is_empty()) {
            ("Exists", _) => !priority_class.is_empty(),
            ("DoesNotExist", true) => priority_class.is_empty(),
            ("In", false) => is_listed,
            ("NotIn", false) => !is_listed,
            _ => false,
        }
}
