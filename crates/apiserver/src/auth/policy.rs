//! The current policy: roles and bindings compiled from the caches, updated on demand by each authorization.
//!
//! No task runs in the background. An authorization first makes sure that every write acknowledged before it is in
//! the caches,
//! which costs nothing while policy is quiet, and takes in what changed since the last one. So a binding counts for the
//! very next request after its creation was answered, and taking it in costs the same however many others there are.

use std::sync::Arc;

use access::escalation::RBAC_GROUP;
use access::{AccessDecision, Action, PolicyIndex};
use object::request::User;
use object::{GroupResource, Status};
use parking_lot::RwLock;
use tokio::sync::OnceCell;

use crate::cache::{Cache, ChangeKind, Filter, Watcher};
use crate::resources::Resources;

/// Plural and kind, in the order of the caches.
const SOURCES: [(&str, &str); 4] = [
    ("roles", "Role"),
    ("clusterroles", "ClusterRole"),
    ("rolebindings", "RoleBinding"),
    ("clusterrolebindings", "ClusterRoleBinding"),
];

#[derive(Default)]
pub struct LivePolicy {
    caches: OnceCell<Vec<Arc<Cache>>>,
    compiled: RwLock<Option<Compiled>>,
}

struct Compiled {
    index: PolicyIndex,
    /// One per cache; each knows up to which revision its changes are in the index.
    watchers: Vec<Watcher>,
}

impl LivePolicy {
    pub async fn decide(
        &self,
        resources: Resources<'_>,
        user: &User,
        action: &Action<'_>,
    ) -> Result<AccessDecision, Status> {
        let local = resources.objects.store().local();
        let known = local.map_or(0, store::Local::revision);
        let decision = self.read_at(resources, known, |index| index.authorize(user, action)).await?;
        // A remote store is not read for every authorization. Before a refusal it is, as the right may be new.
        if decision.allowed || local.is_some() {
            return Ok(decision);
        }
        self.read(resources, |index| index.authorize(user, action)).await
    }

    /// Reads the rules with every write in them that was acknowledged before this call, here or by another server.
    pub async fn read<T>(&self, resources: Resources<'_>, read: impl FnOnce(&PolicyIndex) -> T) -> Result<T, Status> {
        let revision = resources.objects.store().revision().await.map_err(crate::storage::status_of_store)?;
        self.read_at(resources, revision, read).await
    }

    async fn read_at<T>(
        &self,
        resources: Resources<'_>,
        revision: u64,
        read: impl FnOnce(&PolicyIndex) -> T,
    ) -> Result<T, Status> {
        let caches = self.caches.get_or_try_init(|| async { find_caches(resources) }).await?;
        if let Some(compiled) = &*self.compiled.read()
            && compiled.has(caches, revision)
        {
            return Ok(read(&compiled.index));
        }
        for cache in caches {
            cache.reach(revision).await?;
        }
        let mut slot = self.compiled.write();
        let followed = slot.as_mut().map(Compiled::follow);
        if !matches!(followed, Some(Ok(()))) {
            *slot = None;
        }
        Ok(read(&slot.get_or_insert_with(|| Compiled::start(caches)).index))
    }
}

fn find_caches(resources: Resources<'_>) -> Result<Vec<Arc<Cache>>, Status> {
    let snapshot = resources.registry.snapshot();
    let find = |plural: &str| {
        let found = snapshot.find_any_version(&GroupResource::new(RBAC_GROUP, plural));
        found.map(|resource| resource.cache.clone())
    };
    let caches: Option<Vec<_>> = SOURCES.iter().map(|(plural, _)| find(plural)).collect();
    caches.ok_or_else(|| Status::internal("the server has no roles and bindings to decide by"))
}

impl Compiled {
    fn start(caches: &[Arc<Cache>]) -> Self {
        let mut compiled = Self { index: PolicyIndex::default(), watchers: Vec::new() };
        for cache in caches {
            let (entries, watcher) = cache.state_and_watch(Filter::default());
            for entry in entries {
                compiled.index.upsert(&entry.decode());
            }
            compiled.watchers.push(watcher);
        }
        compiled
    }

    /// Returns true when everything up to `revision` is in the index.
    fn has(&self, caches: &[Arc<Cache>], revision: u64) -> bool {
        let mut both = caches.iter().zip(&self.watchers);
        both.all(|(cache, watcher)| cache.unchanged_since(watcher.revision(), revision))
    }

    /// Applies the changes; fails when a cache no longer has them.
    fn follow(&mut self) -> Result<(), Status> {
        for (watcher, (_, kind)) in self.watchers.iter_mut().zip(SOURCES) {
            loop {
                let changes = watcher.take()?;
                if changes.is_empty() {
                    break;
                }
                for change in changes {
                    match change.kind {
                        ChangeKind::Deleted => self.index.remove(kind, &change.entry.namespace, &change.entry.name),
                        ChangeKind::Added | ChangeKind::Modified => self.index.upsert(&change.entry.decode()),
                    }
                }
            }
        }
        Ok(())
    }
}
