//! Watches over the caches of all members: one stream out of many, each from its own version on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll, StreamExt};
use object::{GroupVersionResource, Object, Status};
use reconcile::{Follower, Kept, ObjectKey, Step, TooOld};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Search;
use crate::cache::{Cache, View};
use crate::filter::Filter;
use crate::read::settle;
use crate::version::Versions;

/// Bookmarks come this often to those who asked for them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Watches without a time of their own end after this; their clients open them again.
const DURATION: Duration = Duration::from_secs(2700);

/// Objects of the present state told at once.
const CHUNK: usize = 256;

/// What a watch asks for.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    pub filter: Filter,
    /// Empty, `0`, or as an earlier answer said.
    pub version: String,
    pub bookmarks: bool,
    /// A streaming list: what there is comes first, and a bookmark tells its end.
    pub initial_events: Option<bool>,
    pub duration: Option<Duration>,
}

#[derive(Debug)]
pub enum Event {
    Added(Arc<Object>),
    Modified(Arc<Object>),
    Deleted(Arc<Object>),
    Bookmark {
        version: String,
        initial_events_end: bool,
    },
    /// Always the last.
    Error(Status),
}

/// A watch under way. Ask for the next events until there are none.
pub struct Watch {
    gvr: GroupVersionResource,
    filter: Filter,
    /// What the client has been told up to.
    versions: Versions,
    sources: SelectAll<BoxStream<'static, (Arc<Cache>, Told)>>,
    /// The members that are watched.
    clusters: BTreeSet<String>,
    /// Members whose present state a streaming list still owes.
    owed: BTreeSet<String>,
    owes_initial_end: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    view: watch::Receiver<Arc<View>>,
    is_over: bool,
}

/// What one cache says.
enum Told {
    /// Some of what there is.
    State(Vec<(ObjectKey, Kept)>),
    /// That was all there is at this version.
    StateEnd(String),
    Steps(Vec<Step>, Option<String>),
    TooOld(TooOld),
    /// The member is no longer watched.
    Closed,
}

/// Where a source begins.
enum Start {
    State,
    Now,
    After(u64),
}

impl Search {
    /// Opens a watch. It ends when a member joins or leaves the resource, and the client begins again with all of them.
    pub async fn watch(&self, gvr: &GroupVersionResource, request: WatchRequest) -> Watch {
        let mut view = self.subscribe();
        let present = Arc::clone(&view.borrow_and_update());
        let is_streaming = request.initial_events == Some(true);
        let asked = Versions::parse(&request.version);
        let mut owed = BTreeSet::new();
        if is_streaming {
            // A member that has nothing to show yet is not waited for: its objects come as they are read.
            settle(&present, gvr).await;
            let read = present.of(gvr).filter(|cache| cache.mirror.is_synced());
            owed = read.map(|cache| cache.cluster.clone()).collect();
        }
        let start = |cluster: &str| match asked.get(cluster) {
            _ if is_streaming => Start::State,
            "" | "0" if request.initial_events == Some(false) => Start::Now,
            "" | "0" => Start::State,
            version => version.parse().map_or(Start::State, Start::After),
        };
        let sources = present.of(gvr).map(|cache| source(cache, start(&cache.cluster), &request.filter.namespace));
        let sources = stream::select_all(sources);
        let mut versions = Versions::default();
        for cache in present.of(gvr).filter(|cache| asked.knows(&cache.cluster) && !is_streaming) {
            versions.set(&cache.cluster, asked.get(&cache.cluster));
        }
        let now = Instant::now();
        Watch {
            gvr: gvr.clone(),
            filter: request.filter,
            versions,
            sources,
            clusters: present.of(gvr).map(|cache| cache.cluster.clone()).collect(),
            owed,
            owes_initial_end: is_streaming && request.bookmarks,
            bookmarks: request.bookmarks,
            next_bookmark: now + BOOKMARK_EVERY,
            ends: now + request.duration.filter(|asked| !asked.is_zero()).unwrap_or(DURATION),
            view,
            is_over: false,
        }
    }
}

impl Watch {
    /// What happened since; `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            if self.is_over {
                return None;
            }
            if self.owes_initial_end && self.owed.is_empty() {
                self.owes_initial_end = false;
                return Some(vec![self.bookmark(true)]);
            }
            let bookmark_at = if self.bookmarks && !self.owes_initial_end { self.next_bookmark } else { self.ends };
            let told = tokio::select! {
                biased;
                told = self.sources.next(), if !self.sources.is_empty() => told,
                changed = self.view.changed() => match changed {
                    Ok(()) if !self.has_grown() => continue,
                    _ => None,
                },
                () = tokio::time::sleep_until(self.ends) => None,
                () = tokio::time::sleep_until(bookmark_at) => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    return Some(vec![self.bookmark(false)]);
                }
            };
            let events = match told {
                Some((cache, told)) => self.take(&cache, told),
                None => {
                    self.is_over = true;
                    return None;
                }
            };
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    /// A member that was not there when the watch began cannot be told of without a list.
    fn has_grown(&mut self) -> bool {
        let view = Arc::clone(&self.view.borrow_and_update());
        view.of(&self.gvr).any(|cache| !self.clusters.contains(&cache.cluster))
    }

    fn bookmark(&self, initial_events_end: bool) -> Event {
        Event::Bookmark { version: self.versions.to_string(), initial_events_end }
    }

    fn take(&mut self, cache: &Cache, told: Told) -> Vec<Event> {
        match told {
            Told::State(objects) => {
                let fitting = objects.iter().filter(|(key, kept)| self.filter.matches(key, kept));
                fitting.map(|(_, kept)| self.present(cache, kept)).collect()
            }
            Told::StateEnd(version) => {
                self.versions.advance(&cache.cluster, &version);
                self.owed.remove(&cache.cluster);
                Vec::new()
            }
            Told::Steps(steps, version) => {
                let events = steps.iter().filter_map(|step| self.step(cache, step)).collect();
                if let Some(version) = version {
                    self.versions.advance(&cache.cluster, &version);
                }
                events
            }
            Told::TooOld(problem) => {
                self.is_over = true;
                vec![Event::Error(Status::gone(problem.to_string()))]
            }
            Told::Closed => {
                self.is_over = true;
                Vec::new()
            }
        }
    }

    /// Its version counts for this object only: until all are told, a client that comes back must be told all again.
    fn present(&self, cache: &Cache, kept: &Kept) -> Event {
        let object = kept.object();
        let mut versions = self.versions.clone();
        versions.set(&cache.cluster, object.resource_version());
        Event::Added(versioned(&object, &versions))
    }

    /// The change as the selectors of this watch see it.
    fn step(&mut self, cache: &Cache, step: &Step) -> Option<Event> {
        let fits = |kept: &Option<Kept>| kept.clone().filter(|kept| self.filter.matches(&step.key, kept));
        let (before, now) = (fits(&step.before), fits(&step.now));
        self.versions.advance(&cache.cluster, &step.version.to_string());
        let shown = |kept: Kept| versioned(&kept.object(), &self.versions);
        match (before, now) {
            (None, None) => None,
            (None, Some(now)) => Some(Event::Added(shown(now))),
            (Some(_), Some(now)) => Some(Event::Modified(shown(now))),
            (Some(before), None) => Some(Event::Deleted(shown(before))),
        }
    }
}

fn versioned(object: &Object, versions: &Versions) -> Arc<Object> {
    let mut object = object.clone();
    object.set(&["metadata", "resourceVersion"], versions.to_string());
    Arc::new(object)
}

/// How far a source is.
enum Stage {
    Begin(Start),
    State { follower: Follower, version: String, after: Option<ObjectKey> },
    Follow(Follower),
    End,
}

/// What one cache says, from its start on.
fn source(cache: &Arc<Cache>, start: Start, namespace: &str) -> BoxStream<'static, (Arc<Cache>, Told)> {
    let state = (Arc::clone(cache), namespace.to_owned(), Stage::Begin(start));
    stream::unfold(state, |(cache, namespace, mut stage)| async move {
        loop {
            let (told, next) = advance(&cache, &namespace, stage).await?;
            stage = next;
            if let Some(told) = told {
                return Some(((Arc::clone(&cache), told), (cache, namespace, stage)));
            }
        }
    })
    .boxed()
}

/// One step of a source: what it says, if anything, and where it is then. `None` when it has said its last.
async fn advance(cache: &Cache, namespace: &str, stage: Stage) -> Option<(Option<Told>, Stage)> {
    let mirror = &cache.mirror;
    Some(match stage {
        Stage::End => return None,
        Stage::Begin(start) => {
            tokio::select! {
                () = mirror.synced() => {}
                () = cache.stop.cancelled() => return Some((Some(Told::Closed), Stage::End)),
            }
            match start {
                // The version is read first: what happens meanwhile is told twice rather than not at all.
                Start::State => {
                    let version = mirror.version();
                    (None, Stage::State { follower: mirror.follow(), version, after: None })
                }
                Start::Now => (None, Stage::Follow(mirror.follow())),
                Start::After(version) => match mirror.follow_after(version) {
                    Ok(follower) => (None, Stage::Follow(follower)),
                    Err(problem) => (Some(Told::TooOld(problem)), Stage::End),
                },
            }
        }
        Stage::State { follower, version, after } => {
            let chunk = mirror.chunk(namespace, after.as_ref(), CHUNK);
            match chunk.last() {
                None => (Some(Told::StateEnd(version)), Stage::Follow(follower)),
                Some((last, _)) => {
                    let after = Some(last.clone());
                    (Some(Told::State(chunk)), Stage::State { follower, version, after })
                }
            }
        }
        Stage::Follow(mut follower) => match follower.next().await {
            Ok(Some(progress)) => (Some(Told::Steps(progress.steps, progress.version)), Stage::Follow(follower)),
            Ok(None) => (Some(Told::Closed), Stage::End),
            Err(problem) => (Some(Told::TooOld(problem)), Stage::End),
        },
    })
}
