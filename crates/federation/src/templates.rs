//! Every object that may be propagated: one mirror per resource, as resources come and go.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ApiResources, ClusterClient, DiscoveryTags, ResourceRef, RestMapper};
use object::request::Verb;
use object::{GroupVersion, GroupVersionKind, Object, Status};
use parking_lot::RwLock;
use propagation::skipped_apis::SkippedApis;
use reconcile::backoff::MIRROR_BACKOFF;
use reconcile::mirror::ObjectKey;
use reconcile::{Index, Mirror, MirrorSpec};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::plane::policy_ids;

/// Time that changes of definitions are collected before discovery runs.
const SETTLE: Duration = Duration::from_millis(200);
/// A definition is served a moment after it says so; ask once more then.
const SETTLE_AGAIN: Duration = Duration::from_secs(2);
/// Aggregated API servers change their resources without notice.
const REDISCOVER_EVERY: Duration = Duration::from_secs(30);
/// Maximum time to wait for the first lists before the controllers start.
const LISTED_WAIT_MAX: Duration = Duration::from_secs(30);
/// Resources whose changes change what is served.
const DEFINITIONS: &[(&str, &str)] =
    &[("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")];

/// Names one template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Template {
    pub api_version: String,
    pub kind: String,
    /// Empty for cluster-wide objects.
    pub namespace: String,
    pub name: String,
}

impl Template {
    pub fn of(object: &Object) -> Self {
        Self::new(object.api_version(), object.kind(), object.namespace(), object.name())
    }

    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        Self { api_version, kind, namespace, name }
    }

    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersion::parse(&self.api_version).unwrap_or_default().kind(&self.kind)
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}

impl From<&api::work::ObjectReference> for Template {
    fn from(reference: &api::work::ObjectReference) -> Self {
        Self::new(&reference.api_version, &reference.kind, &reference.namespace, &reference.name)
    }
}

/// A resource that is mirrored now.
#[derive(Clone)]
pub struct Watched {
    pub resource: Arc<ApiResource>,
    pub mirror: Mirror,
    /// By the permanent ids of the policies that claim them.
    pub by_claim: Index<String>,
    /// Ends when the resource is no longer served.
    pub cancel: CancellationToken,
    /// Mirrored on request, not because its objects may be propagated.
    pub is_skipped: bool,
}

/// Mirrors of everything that may be propagated, and of what else was asked for.
pub struct Templates {
    client: ClusterClient,
    mapper: RestMapper,
    skipped: SkippedApis,
    cancel: CancellationToken,
    state: RwLock<State>,
    definitions_changed: Notify,
    /// Discovery has answered at least once.
    is_discovered: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    watched: HashMap<GroupVersionKind, Watched>,
    /// Kinds that are mirrored though their objects are not propagated by themselves.
    asked_for: HashSet<GroupVersionKind>,
    listeners: Vec<mpsc::UnboundedSender<Watched>>,
}

impl Templates {
    pub fn new(client: ClusterClient, skipped: SkippedApis, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            mapper: RestMapper::new(client.clone()),
            client,
            skipped,
            cancel,
            state: RwLock::default(),
            definitions_changed: Notify::new(),
            is_discovered: watch::Sender::new(false),
        })
    }

    /// The template, from its mirror or else from the API: what a mirror lacks may be too new for it.
    pub async fn find(&self, template: &Template) -> Result<Option<Arc<Object>>, Status> {
        if let Some(object) = self.mirror(&template.gvk()).and_then(|mirror| mirror.get(&template.key())) {
            return Ok(Some(object));
        }
        self.find_live(template).await
    }

    /// The template as the API has it now; `None` too when its kind is not served.
    pub async fn find_live(&self, template: &Template) -> Result<Option<Arc<Object>>, Status> {
        match self.target(template).await {
            Ok(target) => self.client.find(target).await,
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Returns where a template is read and written. Not found when its kind is not served, or has another scope than the
    /// reference: `Namespace tenant/victim` is not the cluster-scoped Namespace `victim`.
    pub async fn target(&self, template: &Template) -> Result<ResourceRef, Status> {
        let resource = self.resource_of(&template.gvk()).await?;
        match (resource.namespaced, template.namespace.as_str()) {
            (true, "") => Err(Status::not_found(&resource.gvr.group_resource(), &template.name)),
            (true, namespace) => Ok(ResourceRef::namespaced(&resource.gvr, namespace, &template.name)),
            (false, "") => Ok(ResourceRef::cluster(&resource.gvr, &template.name)),
            (false, _) => {
                let name = format!("{}/{}", template.namespace, template.name);
                Err(Status::not_found(&resource.gvr.group_resource(), &name))
            }
        }
    }

    pub async fn resource_of(&self, gvk: &GroupVersionKind) -> Result<Arc<ApiResource>, Status> {
        if let Some(watched) = self.watched(gvk) {
            return Ok(watched.resource);
        }
        self.mapper.resource_of(gvk).await.map(Arc::new)
    }

    /// The mirror of a kind, once it is complete.
    pub fn mirror(&self, gvk: &GroupVersionKind) -> Option<Mirror> {
        self.watched(gvk).map(|watched| watched.mirror).filter(Mirror::is_synced)
    }

    /// The objects of a kind that a policy claims, once its mirror is complete.
    pub fn claimed_by(&self, gvk: &GroupVersionKind, policy_id: &str) -> Option<Vec<Arc<Object>>> {
        let watched = self.watched(gvk).filter(|watched| watched.mirror.is_synced())?;
        Some(watched.by_claim.list(policy_id))
    }

    /// Notes the answer of a write of a template.
    pub fn note(&self, written: &Arc<Object>) {
        if let Some(watched) = self.watched(&written.gvk()) {
            watched.mirror.note(written);
        }
    }

    fn watched(&self, gvk: &GroupVersionKind) -> Option<Watched> {
        self.state.read().watched.get(gvk).cloned()
    }

    /// Mirrors the kind from now on, even where its objects are not propagated by themselves.
    pub async fn follow(&self, gvk: &GroupVersionKind) -> Result<Watched, Status> {
        if let Some(watched) = self.watched(gvk) {
            return Ok(watched);
        }
        let resource = self.mapper.resource_of(gvk).await?;
        let mut state = self.state.write();
        if let Some(watched) = state.watched.get(gvk) {
            return Ok(watched.clone());
        }
        state.asked_for.insert(gvk.clone());
        Ok(self.start_one(&mut state, &resource, true))
    }

    /// Sends every resource that is mirrored now, and each new one. One message per resource there is, so the
    /// channel is as bounded as the API.
    pub fn listen(&self) -> mpsc::UnboundedReceiver<Watched> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state.write();
        for watched in state.watched.values() {
            // The receiver is held right here.
            let _ = sender.send(watched.clone());
        }
        state.listeners.push(sender);
        receiver
    }

    /// Returns once everything there is has been listed, or when that takes too long: one resource that cannot be
    /// listed must not stop the work on all others.
    pub async fn listed(&self) {
        let all = async {
            let mut discovered = self.is_discovered.subscribe();
            // The sender lives as long as this.
            let _ = discovered.wait_for(|is_discovered| *is_discovered).await;
            let mirrors: Vec<Mirror> = self.state.read().watched.values().map(|w| w.mirror.clone()).collect();
            for mirror in mirrors {
                mirror.synced().await;
            }
        };
        if tokio::time::timeout(LISTED_WAIT_MAX, all).await.is_err() {
            tracing::warn!("some resources cannot be listed; their objects are propagated once they can");
        }
    }

    /// Follows what the API serves until cancelled.
    pub async fn run(self: Arc<Self>) {
        let mut failures = 0;
        let mut is_settling = false;
        let mut tags = DiscoveryTags::default();
        while !self.cancel.is_cancelled() {
            let wait = match ApiResources::discover_changed(&self.client, &mut tags).await {
                Ok(found) => {
                    failures = 0;
                    if let Some(found) = found {
                        self.keep_up(&found);
                    }
                    if std::mem::take(&mut is_settling) { SETTLE_AGAIN } else { REDISCOVER_EVERY }
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "discovery failed; objects of new kinds are not propagated yet");
                    MIRROR_BACKOFF.jittered(failures)
                }
            };
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.definitions_changed.notified() => {
                    tokio::time::sleep(SETTLE).await;
                    is_settling = true;
                }
            }
        }
        self.state.write().listeners.clear();
    }

    /// Starts mirrors of what is new and ends those of what is gone.
    fn keep_up(self: &Arc<Self>, found: &ApiResources) {
        let mut state = self.state.write();
        let wanted = self.plan_mirrors(found, &state.asked_for);
        let unknown = |gvk: &GroupVersionKind| found.incomplete.iter().any(|gv| gv.group == gvk.group);
        state.watched.retain(|gvk, watched| {
            let is_kept = match wanted.get(gvk) {
                Some((resource, _)) => resource.gvr == watched.resource.gvr,
                None => unknown(gvk),
            };
            if !is_kept {
                watched.cancel.cancel();
            }
            is_kept
        });
        for (gvk, (resource, is_skipped)) in wanted {
            if state.watched.contains_key(&gvk) {
                continue;
            }
            let watched = self.start_one(&mut state, resource, is_skipped);
            if DEFINITIONS.contains(&(resource.gvr.group.as_str(), resource.gvr.resource.as_str())) {
                tokio::spawn(Arc::clone(self).watch_definitions(watched.mirror));
            }
        }
        self.is_discovered.send_replace(true);
    }

    fn start_one(&self, state: &mut State, resource: &ApiResource, is_skipped: bool) -> Watched {
        let cancel = self.cancel.child_token();
        let spec = MirrorSpec::new(&resource.gvr).packed();
        let mirror = Mirror::start(self.client.clone(), spec, cancel.clone());
        let by_claim = mirror.index(policy_ids);
        let watched = Watched { resource: Arc::new(resource.clone()), mirror, by_claim, cancel, is_skipped };
        state.watched.insert(resource.gvk(), watched.clone());
        state.listeners.retain(|listener| listener.send(watched.clone()).is_ok());
        watched
    }

    async fn watch_definitions(self: Arc<Self>, mirror: Mirror) {
        let mut changes = mirror.subscribe();
        while let Some(change) = changes.next().await {
            if !change.is_initial {
                self.definitions_changed.notify_one();
            }
        }
    }

    /// One version of each resource whose objects can be listed, watched and deleted, the one the API prefers; and
    /// what was asked for. True marks what is only there because it was asked for.
    fn plan_mirrors<'a>(
        &self,
        found: &'a ApiResources,
        asked_for: &HashSet<GroupVersionKind>,
    ) -> HashMap<GroupVersionKind, (&'a ApiResource, bool)> {
        let mut planned = HashMap::new();
        let mut preferred = HashSet::new();
        for resource in &found.resources {
            if ![Verb::Delete, Verb::List, Verb::Watch].iter().all(|verb| resource.has_verb(*verb)) {
                continue;
            }
            let is_preferred = preferred.insert(resource.gvr.group_resource());
            let is_propagated = is_preferred && !self.skipped.contains(&resource.gvk());
            if is_propagated || asked_for.contains(&resource.gvk()) {
                planned.insert(resource.gvk(), (resource, !is_propagated));
            }
        }
        planned
    }
}
