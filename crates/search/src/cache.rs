//! Copies of members' objects, one per member and resource, kept packed; all requests are served from these.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::search::ANNOTATION_CACHED_FROM;
use cluster_client::{ApiResource, ClusterClient, MemberClients};
use object::{GroupVersionResource, Object};
use reconcile::{Mirror, MirrorLimits, MirrorSpec};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::registries::{CachePlan, Namespaces, PlannedCache};

/// Requests wait this long after a cache's start for its first sync; after that they are served without it.
pub const FIRST_READING_MAX: Duration = Duration::from_secs(5);

/// The copy of one resource of one member.
pub struct Cache {
    pub cluster: String,
    pub mirror: Mirror,
    /// The member itself.
    pub client: ClusterClient,
    wanted: PlannedCache,
    started: Instant,
    /// Cancelled when the cache is no longer needed.
    pub stop: CancellationToken,
}

/// All caches at one moment. A reader keeps the view it started with.
#[derive(Default)]
pub struct View {
    /// Registries have been read.
    pub is_known: bool,
    registered: BTreeMap<GroupVersionResource, ApiResource>,
    caches: BTreeMap<GroupVersionResource, BTreeMap<String, Arc<Cache>>>,
}

impl View {
    /// A view without registries.
    pub fn empty() -> Self {
        Self { is_known: true, ..Self::default() }
    }

    /// The resource, if any registry selects it.
    pub fn resource(&self, gvr: &GroupVersionResource) -> Option<&ApiResource> {
        self.registered.get(gvr)
    }

    /// The caches of a resource, sorted by member.
    pub fn of(&self, gvr: &GroupVersionResource) -> impl Iterator<Item = &Arc<Cache>> {
        self.caches.get(gvr).into_iter().flat_map(BTreeMap::values)
    }

    pub fn count(&self) -> usize {
        self.caches.values().map(BTreeMap::len).sum()
    }

    /// The view for a plan: existing caches continue, new ones start at once and concurrently, and those not in the
    /// plan stop.
    pub fn changed(&self, plan: CachePlan, members: &dyn MemberClients, cancel: &CancellationToken) -> Self {
        let mut next = Self { is_known: true, registered: plan.registered, caches: BTreeMap::new() };
        // One client for all resources of a member: they share its connections.
        let mut clients: BTreeMap<String, ClusterClient> = BTreeMap::new();
        for cache in self.caches.values().flat_map(BTreeMap::values) {
            clients.entry(cache.cluster.clone()).or_insert_with(|| cache.client.clone());
        }
        for ((gvr, cluster), wanted) in plan.caches {
            let known = self.caches.get(&gvr).and_then(|caches| caches.get(&cluster));
            let cache = match known.filter(|cache| cache.wanted == wanted) {
                Some(cache) => Arc::clone(cache),
                None => {
                    let client = match clients.get(&cluster).cloned().map_or_else(|| members.client(&cluster), Ok) {
                        Ok(client) => client,
                        Err(error) => {
                            tracing::warn!(cluster, resource = gvr.resource, %error, "cannot cache the resource");
                            continue;
                        }
                    };
                    clients.entry(cluster.clone()).or_insert_with(|| client.clone());
                    Arc::new(Cache::start(&gvr, &cluster, wanted, client, cancel))
                }
            };
            next.caches.entry(gvr).or_default().insert(cluster, cache);
        }
        for (gvr, caches) in &self.caches {
            let kept = next.caches.get(gvr);
            let stays = |cache: &Arc<Cache>| {
                kept.and_then(|kept| kept.get(&cache.cluster)).is_some_and(|kept| Arc::ptr_eq(kept, cache))
            };
            caches.values().filter(|cache| !stays(cache)).for_each(|cache| cache.stop.cancel());
        }
        next
    }
}

impl Cache {
    fn start(
        gvr: &GroupVersionResource,
        cluster: &str,
        wanted: PlannedCache,
        client: ClusterClient,
        cancel: &CancellationToken,
    ) -> Self {
        let name = cluster.to_owned();
        let spec = MirrorSpec::new(gvr)
            .packed()
            .limits(MirrorLimits::MEMBER)
            .with_history()
            .trim(move |object| stamp(object, &name));
        let spec = match &wanted.namespaces {
            Namespaces::All => spec,
            Namespaces::Only(names) if names.len() == 1 => names.iter().fold(spec, |spec, name| spec.within(name)),
            Namespaces::Only(names) => spec.within_any(names.clone()),
        };
        let stop = cancel.child_token();
        let mirror = Mirror::start(client.clone(), spec, stop.clone());
        Self { cluster: cluster.to_owned(), mirror, client, wanted, started: Instant::now(), stop }
    }

    /// Reports whether the cache is synced; waits for that while the cache is new.
    pub async fn settled(&self) -> bool {
        let until = self.started + FIRST_READING_MAX;
        if !self.mirror.is_synced() && Instant::now() < until {
            tokio::select! {
                () = self.mirror.synced() => {}
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
        self.mirror.is_synced()
    }

    /// The reason why it is incomplete, for users.
    pub fn problem(&self) -> String {
        let error = self.mirror.error().unwrap_or_else(|| "it has not been synced yet".to_owned());
        format!("cluster {}: {error}", self.cluster)
    }
}

/// Prepares an object so that responses can be copied out. managedFields are dropped: they belong to the member and
/// are as large as the rest.
pub fn stamp(object: &mut Object, cluster: &str) {
    object.remove(&["metadata", "managedFields"]);
    object.set_annotation(ANNOTATION_CACHED_FROM, cluster);
}
