//! The rules in force: roles and bindings compiled from the caches, brought up to date by the question that needs it.
//!
//! No task runs in the background. A question first makes sure that every write acknowledged before it is in the caches,
//! which costs nothing while policy is quiet, and takes in what changed since the last one. So a binding counts for the
//! very next request after its creation was answered.

use std::sync::Arc;

use access::escalation::RBAC_GROUP;
use access::{Action, PolicyIndex, User, Verdict};
use arc_swap::ArcSwapOption;
use object::{GroupResource, Status};
use tokio::sync::{Mutex, OnceCell};

use crate::cache::{Cache, ChangeKind, Filter, Watcher};
use crate::server::Server;

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
    compiled: ArcSwapOption<Compiled>,
    builder: Mutex<Option<Builder>>,
}

/// The rules at one moment.
pub struct Compiled {
    pub index: PolicyIndex,
    /// Revision of each cache up to which its changes are in the index.
    seen: Vec<u64>,
}

struct Builder {
    index: PolicyIndex,
    watchers: Vec<Watcher>,
}

impl LivePolicy {
    pub async fn decide(&self, server: &Server, user: &User, action: &Action<'_>) -> Result<Verdict, Status> {
        let verdict = self.current(server).await?.index.authorize(user, action);
        // A store on the network is not asked for every question. Before saying no it is, as the right may be new.
        if verdict.allowed || server.objects.store().local().is_some() {
            return Ok(verdict);
        }
        Ok(self.newest(server).await?.index.authorize(user, action))
    }

    /// The rules, with every write this process has seen acknowledged when the store is local.
    pub async fn current(&self, server: &Server) -> Result<Arc<Compiled>, Status> {
        let revision = server.objects.store().local().map_or(0, store::Local::revision);
        self.at(server, revision).await
    }

    /// The rules with every write acknowledged anywhere.
    pub async fn newest(&self, server: &Server) -> Result<Arc<Compiled>, Status> {
        let revision = server.objects.store().revision().await.map_err(crate::storage::status_of_store)?;
        self.at(server, revision).await
    }

    async fn at(&self, server: &Server, revision: u64) -> Result<Arc<Compiled>, Status> {
        let caches = self.caches.get_or_try_init(|| async { find_caches(server) }).await?;
        if let Some(compiled) = self.compiled.load_full()
            && caches.iter().zip(&compiled.seen).all(|(cache, seen)| cache.unchanged_since(*seen, revision))
        {
            return Ok(compiled);
        }
        let mut builder = self.builder.lock().await;
        for cache in caches {
            cache.reach(revision).await?;
        }
        let followed = builder.as_mut().map(Builder::follow);
        if !matches!(followed, Some(Ok(()))) {
            *builder = None;
        }
        let built = builder.get_or_insert_with(|| Builder::start(caches));
        let seen = built.watchers.iter().map(Watcher::revision).collect();
        let compiled = Arc::new(Compiled { index: built.index.clone(), seen });
        self.compiled.store(Some(compiled.clone()));
        Ok(compiled)
    }
}

fn find_caches(server: &Server) -> Result<Vec<Arc<Cache>>, Status> {
    let snapshot = server.registry.snapshot();
    let find = |plural: &str| {
        let found = snapshot.find_any_version(&GroupResource::new(RBAC_GROUP, plural));
        found.map(|resource| resource.cache.clone())
    };
    let caches: Option<Vec<_>> = SOURCES.iter().map(|(plural, _)| find(plural)).collect();
    caches.ok_or_else(|| Status::internal("the server has no roles and bindings to decide by"))
}

impl Builder {
    fn start(caches: &[Arc<Cache>]) -> Self {
        let mut builder = Self { index: PolicyIndex::default(), watchers: Vec::new() };
        for cache in caches {
            let (entries, watcher) = cache.state_and_watch(Filter::default());
            for entry in entries {
                builder.index.upsert(&entry.decode());
            }
            builder.watchers.push(watcher);
        }
        builder
    }

    /// Takes in what changed; fails when a cache no longer knows.
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
