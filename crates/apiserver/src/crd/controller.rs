//! Follows the definitions: settles names, serves what is established, and removes instances of what is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use object::{GroupResource, Object, Status, conditions};

use super::names::{self, CLEANUP_FINALIZER};
use super::resource;
use crate::cache::{Cache, Filter};
use crate::context::Context;
use crate::request::{Deletion, ListSelection};
use crate::scope::WriteScope;
use crate::served_resources::{Resource, ServedResources};
use crate::server::Server;
use crate::storage::{self, Objects, Outcome};
use crate::verbs::{Target, delete};

/// Delay before a failed step is retried.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Serves what is already defined, then follows changes in the background until the server stops.
pub async fn start(server: &Arc<Server>) -> Result<(), Status> {
    let Some(definitions) = server.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return Ok(());
    };
    definitions.cache.ready().await?;
    let mut follower = Follower { server: Arc::downgrade(server), definitions, served: BTreeMap::new() };
    follower.serve(&server.registry);
    tokio::spawn(follower.run(server.stop.clone()));
    Ok(())
}

struct Follower {
    server: std::sync::Weak<Server>,
    definitions: Arc<Resource>,
    /// The kinds of each definition, with the revision it was read at: an unchanged definition keeps its compiled schema.
    served: BTreeMap<String, (u64, Vec<Arc<Resource>>)>,
}

impl Follower {
    async fn run(mut self, stop: tokio_util::sync::CancellationToken) {
        let (_, mut watcher) = self.definitions.cache.state_and_watch(Filter::default());
        loop {
            let settled = match self.server.upgrade() {
                Some(server) => self.step(server.write_scope()).await,
                None => return,
            };
            let wait = async {
                match settled {
                    Ok(()) => watcher.next().await.map(|_| ()),
                    Err(status) => {
                        tracing::warn!(%status, "custom resource definitions are behind; trying again");
                        tokio::time::sleep(RETRY_DELAY).await;
                        Ok(())
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                ended = wait => if ended.is_err() {
                    // The cache was reset: start over.
                    watcher = self.definitions.cache.state_and_watch(Filter::default()).1;
                }
            }
        }
    }

    /// One pass over all definitions: names first, then what is served, then what must go.
    async fn step(&mut self, scope: WriteScope<'_>) -> Result<(), Status> {
        let definitions = current(&self.definitions.cache);
        for definition in &definitions {
            let group = definition.str_at(&["spec", "group"]);
            let peers: Vec<Object> =
                definitions.iter().filter(|d| d.str_at(&["spec", "group"]) == group).map(|d| (**d).clone()).collect();
            if let Some(settled) = names::settle(definition, &peers, jiff::Timestamp::now()) {
                self.write(scope.objects, definition, &settled).await?;
            }
        }
        self.definitions.cache.fresh().await?;
        self.serve(scope.registry);
        for definition in current(&self.definitions.cache).iter().filter(|d| d.is_deleting()) {
            self.remove_instances(scope, definition).await?;
        }
        Ok(())
    }

    fn serve(&mut self, registry: &ServedResources) {
        let established: Vec<Arc<Object>> =
            current(&self.definitions.cache).into_iter().filter(|d| conditions::is_true(d, "Established")).collect();
        let mut served = BTreeMap::new();
        for definition in &established {
            let revision = definition.resource_version().parse().unwrap_or(0);
            let kept = self.served.remove(definition.name()).filter(|(at, _)| *at == revision);
            let resources = kept.map(|(_, resources)| resources).unwrap_or_else(|| {
                let kinds = resource::kinds_of(definition).into_iter();
                kinds.map(|(kind, custom)| Arc::new(registry.resource(kind, Some(Arc::new(custom))))).collect()
            });
            served.insert(definition.name().to_owned(), (revision, resources));
        }
        self.served = served;
        registry.set_custom(self.served.values().flat_map(|(_, resources)| resources.clone()).collect());
    }

    async fn write(&self, objects: &Objects, old: &Object, new: &Object) -> Result<(), Status> {
        let key = self.definitions.key("", old.name());
        let revision = old.resource_version().parse().unwrap_or(0);
        match objects.update(&key, storage::encode(new), revision, None).await? {
            // Another writer changed it: that change arrives as an event.
            Outcome::Written(_) | Outcome::Raced(_) => Ok(()),
        }
    }

    /// Deletes every instance; the definition goes when none is left.
    async fn remove_instances(&self, scope: WriteScope<'_>, definition: &Object) -> Result<(), Status> {
        if !definition.has_finalizer(CLEANUP_FINALIZER) {
            return Ok(());
        }
        let plural = definition.str_at(&["status", "acceptedNames", "plural"]);
        let group_resource = GroupResource::new(definition.str_at(&["spec", "group"]), plural);
        // A definition of what the server serves anyway owns none of the objects, and takes none along.
        let fixed = scope.registry.is_fixed(&group_resource);
        let resource = scope.registry.snapshot().find_any_version(&group_resource).cloned();
        if let Some(resource) = resource.filter(|_| !fixed) {
            let everything =
                Target { resource: resource.clone(), namespace: String::new(), name: String::new(), subresource: None };
            let ctx =
                Context::new(Arc::new(object::request::User::new("system:apiserver", &["system:masters"])), "flotilla");
            let options = Deletion::default();
            delete::delete_collection(scope, &ctx, &everything, &ListSelection::default(), &options).await?;
            resource.cache.fresh().await?;
            if !resource.cache.is_empty() {
                return Err(Status::unavailable(format!("instances of {group_resource} still have finalizers")));
            }
        }
        let mut done = definition.clone();
        done.remove_finalizer(CLEANUP_FINALIZER);
        let key = self.definitions.key("", definition.name());
        let revision = definition.resource_version().parse().unwrap_or(0);
        let last = done.finalizers().next().is_none();
        if last {
            scope.objects.delete(&key, revision).await?;
        } else {
            scope.objects.update(&key, storage::encode(&done), revision, None).await?;
        }
        if !fixed {
            scope.registry.drop_cache(&group_resource);
        }
        Ok(())
    }
}

fn current(cache: &Arc<Cache>) -> Vec<Arc<Object>> {
    cache.entries(&Filter::default()).iter().map(|entry| entry.decode()).collect()
}
