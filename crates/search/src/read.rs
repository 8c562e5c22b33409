//! Gets and lists over the caches of all members.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster_client::{ApiResource, ResourceRef};
use object::status::StatusDetails;
use object::{GroupResource, GroupVersionResource, Object, Status};
use reconcile::{Kept, ObjectKey};

use crate::Search;
use crate::cache::{Cache, View, stamp};
use crate::filter::Filter;
use crate::scope::{ReadScope, readable};
use crate::version::{ContinueToken, Versions};

/// Objects visited per turn.
const CHUNK: usize = 512;

/// Time for the member itself to return an object; after that the copy is returned.
const LIVE_GET_MAX: Duration = Duration::from_secs(3);

/// Time a list waits for caches to reach the requested version, as in kube-apiserver.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(3);
const VERSION_LOOK_EVERY: Duration = Duration::from_millis(20);

/// The parameters of a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    pub filter: Filter,
    pub scope: ReadScope,
    /// Objects per page; all if 0.
    pub limit: usize,
    /// Empty for the first page.
    pub continue_token: String,
    /// Empty, `0`, or a version from an earlier response.
    pub version: String,
    /// Exactly that version, and no later one.
    pub is_exact: bool,
}

#[derive(Debug, Default)]
pub struct Listed {
    /// Encoded objects sorted by member, namespace and name.
    pub items: Vec<Bytes>,
    pub version: String,
    /// Empty if there are no more.
    pub continue_token: String,
    /// False if no member caches the resource: not even the kind of the list is known.
    pub is_cached: bool,
    /// Members that are missing, with the reasons.
    pub unread: Vec<String>,
}

impl Search {
    /// The resource, if any registry selects it.
    pub fn registered(&self, gvr: &GroupVersionResource) -> Option<ApiResource> {
        self.view().resource(gvr).cloned()
    }

    /// One object of one member. Without a version, a client gets the member's current state.
    pub async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
        version: Option<&str>,
        scope: &ReadScope,
    ) -> Result<Arc<Object>, Status> {
        let (cache, kept) = self.locate(gvr, key, scope).await?;
        let mut object = None;
        if version.is_none() {
            object = live(&cache, key).await?;
        }
        let mut object = object.unwrap_or_else(|| (*kept.object()).clone());
        let composed = Versions::one(&cache.cluster, object.resource_version()).to_string();
        object.set(&["metadata", "resourceVersion"], composed);
        Ok(Arc::new(object))
    }

    /// The member that has the object. Fails while some member is not synced: a write must not go to the wrong one of
    /// two.
    pub async fn owner(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
        scope: &ReadScope,
    ) -> Result<String, Status> {
        let view = self.view();
        let unread = settle(&view, gvr, scope).await;
        if !unread.is_empty() {
            return Err(not_read(&unread));
        }
        let (cache, _) = the_one(&view, gvr, key, scope)?;
        Ok(cache.cluster.clone())
    }

    async fn locate(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
        scope: &ReadScope,
    ) -> Result<(Arc<Cache>, Kept), Status> {
        let view = self.view();
        let unread = settle(&view, gvr, scope).await;
        match the_one(&view, gvr, key, scope) {
            Err(status) if status.is_not_found() && !unread.is_empty() => Err(not_read(&unread)),
            found => found,
        }
    }

    /// A page of members' objects. Never waits long for a member: missing ones are named in the response.
    pub async fn list(&self, gvr: &GroupVersionResource, request: &ListRequest) -> Result<Listed, Status> {
        let view = self.view();
        let unread = settle(&view, gvr, &request.scope).await;
        let caches: Vec<&Arc<Cache>> = readable(&view, gvr, &request.scope).collect();
        let read: Vec<&Arc<Cache>> = caches.iter().copied().filter(|cache| cache.mirror.is_synced()).collect();
        let place = match request.continue_token.as_str() {
            "" => None,
            token => Some(ContinueToken::parse(token)?),
        };
        let mut versions = match &place {
            Some(place) => place.versions.clone(),
            None => {
                let asked = Versions::parse(&request.version);
                reach(&read, &asked, request.is_exact).await?;
                present(&read, &request.version)
            }
        };
        let mut listed = Listed { is_cached: view.of(gvr).next().is_some(), unread, ..Listed::default() };
        let mut walk = read.as_slice();
        let mut after = None;
        if let Some(place) = place {
            walk = from_cluster(walk, &place.cluster)?;
            after = place.after;
        }
        while let [cache, rest @ ..] = walk {
            if !versions.knows(&cache.cluster) {
                versions.set(&cache.cluster, &cache.mirror.version());
            }
            let end = fill(cache, request, after.take(), &mut listed.items).await;
            let next = match (end, rest) {
                (Some(key), _) => Some((cache.cluster.clone(), Some(key))),
                (None, [next, ..]) if request.limit > 0 && listed.items.len() >= request.limit => {
                    Some((next.cluster.clone(), None))
                }
                (None, _) => None,
            };
            if let Some((cluster, after)) = next {
                listed.continue_token = ContinueToken { versions: versions.clone(), cluster, after }.to_string();
                break;
            }
            walk = rest;
        }
        listed.version = versions.to_string();
        Ok(listed)
    }

    /// The response to `search/cache`: all matching objects of every synced member that the caller may read.
    pub async fn find(
        &self,
        gvr: &GroupVersionResource,
        name: &str,
        filter: Filter,
        scope: ReadScope,
    ) -> (Vec<Bytes>, Vec<String>) {
        let view = self.view();
        let unread = settle(&view, gvr, &scope).await;
        let request = ListRequest {
            filter,
            scope,
            limit: 0,
            continue_token: String::new(),
            version: String::new(),
            is_exact: false,
        };
        let mut items = Vec::new();
        for cache in readable(&view, gvr, &request.scope) {
            if name.is_empty() {
                fill(cache, &request, None, &mut items).await;
            } else {
                let key = ObjectKey::new(&request.filter.namespace, name);
                let found = cache.mirror.kept(&key).filter(|_| request.scope.shows(&cache.cluster, &key));
                items.extend(found.map(|kept| kept.encoded()));
            }
        }
        (items, unread)
    }
}

/// Waits for new caches, all at once, and returns the reasons for which members are missing.
pub async fn settle(view: &View, gvr: &GroupVersionResource, scope: &ReadScope) -> Vec<String> {
    futures::future::join_all(readable(view, gvr, scope).map(|cache| cache.settled())).await;
    let unread = readable(view, gvr, scope).filter(|cache| !cache.mirror.is_synced());
    unread.map(|cache| cache.problem()).chain(scope.problems()).collect()
}

fn not_read(unread: &[String]) -> Status {
    let text = format!("not all members are known: {}", unread.join("; "));
    Status::unavailable(text).with_details(StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() })
}

fn the_one(
    view: &View,
    gvr: &GroupVersionResource,
    key: &ObjectKey,
    scope: &ReadScope,
) -> Result<(Arc<Cache>, Kept), Status> {
    let shown = readable(view, gvr, scope).filter(|cache| scope.shows(&cache.cluster, key));
    let found = shown.filter_map(|cache| Some((Arc::clone(cache), cache.mirror.kept(key)?)));
    let mut found: Vec<(Arc<Cache>, Kept)> = found.collect();
    let resource: GroupResource = gvr.group_resource();
    if found.len() > 1 {
        let clusters: Vec<&str> = found.iter().map(|(cache, _)| cache.cluster.as_str()).collect();
        let detail = format!("ambiguous objects in clusters [{}]", clusters.join(", "));
        return Err(Status::conflict(&resource, &key.name, detail));
    }
    found.pop().ok_or_else(|| Status::not_found(&resource, &key.name))
}

/// The current object from the member; `None` if the member does not respond.
async fn live(cache: &Cache, key: &ObjectKey) -> Result<Option<Object>, Status> {
    let target: ResourceRef = cache.mirror.target(key);
    match tokio::time::timeout(LIVE_GET_MAX, cache.client.get(target)).await {
        Ok(Ok(object)) => {
            let mut object = Arc::unwrap_or_clone(object);
            stamp(&mut object, &cache.cluster);
            Ok(Some(object))
        }
        Ok(Err(status)) if status.is_not_found() => Err(status),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// The versions of the caches before reading any. If any version was requested and there is no cache, the requested
/// one.
fn present(caches: &[&Arc<Cache>], asked: &str) -> Versions {
    let mut versions = if caches.is_empty() { Versions::parse(asked) } else { Versions::default() };
    for cache in caches {
        versions.set(&cache.cluster, &cache.mirror.version());
    }
    versions
}

/// Waits until no cache is older than the version the client has seen, possibly on another replica.
async fn reach(caches: &[&Arc<Cache>], asked: &Versions, is_exact: bool) -> Result<(), Status> {
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let deadline = tokio::time::Instant::now() + VERSION_WAIT_MAX;
    for cache in caches {
        let wanted = number(asked.get(&cache.cluster));
        while number(&cache.mirror.version()) < wanted {
            if tokio::time::Instant::now() >= deadline {
                return Err(Status::version_too_large(wanted, number(&cache.mirror.version())));
            }
            tokio::time::sleep(VERSION_LOOK_EVERY).await;
        }
        let current = number(&cache.mirror.version());
        if is_exact && current != wanted {
            let text = format!("The provided resource version is no longer kept: {wanted} ({current})");
            return Err(Status::gone(text));
        }
    }
    Ok(())
}

/// Clusters from this one on. If it is gone, its part of the list is incomplete: the client starts again.
fn from_cluster<'a, 'c>(caches: &'a [&'c Arc<Cache>], cluster: &str) -> Result<&'a [&'c Arc<Cache>], Status> {
    let at = caches.iter().position(|cache| cache.cluster == cluster);
    let at = at.ok_or_else(|| {
        Status::gone(format!("the list cannot be continued: cluster {cluster} is not cached any more, begin again"))
    })?;
    Ok(&caches[at..])
}

/// Adds matching objects up to the limit, which must not be reached yet; returns the last object added if there are
/// more.
async fn fill(
    cache: &Cache,
    request: &ListRequest,
    mut after: Option<ObjectKey>,
    items: &mut Vec<Bytes>,
) -> Option<ObjectKey> {
    let ListRequest { filter, scope, limit, .. } = request;
    let mut last = None;
    loop {
        let chunk = cache.mirror.chunk(&filter.namespace, after.as_ref(), CHUNK);
        let (end, _) = chunk.last()?;
        let end = end.clone();
        for (key, kept) in chunk {
            if !scope.shows(&cache.cluster, &key) || !filter.matches(&key, &kept) {
                continue;
            }
            if *limit > 0 && items.len() >= *limit {
                return last;
            }
            items.push(kept.encoded());
            last = Some(key);
        }
        after = Some(end);
        // Yields to other tasks.
        tokio::task::yield_now().await;
    }
}
