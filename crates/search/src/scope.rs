//! The part of the caches that a caller may read, by member and namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::GroupVersionResource;
use reconcile::ObjectKey;

use crate::Search;
use crate::cache::{Cache, View};

/// Sorts after every name of an object, so that a namespace can be skipped.
const AFTER_ALL_NAMES: &str = "\u{10ffff}";

/// The objects of one resource that a caller may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// Every cached object.
    Everything,
    Limited(LimitedScope),
}

/// The members a caller may read, and those that could not be asked. Other members do not exist for the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedScope {
    pub members: BTreeMap<String, MemberScope>,
    /// The reasons why members could not decide, by member.
    pub undecided: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberScope {
    All,
    Namespaces { allowed: BTreeSet<String>, denied: BTreeSet<String> },
}

impl ReadScope {
    /// Reports whether any object of the member may be shown.
    pub fn covers(&self, cluster: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Limited(limited) => limited.members.contains_key(cluster),
        }
    }

    pub fn shows(&self, cluster: &str, key: &ObjectKey) -> bool {
        match self.of_member(cluster) {
            Some(MemberScope::All) => true,
            Some(MemberScope::Namespaces { allowed, .. }) => allowed.contains(&key.namespace),
            None => false,
        }
    }

    /// Reports whether the object is in a namespace that did not exist when the scope was decided.
    pub fn leaves_open(&self, cluster: &str, key: &ObjectKey) -> bool {
        let Some(MemberScope::Namespaces { allowed, denied }) = self.of_member(cluster) else { return false };
        !allowed.contains(&key.namespace) && !denied.contains(&key.namespace)
    }

    /// Reports whether both show the same objects; denied namespaces do not count.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let shown = |scope: &Self| match scope {
            Self::Everything => None,
            Self::Limited(limited) => {
                let members = limited.members.iter().map(|(cluster, scope)| match scope {
                    MemberScope::All => (cluster.clone(), None),
                    MemberScope::Namespaces { allowed, .. } => (cluster.clone(), Some(allowed.clone())),
                });
                Some(members.collect::<BTreeMap<_, _>>())
            }
        };
        shown(self) == shown(other)
    }

    /// The reasons for which members are missing, for users.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let undecided = match self {
            Self::Everything => None,
            Self::Limited(limited) => Some(&limited.undecided),
        };
        undecided.into_iter().flatten().map(|(cluster, reason)| format!("cluster {cluster}: {reason}"))
    }

    fn of_member(&self, cluster: &str) -> Option<&MemberScope> {
        match self {
            Self::Everything => Some(&MemberScope::All),
            Self::Limited(limited) => limited.members.get(cluster),
        }
    }
}

impl Search {
    /// The members that cache a resource, sorted.
    pub fn clusters(&self, gvr: &GroupVersionResource) -> Vec<String> {
        self.view().of(gvr).map(|cache| cache.cluster.clone()).collect()
    }

    /// The namespaces with cached objects of one member, at most `count_max` of them.
    pub fn namespaces(&self, gvr: &GroupVersionResource, cluster: &str, count_max: usize) -> BTreeSet<String> {
        let view = self.view();
        let mut namespaces = BTreeSet::new();
        let Some(cache) = view.of(gvr).find(|cache| cache.cluster == cluster) else { return namespaces };
        let mut after = None;
        while namespaces.len() < count_max {
            let Some((next, _)) = cache.mirror.chunk("", after.as_ref(), 1).pop() else { break };
            after = Some(ObjectKey::new(&next.namespace, AFTER_ALL_NAMES));
            namespaces.insert(next.namespace);
        }
        namespaces
    }
}

/// The caches of a resource that the caller may read.
pub fn readable<'a>(
    view: &'a View,
    gvr: &GroupVersionResource,
    scope: &'a ReadScope,
) -> impl Iterator<Item = &'a Arc<Cache>> {
    view.of(gvr).filter(|cache| scope.covers(&cache.cluster))
}
