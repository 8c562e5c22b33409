//! One watch per API resource, shared by all controllers that must see every object. Stores no objects.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ApiResources, ClusterClient, ListOptions, WatchCall, WatchEvent, WatchEvents};
use futures::StreamExt;
use object::request::Verb;
use object::{GroupResource, Object, Status};
use parking_lot::Mutex;
use reconcile::backoff::{MIRROR_BACKOFF, jittered};
use reconcile::mirror::WATCH_TIMEOUT;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Time CRD changes are collected before discovery is queried.
const SETTLE: Duration = Duration::from_millis(200);
/// A CRD is served shortly after its Established condition; discovery is queried again then.
const SETTLE_AGAIN: Duration = Duration::from_secs(2);
/// Maximum wait for the initial lists.
const LISTED_WAIT_MAX: Duration = Duration::from_secs(30);
/// Retry interval for resources that are in discovery but served by an aggregated API; this may change.
const ELSEWHERE_WAIT: Duration = Duration::from_secs(300);
/// Aggregated API servers change their resources without an event.
const REDISCOVER_EVERY: Duration = Duration::from_secs(300);

/// Frequent resources that have no owners and no quota.
const IGNORED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// A notification to a listener.
pub enum ResourceEvent<'a> {
    /// An object new to this watch: just created, or part of the initial list.
    Added(&'a Object),
    Modified(&'a Object),
    Deleted(&'a Object),
    /// The list is complete; objects not reported since the watch started are gone.
    Listed(&'a HashSet<String>),
    /// The resource is no longer served.
    Unserved,
}

/// Called by the watches, sequentially per resource. Must not block.
pub trait Listener: Send + Sync + 'static {
    fn see(&self, resource: &Arc<ApiResource>, event: ResourceEvent<'_>);
}

/// All resources that support list and watch, as they come and go.
pub struct ResourceWatcher {
    client: ClusterClient,
    listeners: Vec<Arc<dyn Listener>>,
    watched: Mutex<BTreeMap<GroupResource, Watched>>,
    definitions_changed: Notify,
    listing: watch::Sender<InitialLists>,
}

/// Progress of the initial lists.
#[derive(Default)]
struct InitialLists {
    is_discovered: bool,
    unlisted: usize,
}

struct Watched {
    resource: Arc<ApiResource>,
    cancel: CancellationToken,
}

impl ResourceWatcher {
    pub fn new(client: ClusterClient, listeners: Vec<Arc<dyn Listener>>) -> Arc<Self> {
        Arc::new(Self {
            client,
            listeners,
            watched: Mutex::default(),
            definitions_changed: Notify::new(),
            listing: watch::Sender::default(),
        })
    }

    /// Returns once every existing object was reported, or after [`LISTED_WAIT_MAX`]: one resource that cannot be
    /// listed must not block all others.
    pub async fn listed(&self) {
        let mut listing = self.listing.subscribe();
        let listed = listing.wait_for(|listing| listing.is_discovered && listing.unlisted == 0);
        if tokio::time::timeout(LISTED_WAIT_MAX, listed).await.is_err() {
            tracing::warn!("some resources cannot be listed; their objects are not tracked as dependents");
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
                    tracing::warn!(%error, "discovery failed; objects of new kinds are not watched");
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

    /// Starts watches of new resources and stops those of removed ones.
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
                    self.notify(&entry.resource, || ResourceEvent::Unserved);
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
            tracing::debug!(resource = resource.gvr.resource, error = %status, ?wait, "watch failed, will retry");
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
            options: ListOptions {
                bookmarks: true,
                timeout: Some(jittered(WATCH_TIMEOUT, 1.0)),
                send_initial_events: version.is_none().then_some(true),
                resource_version: version.clone(),
                ..ListOptions::default()
            },
            ..WatchCall::default()
        };
        let mut events: WatchEvents = self.client.watch(call).await?;
        let mut listed = version.is_none().then(HashSet::new);
        while let Some(event) = events.next().await {
            match event {
                WatchEvent::Error(status) => return Err(status),
                WatchEvent::Bookmark { resource_version, initial_events_end } => {
                    if initial_events_end && let Some(uids) = listed.take() {
                        self.notify(resource, || ResourceEvent::Listed(&uids));
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
                    self.notify(resource, || ResourceEvent::Added(&object));
                    note_version(version, &listed, &object);
                }
                WatchEvent::Modified(object) => {
                    self.notify(resource, || ResourceEvent::Modified(&object));
                    note_version(version, &listed, &object);
                }
                WatchEvent::Deleted(object) => {
                    self.notify(resource, || ResourceEvent::Deleted(&object));
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

    fn notify<'a>(&self, resource: &Arc<ApiResource>, event: impl Fn() -> ResourceEvent<'a>) {
        for listener in &self.listeners {
            listener.see(resource, event());
        }
    }
}

/// Held until a resource has been listed for the first time.
struct FirstList<'a>(&'a watch::Sender<InitialLists>);

impl Drop for FirstList<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|listing| listing.unlisted -= 1);
    }
}

/// Listeners keep only objects with owners, so only those can be missing later.
fn remember(uids: &mut HashSet<String>, object: &Object) {
    if !object.items(&["metadata", "ownerReferences"]).is_empty() {
        uids.insert(object.uid().to_owned());
    }
}

/// A watch can be resumed only after its list is complete.
fn note_version(version: &mut Option<String>, listed: &Option<HashSet<String>>, object: &Object) {
    if listed.is_none() {
        *version = Some(object.resource_version().to_owned());
    }
}

/// Returns the preferred version of each resource that supports list and watch.
fn plan_watches(found: &ApiResources) -> BTreeMap<GroupResource, &ApiResource> {
    let mut planned = BTreeMap::new();
    for resource in &found.resources {
        let is_ignored = IGNORED.contains(&(resource.gvr.group.as_str(), resource.gvr.resource.as_str()));
        if !is_ignored && resource.has_verb(Verb::List) && resource.has_verb(Verb::Watch) {
            planned.entry(resource.gvr.group_resource()).or_insert(resource);
        }
    }
    planned
}
