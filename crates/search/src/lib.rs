//! `search.karmada.io`: serves objects of members from the control plane.
//!
//! Registries select the resources and members to cache. One packed copy of each object serves both `search/cache`
//! and `proxying`; it is read-only, and every replica has its own.

mod cache;
mod filter;
mod opensearch;
mod paths;
mod read;
mod registries;
mod restore;
mod scope;
mod version;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::search::{RESOURCE_REGISTRIES, RegistrySpec};
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::{ApiResource, MemberClients, RestMapper};
use object::request::Verb;
use object::{GroupVersion, Status};
use reconcile::{Change, Mirror, Mirrors, Subscription};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cache::View;
use crate::opensearch::Exports;
use crate::registries::{Candidate, KindName, named_kinds, plan_caches};

pub use crate::filter::{Filter, ReadField};
pub use crate::paths::{Path, parse as parse_path};
pub use crate::read::{ListRequest, Listed};
pub use crate::restore::restore;
pub use crate::scope::{LimitedScope, MemberScope, ReadScope};
pub use crate::watch::{SearchEvent, Watch, WatchRequest};

/// Changes of registries and clusters are batched for this long before caches follow.
const SETTLE: Duration = Duration::from_millis(50);

/// Time a request waits for the first plan while the server starts.
const READY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Interval of looking for kinds the control plane does not serve yet.
const UNKNOWN_KINDS_EVERY: Duration = Duration::from_secs(10);

pub struct SearchDeps {
    /// Of the control plane.
    pub mirrors: Mirrors,
    /// Clients with the control plane's permissions.
    pub members: Arc<dyn MemberClients>,
    /// Addresses of OpenSearch that are not connected to.
    pub addresses: AddressPolicy,
}

/// Serves requests from the caches. Clones share it.
#[derive(Clone)]
pub struct Search {
    mirrors: Mirrors,
    members: Arc<dyn MemberClients>,
    addresses: AddressPolicy,
    mapper: Arc<RestMapper>,
    view: Arc<tokio::sync::watch::Sender<Arc<View>>>,
}

impl Search {
    pub fn new(parts: SearchDeps) -> Self {
        Self {
            mapper: Arc::new(RestMapper::new(parts.mirrors.client().clone())),
            mirrors: parts.mirrors,
            members: parts.members,
            addresses: parts.addresses,
            view: Arc::new(tokio::sync::watch::Sender::new(Arc::default())),
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    fn subscribe(&self) -> tokio::sync::watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    /// Waits until the registries are known. Before that it is unknown whether a request is about members or about
    /// the control plane's own objects of the same name.
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

    /// Maintains the caches until cancelled. Costs almost nothing without registries.
    pub async fn run(self, cancel: CancellationToken) {
        let registries = self.mirrors.of(&RESOURCE_REGISTRIES.gvr());
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

    /// Maintains caches as long as there are registries.
    async fn keep(&self, registries: &Mirror, changes: &mut Subscription, cancel: &CancellationToken) {
        let term = cancel.child_token();
        let _ends_with_this = term.clone().drop_guard();
        let clusters = self.mirrors.of(&CLUSTERS.gvr());
        let mut of_clusters = clusters.subscribe();
        tokio::select! {
            () = clusters.synced() => {}
            () = cancel.cancelled() => return,
        }
        let mut known = Known::default();
        let mut exports = Exports::new(self.mirrors.client().clone(), self.addresses);
        known.read(registries, &clusters, &self.mapper).await;
        loop {
            self.commit(&known, &mut exports, &term);
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

    fn commit(&self, known: &Known, exports: &mut Exports, cancel: &CancellationToken) {
        let mut plan = plan_caches(&known.registries, known.candidates.values(), &known.resources);
        let planned_exports = std::mem::take(&mut plan.exports);
        if plan.left_out > 0 {
            tracing::warn!(left_out = plan.left_out, "registries select more than {} caches", registries::CACHES_MAX);
        }
        let before = self.view();
        let view = before.changed(plan, &*self.members, cancel);
        if view.count() != before.count() {
            tracing::info!(caches = view.count(), "caching resources of members");
        }
        exports.follow(planned_exports, &view, cancel);
        self.view.send_replace(Arc::new(view));
    }
}

enum Changed {
    Registries,
    Cluster(Change),
}

/// The inputs of the plan.
#[derive(Default)]
struct Known {
    registries: Vec<RegistrySpec>,
    kinds: BTreeSet<KindName>,
    resources: BTreeMap<KindName, ApiResource>,
    candidates: BTreeMap<String, Candidate>,
    are_registries_read: bool,
}

impl Known {
    /// Reports whether the control plane serves every selected kind.
    fn is_complete(&self) -> bool {
        self.kinds.iter().all(|kind| self.resources.contains_key(kind))
    }

    async fn read(&mut self, registries: &Mirror, clusters: &Mirror, mapper: &RestMapper) {
        let specs = registries.list().into_iter().filter_map(|registry| {
            let spec = api::read::<RegistrySpec>(&registry);
            spec.inspect_err(|error| tracing::warn!(%error, "invalid registry")).ok()
        });
        self.registries = specs.collect();
        let kinds = named_kinds(&self.registries);
        self.resources = BTreeMap::new();
        for kind in &kinds {
            let Some(version) = GroupVersion::parse(&kind.0) else { continue };
            match mapper.resource_of(&version.kind(&kind.1)).await {
                Ok(resource) if resource.has_verb(Verb::List) && resource.has_verb(Verb::Watch) => {
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

    /// Applies a change of a cluster; returns false if it has no effect here, as most heartbeats.
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
