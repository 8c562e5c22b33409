//! What members have, answered by the control plane: `search.karmada.io`.
//!
//! Registries say which resources of which members are kept at hand. One copy of each, packed, answers `search/cache` and
//! `proxying` alike; it is read only, and every replica has its own.

mod cache;
mod filter;
mod paths;
mod read;
mod registries;
mod restore;
mod version;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::search::{RESOURCE_REGISTRIES, RegistrySpec};
use cluster_client::{ApiResource, ClusterClient, RestMapper};
use object::{GroupVersion, Status};
use reconcile::{Change, Mirror, MirrorSpec, Subscription};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cache::View;
use crate::registries::{Candidate, KindName, named_kinds, plan_caches};

pub use crate::cache::Members;
pub use crate::filter::{Filter, ReadField};
pub use crate::paths::{Path, parse as parse_path};
pub use crate::read::{ListRequest, Listed};
pub use crate::restore::restore;
pub use crate::watch::{Event, Watch, WatchRequest};

/// Changes of registries and clusters are gathered for so long before caches follow.
const SETTLE: Duration = Duration::from_millis(50);

/// How long a request waits for that while the server starts.
const READY_WAIT_MAX: Duration = Duration::from_secs(5);

/// How often kinds the control plane does not serve yet are looked for again.
const UNKNOWN_KINDS_EVERY: Duration = Duration::from_secs(10);

pub struct Parts {
    /// The control plane.
    pub client: ClusterClient,
    pub members: Arc<dyn Members>,
}

/// Answers out of what is kept. Clones share it.
#[derive(Clone)]
pub struct Search {
    client: ClusterClient,
    members: Arc<dyn Members>,
    mapper: Arc<RestMapper>,
    view: Arc<tokio::sync::watch::Sender<Arc<View>>>,
}

impl Search {
    pub fn new(parts: Parts) -> Self {
        Self {
            mapper: Arc::new(RestMapper::new(parts.client.clone())),
            client: parts.client,
            members: parts.members,
            view: Arc::new(tokio::sync::watch::Sender::new(Arc::default())),
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    fn subscribe(&self) -> tokio::sync::watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    /// Waits until it is known what registries ask for. Before that nobody can tell whether a request is about members or
    /// about the control plane's own objects of the same name.
    pub async fn ready(&self) -> Result<(), Status> {
        let mut view = self.subscribe();
        let known = tokio::time::timeout(READY_WAIT_MAX, view.wait_for(|view| view.is_known)).await;
        match known {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                Err(Status::unavailable("the control plane is starting: its registries are not known yet"))
            }
        }
    }

    /// Keeps what registries ask for until cancelled. Costs next to nothing while there is no registry.
    pub async fn run(self, cancel: CancellationToken) {
        let registries =
            Mirror::start(self.client.clone(), MirrorSpec::new(&RESOURCE_REGISTRIES.gvr()), cancel.clone());
        tokio::select! {
            () = registries.synced() => {}
            () = cancel.cancelled() => return,
        }
        let mut changes = registries.subscribe();
        if registries.is_empty() {
            self.view.send_replace(Arc::new(View::empty()));
        }
        while changes.next().await.is_some() {
            if !registries.is_empty() {
                self.keep(&registries, &mut changes, &cancel).await;
            }
        }
    }

    /// Keeps caches for as long as there are registries.
    async fn keep(&self, registries: &Mirror, changes: &mut Subscription, cancel: &CancellationToken) {
        let term = cancel.child_token();
        let _ends_with_this = term.clone().drop_guard();
        let clusters = Mirror::start(self.client.clone(), MirrorSpec::new(&CLUSTERS.gvr()).packed(), term.clone());
        let mut of_clusters = clusters.subscribe();
        tokio::select! {
            () = clusters.synced() => {}
            () = cancel.cancelled() => return,
        }
        let mut known = Known::default();
        known.read(registries, &clusters, &self.mapper).await;
        loop {
            self.commit(&known, &term);
            if registries.is_empty() {
                return;
            }
            let mut is_same = true;
            let mut until = (!known.is_complete()).then(|| Instant::now() + UNKNOWN_KINDS_EVERY);
            loop {
                let changed = tokio::select! {
                    change = changes.next() => match change {
                        Some(_) => Changed::Registries,
                        None => return,
                    },
                    change = of_clusters.next() => match change {
                        Some(change) => Changed::Cluster(change),
                        None => return,
                    },
                    () = reconcile::until(until) => break,
                };
                match changed {
                    Changed::Registries => known.are_registries_read = false,
                    Changed::Cluster(change) if !known.note(&change) => continue,
                    Changed::Cluster(_) => {}
                }
                if is_same {
                    is_same = false;
                    until = Some(Instant::now() + SETTLE);
                }
            }
            if !known.are_registries_read || !known.is_complete() {
                known.read(registries, &clusters, &self.mapper).await;
            }
        }
    }

    fn commit(&self, known: &Known, cancel: &CancellationToken) {
        let plan = plan_caches(&known.registries, known.candidates.values(), &known.resources);
        if plan.left_out > 0 {
            tracing::warn!(left_out = plan.left_out, "registries ask for more than {} caches", registries::CACHES_MAX);
        }
        let before = self.view();
        let view = before.changed(plan, &*self.members, cancel);
        if view.count() != before.count() {
            tracing::info!(caches = view.count(), "resources of members are kept at hand");
        }
        self.view.send_replace(Arc::new(view));
    }
}

enum Changed {
    Registries,
    Cluster(Change),
}

/// What the plan is made from.
#[derive(Default)]
struct Known {
    registries: Vec<RegistrySpec>,
    kinds: BTreeSet<KindName>,
    resources: BTreeMap<KindName, ApiResource>,
    candidates: BTreeMap<String, Candidate>,
    are_registries_read: bool,
}

impl Known {
    /// Does the control plane serve every kind that is named?
    fn is_complete(&self) -> bool {
        self.kinds.iter().all(|kind| self.resources.contains_key(kind))
    }

    async fn read(&mut self, registries: &Mirror, clusters: &Mirror, mapper: &RestMapper) {
        let specs = registries.list().into_iter().filter_map(|registry| {
            let spec = api::read::<RegistrySpec>(&registry);
            spec.inspect_err(|error| tracing::warn!(%error, "a registry cannot be read")).ok()
        });
        self.registries = specs.collect();
        let kinds = named_kinds(&self.registries);
        self.resources = BTreeMap::new();
        for kind in &kinds {
            let Some(version) = GroupVersion::parse(&kind.0) else { continue };
            match mapper.resource_of(&version.kind(&kind.1)).await {
                Ok(resource) if resource.has_verb("list") && resource.has_verb("watch") => {
                    self.resources.insert(kind.clone(), resource);
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "a registry names a kind that is not served"),
            }
        }
        if kinds != self.kinds {
            self.kinds = kinds;
            self.candidates.clear();
            let all: Vec<Candidate> =
                clusters.list().iter().filter_map(|cluster| Candidate::of(cluster, &self.kinds).ok()).collect();
            self.candidates.extend(all.into_iter().map(|candidate| (candidate.name().to_owned(), candidate)));
        }
        self.are_registries_read = true;
    }

    /// Takes in a change of a cluster; false when it changes nothing here, as most heartbeats do.
    fn note(&mut self, change: &Change) -> bool {
        let now = change.now.as_ref().and_then(|cluster| Candidate::of(cluster, &self.kinds).ok());
        match now {
            Some(now) if self.candidates.get(&change.key.name) == Some(&now) => false,
            Some(now) => {
                self.candidates.insert(change.key.name.clone(), now);
                true
            }
            None => self.candidates.remove(&change.key.name).is_some(),
        }
    }
}

#[cfg(test)]
mod tests;
