//! Every resource the server answers for: built-in kinds, kinds native to the product, and whatever CRDs add or take away.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cluster_client::remote::addresses::AddressPolicy;
use kinds::Kind;
use object::{GroupResource, GroupVersionKind};
use parking_lot::Mutex;
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, Filter};
use crate::crd::Custom;
use crate::request::ListSelection;

/// One served version of a resource.
pub struct Resource {
    pub kind: Arc<Kind>,
    pub cache: Arc<Cache>,
    /// Set for kinds that come from a CustomResourceDefinition.
    pub custom: Option<Arc<Custom>>,
}

impl Resource {
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let namespace = if self.kind.namespaced { namespace } else { "" };
        crate::storage::key(&self.kind.storage_resource, namespace, name)
    }

    /// Returns the filter of a list or watch. The cache has the fields of stored objects, under their names.
    pub fn filter(&self, namespace: &str, selection: &ListSelection) -> Filter {
        let mut filter = self.cache.filter(namespace, selection);
        for term in &mut filter.fields.terms {
            if let Some(name) = kinds::selectable::stored_name(&self.kind.gvk, &term.field) {
                term.field = name;
            }
        }
        filter
    }

    pub fn served_is_stored(&self) -> bool {
        self.kind.gvk == self.kind.storage && !self.custom.as_ref().is_some_and(|custom| custom.has_defaults)
    }
}

/// The resources at one moment. Requests hold on to the one they started with.
#[derive(Default)]
pub struct Snapshot {
    by_name: HashMap<String, HashMap<String, HashMap<String, Arc<Resource>>>>,
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
    /// In the order discovery lists them.
    pub ordered: Vec<Arc<Resource>>,
    /// Counts changes, so that documents made from a snapshot know when they are stale.
    pub generation: u64,
}

impl Snapshot {
    fn new(ordered: Vec<Arc<Resource>>, generation: u64) -> Self {
        let mut snapshot = Self { generation, ..Self::default() };
        for resource in &ordered {
            let gvk = &resource.kind.gvk;
            let versions = snapshot.by_name.entry(gvk.group.clone()).or_default();
            let resources = versions.entry(gvk.version.clone()).or_default();
            resources.insert(resource.kind.plural.clone(), resource.clone());
            snapshot.by_kind.insert(gvk.clone(), resource.clone());
        }
        snapshot.ordered = ordered;
        snapshot
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_name.get(group)?.get(version)?.get(plural)
    }

    pub fn find_kind(&self, gvk: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.by_kind.get(gvk)
    }

    /// Any served version of the resource.
    pub fn find_any_version(&self, resource: &GroupResource) -> Option<&Arc<Resource>> {
        let versions = self.by_name.get(&resource.group)?;
        versions.values().find_map(|resources| resources.get(&resource.resource))
    }

    pub fn serves_group(&self, group: &str) -> bool {
        self.by_name.contains_key(group)
    }

    pub fn serves_version(&self, group: &str, version: &str) -> bool {
        self.by_name.get(group).is_some_and(|versions| versions.contains_key(version))
    }
}

pub struct ServedResources {
    store: Arc<dyn Store>,
    stop: CancellationToken,
    /// Every served version of a resource reads the same cache.
    caches: Mutex<HashMap<GroupResource, Arc<Cache>>>,
    fixed: Vec<Arc<Resource>>,
    snapshot: ArcSwap<Snapshot>,
    /// The addresses that webhooks and APIServices may name.
    addresses: AddressPolicy,
}

impl ServedResources {
    pub fn new(store: Arc<dyn Store>, kinds: Vec<Kind>, addresses: AddressPolicy, stop: CancellationToken) -> Self {
        let mut registry = Self {
            store,
            stop,
            caches: Mutex::default(),
            fixed: Vec::new(),
            snapshot: ArcSwap::from_pointee(Snapshot::default()),
            addresses,
        };
        let fixed = kinds.into_iter().map(|kind| {
            let custom = Custom::of_own(&kind).map(Arc::new);
            Arc::new(registry.resource(kind, custom))
        });
        registry.fixed = fixed.collect();
        registry.snapshot.store(Arc::new(Snapshot::new(registry.fixed.clone(), 1)));
        registry
    }

    pub fn addresses(&self) -> AddressPolicy {
        self.addresses
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.snapshot.load().find(group, version, plural).cloned()
    }

    /// A resource over the cache its stored form shares with other versions.
    pub fn resource(&self, kind: Kind, custom: Option<Arc<Custom>>) -> Resource {
        let mut caches = self.caches.lock();
        let cache = caches.entry(kind.storage_resource.clone()).or_insert_with(|| {
            let prefix = crate::storage::prefix(&kind.storage_resource);
            let fields = kind.selectable_fields.clone();
            Arc::new(Cache::new(self.store.clone(), prefix, fields, self.stop.clone()))
        });
        Resource { cache: cache.clone(), kind: Arc::new(kind), custom }
    }

    /// Is the resource the server's own, whatever definitions say?
    pub fn is_fixed(&self, resource: &GroupResource) -> bool {
        self.fixed.iter().any(|fixed| fixed.kind.group_resource() == *resource)
    }

    /// Replaces what CRDs serve. Built-in resources stay first and cannot be taken over.
    pub fn set_custom(&self, custom: Vec<Arc<Resource>>) {
        let mut ordered = self.fixed.clone();
        ordered.extend(custom.into_iter().filter(|resource| !self.is_fixed(&resource.kind.group_resource())));
        let generation = self.snapshot.load().generation + 1;
        self.snapshot.store(Arc::new(Snapshot::new(ordered, generation)));
    }

    /// Forgets the cache of a resource that is gone, so that a new CRD of the same name starts afresh.
    pub fn drop_cache(&self, resource: &GroupResource) {
        self.caches.lock().remove(resource);
    }

    pub fn caches(&self) -> Vec<(GroupResource, Arc<Cache>)> {
        self.caches.lock().iter().map(|(resource, cache)| (resource.clone(), cache.clone())).collect()
    }
}
