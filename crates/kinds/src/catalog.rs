//! An immutable set of served kinds, indexed by resource, by kind and by group.

use std::collections::HashMap;
use std::sync::Arc;

use object::{GroupResource, GroupVersionKind, GroupVersionResource};

use crate::discovery::{self, DiscoveryGroup};
use crate::kind::Kind;

/// A snapshot of the served kinds, in discovery order.
#[derive(Clone, Default)]
pub struct Catalog {
    kinds: Vec<Arc<Kind>>,
    by_resource: HashMap<GroupVersionResource, usize>,
    by_kind: HashMap<GroupVersionKind, usize>,
}

impl Catalog {
    /// Later kinds do not replace earlier ones of the same name: built-in kinds cannot be overridden.
    pub fn new(kinds: impl IntoIterator<Item = Arc<Kind>>) -> Self {
        let mut catalog = Self::default();
        for kind in kinds {
            let index = catalog.kinds.len();
            if catalog.by_resource.contains_key(&kind.gvr()) {
                continue;
            }
            catalog.by_resource.insert(kind.gvr(), index);
            catalog.by_kind.entry(kind.gvk.clone()).or_insert(index);
            catalog.kinds.push(kind);
        }
        catalog
    }

    pub fn builtin() -> Self {
        Self::new(crate::builtin::builtin().into_iter().map(Arc::new))
    }

    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    pub fn find(&self, gvr: &GroupVersionResource) -> Option<&Arc<Kind>> {
        self.by_resource.get(gvr).map(|index| &self.kinds[*index])
    }

    pub fn find_kind(&self, gvk: &GroupVersionKind) -> Option<&Arc<Kind>> {
        self.by_kind.get(gvk).map(|index| &self.kinds[*index])
    }

    /// The preferred served version of a resource.
    pub fn preferred(&self, resource: &GroupResource) -> Option<&Arc<Kind>> {
        self.kinds
            .iter()
            .filter(|kind| kind.gvk.group == resource.group && kind.plural == resource.resource)
            .min_by_key(|kind| discovery::VersionRank::of(&kind.gvk.group_version()))
    }

    /// Groups in discovery order, each with its versions, the preferred one first.
    pub fn groups(&self) -> Vec<DiscoveryGroup> {
        discovery::groups(&self.kinds)
    }
}
