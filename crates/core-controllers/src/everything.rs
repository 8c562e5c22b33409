//! One watch per resource of the API, for all controllers that must see every object. Keeps no object.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ApiResources, ClusterClient, WatchCall, WatchEvent, WatchEvents};
use futures::StreamExt;
use object::{GroupResource, Object, Status};
use parking_lot::Mutex;
use reconcile::backoff::{MIRROR_BACKOFF, jittered};
use reconcile::mirror::WATCH_TIMEOUT;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How long changes of definitions are gathered before discovery is asked.
const SETTLE: Duration = Duration::from_millis(200);
/// A definition is served a moment after it says so; ask once more then.
const SETTLE_AGAIN: Duration = Duration::from_secs(2);
/// How long the first lists may take before work begins without them.
const LISTED_WAIT_MAX: Duration = Duration::from_secs(30);
/// A resource that is in discovery but not here is behind the aggregator; it may move.
const ELSEWHERE_WAIT: Duration = Duration::from_secs(300);
/// Servers behind the aggregator change what they serve without telling.
const REDISCOVER_EVERY: Duration = Duration::from_secs(300);

/// Resources nobody owns and nobody counts, in numbers that hurt.
const IGNORED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// What a listener is told.
pub enum Seen<'a> {
    /// An object that is new to this watch: made now, or there before.
    Added(&'a Object),
    Modified(&'a Object),
    Deleted(&'a Object),
    /// Everything has been told of; what was not named since the watch began is gone.
    Listed(&'a HashSet<String>),
    /// The resource is no longer served.
    Unserved,
}

/// Called from the watches, one call at a time per resource. Must not block.
pub trait Listener: Send + Sync + 'static {
    fn see(&self, resource: &Arc<ApiResource>, seen: Seen<'_>);
}

/// All resources that can be listed and watched, as they come and go.
pub struct Everything {
    client: ClusterClient,
    listeners: Vec<Arc<dyn Listener>>,
    watched: Mutex<BTreeMap<GroupResource, Watched>>,
    definitions_changed: Notify,
    listing: watch::Sender<Listing>,
}

/// How far the first lists have come.
#[derive(Default)]
struct Listing {
    is_discovered: bool,
    unlisted: usize,
}

struct Watched {
    resource: Arc<ApiResource>,
    cancel: CancellationToken,
}

impl Everything {
    pub fn new(client: ClusterClient, listeners: Vec<Arc<dyn Listener>>) -> Arc<Self> {
        Arc::new(Self {
            client,
            listeners,
            watched: Mutex::default(),
            definitions_changed: Notify::new(),
            listing: watch::Sender::default(),
        })
    }

    /// Returns once every object there is has been told of, or when that takes too long: one resource that cannot be
    /// listed must not stop the work on all others.
    pub async fn listed(&self) {
        let mut listing = self.listing.subscribe();
        let listed = listing.wait_for(|listing| listing.is_discovered && listing.unlisted == 0);
        if tokio::time::timeout(LISTED_WAIT_MAX, listed).await.is_err() {
            tracing::warn!("some resources cannot be listed; their objects are not seen as dependents");
        }
    }

    /// Watches until cancelled.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let mut failures = 0;
        let mut is_settling = false;
        while !cancel.is_cancelled() {
            let wait = match ApiResources::discover(&self.client).await {
                Ok(found) => {
                    failures = 0;
                    self.follow(found, &cancel);
                    REDISCOVER_EVERY
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "discovery failed; objects of new kinds are not seen");
                    MIRROR_BACKOFF.jittered(failures)
                }
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.definitions_changed.notified() => {
                    tokio::time::sleep(SETTLE).await;
                    let again = Arc::clone(&self);
                    is_settling = !is_settling;
                    if is_settling {
                        tokio::spawn(async move {
                            tokio::time::sleep(SETTLE_AGAIN).await;
                            again.definitions_changed.notify_one();
                        });
                    }
                }
            }
        }
    }

    /// Starts watches of what is new and ends those of what is gone.
    fn follow(self: &Arc<Self>, found: ApiResources, cancel: &CancellationToken) {
        let mut watched = self.watched.lock();
        let wanted = plan_watches(&found);
        let unknown = |gr: &GroupResource| found.incomplete.iter().any(|gv| gv.group == gr.group);
        watched.retain(|group_resource, entry| {
            let is_kept = match wanted.get(group_resource) {
                Some(resource) => **resource == *entry.resource,
                None => unknown(group_resource),
            };
            if !is_kept {
                entry.cancel.cancel();
                if !wanted.contains_key(group_resource) {
                    self.tell(&entry.resource, || Seen::Unserved);
                }
            }
            is_kept
        });
        for (group_resource, resource) in wanted {
            watched.entry(group_resource).or_insert_with(|| {
                let (resource, cancel) = (Arc::new(resource.clone()), cancel.child_token());
                self.listing.send_modify(|listing| listing.unlisted += 1);
                tokio::spawn(Arc::clone(self).watch(Arc::clone(&resource), cancel.clone()));
                Watched { resource, cancel }
            });
        }
        self.listing.send_modify(|listing| listing.is_discovered = true);
    }

    async fn watch(self: Arc<Self>, resource: Arc<ApiResource>, cancel: CancellationToken) {
        let mut first_list = Some(FirstList(&self.listing));
        let mut failures = 0;
        let mut version = None;
        loop {
            let ended = tokio::select! {
                () = cancel.cancelled() => return,
                ended = self.watch_once(&resource, &mut version, &mut first_list) => ended,
            };
            let Err(status) = ended else {
                failures = 0;
                continue;
            };
            let wait = match (status.is_not_found(), status.is_expired()) {
                (true, _) => {
                    first_list = None;
                    ELSEWHERE_WAIT
                }
                (_, true) if version.take().is_some() => Duration::ZERO,
                _ => MIRROR_BACKOFF.jittered(failures),
            };
            failures += 1;
            tracing::debug!(resource = resource.gvr.resource, error = %status, ?wait, "a watch ended badly");
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn watch_once(
        &self,
        resource: &Arc<ApiResource>,
        version: &mut Option<String>,
        first_list: &mut Option<FirstList<'_>>,
    ) -> Result<(), Status> {
        let call = WatchCall {
            gvr: resource.gvr.clone(),
            bookmarks: true,
            timeout: Some(jittered(WATCH_TIMEOUT, 1.0)),
            send_initial_events: version.is_none(),
            resource_version: version.clone(),
            ..WatchCall::default()
        };
        let mut events: WatchEvents = self.client.watch(call).await?;
        let mut listed = version.is_none().then(HashSet::new);
        while let Some(event) = events.next().await {
            match event {
                WatchEvent::Error(status) => return Err(status),
                WatchEvent::Bookmark { resource_version, initial_events_end } => {
                    if initial_events_end && let Some(uids) = listed.take() {
                        self.tell(resource, || Seen::Listed(&uids));
                        *first_list = None;
                    }
                    if listed.is_none() {
                        *version = Some(resource_version);
                    }
                    continue;
                }
                WatchEvent::Added(object) => {
                    if let Some(uids) = &mut listed {
                        remember(uids, &object);
                    }
                    self.tell(resource, || Seen::Added(&object));
                    note_version(version, &listed, &object);
                }
                WatchEvent::Modified(object) => {
                    self.tell(resource, || Seen::Modified(&object));
                    note_version(version, &listed, &object);
                }
                WatchEvent::Deleted(object) => {
                    self.tell(resource, || Seen::Deleted(&object));
                    note_version(version, &listed, &object);
                }
            }
            if matches!(resource.gvr.resource.as_str(), "customresourcedefinitions" | "apiservices") && listed.is_none()
            {
                self.definitions_changed.notify_one();
            }
        }
        Ok(())
    }

    fn tell<'a>(&self, resource: &Arc<ApiResource>, seen: impl Fn() -> Seen<'a>) {
        for listener in &self.listeners {
            listener.see(resource, seen());
        }
    }
}

/// Held while a resource has not been listed for the first time.
struct FirstList<'a>(&'a watch::Sender<Listing>);

impl Drop for FirstList<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|listing| listing.unlisted -= 1);
    }
}

/// Only objects with owners are kept by anybody, so only those can be missing later.
fn remember(uids: &mut HashSet<String>, object: &Object) {
    if !object.items(&["metadata", "ownerReferences"]).is_empty() {
        uids.insert(object.uid().to_owned());
    }
}

/// A watch can be resumed once its list is complete, not before.
fn note_version(version: &mut Option<String>, listed: &Option<HashSet<String>>, object: &Object) {
    if listed.is_none() {
        *version = Some(object.resource_version().to_owned());
    }
}

/// One version of each resource that can be listed and watched: the one the API prefers.
fn plan_watches(found: &ApiResources) -> BTreeMap<GroupResource, &ApiResource> {
    let mut planned = BTreeMap::new();
    for resource in &found.resources {
        let is_ignored = IGNORED.contains(&(resource.gvr.group.as_str(), resource.gvr.resource.as_str()));
        if !is_ignored && resource.has_verb("list") && resource.has_verb("watch") {
            planned.entry(resource.gvr.group_resource()).or_insert(resource);
        }
    }
    planned
}
