//! Clusters matched by an affinity, cached until the clusters change.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use api::core::SelectorRequirement;
use api::policy::ClusterAffinity;

use crate::set::ClusterSet;
use crate::snapshot::{ClusterSnapshot, Member};

/// Cached affinities; beyond this the cache is cleared.
const AFFINITIES_MAX: usize = 4096;

/// A cache of matches; it affects only speed.
#[derive(Default)]
pub(crate) struct AffinityCache {
    known: Mutex<HashMap<u64, Vec<Known>>>,
}

type Known = (ClusterAffinity, Arc<ClusterSet>);

impl AffinityCache {
    pub fn clear(&mut self) {
        self.known.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn find(&self, hash: u64, affinity: &ClusterAffinity) -> Option<Arc<ClusterSet>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known.get(&hash)?.iter().find(|(known, _)| known == affinity);
        same.map(|(_, set)| Arc::clone(set))
    }

    fn remember(&self, hash: u64, affinity: &ClusterAffinity, set: &Arc<ClusterSet>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= AFFINITIES_MAX {
            known.clear();
        }
        known.entry(hash).or_default().push((affinity.clone(), Arc::clone(set)));
    }
}

impl ClusterSnapshot {
    /// The clusters that match an affinity.
    pub(crate) fn matching(&self, affinity: &ClusterAffinity) -> Arc<ClusterSet> {
        let hash = hash_of(affinity);
        if let Some(set) = self.affinities.find(hash, affinity) {
            return set;
        }
        let set = Arc::new(self.work_out(affinity));
        self.affinities.remember(hash, affinity, &set);
        set
    }

    fn work_out(&self, affinity: &ClusterAffinity) -> ClusterSet {
        let mut set = ClusterSet::empty(self.len());
        // An invalid selector matches nothing.
        let labels = match affinity.label_selector.as_ref().map(|selector| selector.compile()) {
            None => None,
            Some(Ok(selector)) => Some(selector),
            Some(Err(_)) => return set,
        };
        let rest = ClusterAffinity { label_selector: None, ..affinity.clone() };
        let is_meant = |member: &Member| {
            labels.as_ref().is_none_or(|labels| labels.matches(&member.object))
                && rest.matches(&member.object, &member.spec)
        };
        for (at, _) in self.members.iter().enumerate().filter(|(_, member)| is_meant(member)) {
            set.insert(at);
        }
        set
    }
}

fn hash_of(affinity: &ClusterAffinity) -> u64 {
    let mut hasher = DefaultHasher::new();
    affinity.cluster_names.hash(&mut hasher);
    affinity.exclude.hash(&mut hasher);
    let hash_all = |list: &[SelectorRequirement], hasher: &mut DefaultHasher| {
        for requirement in list {
            (&requirement.key, &requirement.operator, &requirement.values).hash(hasher);
        }
    };
    if let Some(selector) = &affinity.label_selector {
        selector.match_labels.hash(&mut hasher);
        hash_all(&selector.match_expressions, &mut hasher);
    }
    if let Some(selector) = &affinity.field_selector {
        hash_all(&selector.match_expressions, &mut hasher);
    }
    hasher.finish()
}
