//! Watches over the caches of all members: many streams merged into one, each from its own version on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll, StreamExt};
use object::{GroupVersionResource, Object, Status};
use reconcile::{Follower, Kept, ObjectKey, RecordedChange, TooOld};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Search;
use crate::cache::{Cache, View};
use crate::filter::Filter;
use crate::read::settle;
use crate::scope::{ReadScope, readable};
use crate::version::Versions;

/// Interval of bookmarks, if requested.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Default duration of a watch; clients reconnect.
const DURATION: Duration = Duration::from_secs(2700);

/// Objects of the initial state sent at once.
const CHUNK: usize = 256;

/// The parameters of a watch.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    pub filter: Filter,
    pub scope: ReadScope,
    /// Empty, `0`, or a version from an earlier response.
    pub version: String,
    pub bookmarks: bool,
    /// A streaming list: existing objects come first, and a bookmark marks their end.
    pub initial_events: Option<bool>,
    pub duration: Option<Duration>,
}

#[derive(Debug)]
pub enum SearchEvent {
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

/// An open watch. Poll for the next events until there are none.
pub struct Watch {
    gvr: GroupVersionResource,
    filter: Filter,
    scope: ReadScope,
    /// An object arrived in a namespace about which the scope does not decide.
    has_open_question: bool,
    /// The versions sent to the client so far.
    versions: Versions,
    sources: SelectAll<BoxStream<'static, (Arc<Cache>, StreamItem)>>,
    /// The watched members.
    clusters: BTreeSet<String>,
    /// Members whose initial state is not complete yet.
    owed: BTreeSet<String>,
    owes_initial_end: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    view: watch::Receiver<Arc<View>>,
    is_over: bool,
}

/// An item from one cache.
enum StreamItem {
    /// A part of the initial state.
    State(Vec<(ObjectKey, Kept)>),
    /// The initial state is complete at this version.
    StateEnd(String),
    Steps(Vec<RecordedChange>, Option<String>),
    TooOld(TooOld),
    /// The member is no longer watched.
    Closed,
}

/// The start of a cache's stream.
enum Start {
    State,
    Now,
    After(u64),
}

impl Search {
    /// Opens a watch. It ends when a member starts or stops serving the resource, and the client starts again with
    /// all of them.
    pub async fn watch(&self, gvr: &GroupVersionResource, request: WatchRequest) -> Watch {
        let mut view = self.subscribe();
        let present = Arc::clone(&view.borrow_and_update());
        let is_streaming = request.initial_events == Some(true);
        let asked = Versions::parse(&request.version);
        let mut owed = BTreeSet::new();
        if is_streaming {
            // A member that is not synced is not waited for: its objects arrive as they are read.
            settle(&present, gvr, &request.scope).await;
            let read = readable(&present, gvr, &request.scope).filter(|cache| cache.mirror.is_synced());
            owed = read.map(|cache| cache.cluster.clone()).collect();
        }
        let start = |cluster: &str| match asked.get(cluster) {
            _ if is_streaming => Start::State,
            "" | "0" if request.initial_events == Some(false) => Start::Now,
            "" | "0" => Start::State,
            version => version.parse().map_or(Start::State, Start::After),
        };
        let shown = || readable(&present, gvr, &request.scope);
        let sources = shown().map(|cache| source(cache, start(&cache.cluster), &request.filter.namespace));
        let sources = stream::select_all(sources);
        let mut versions = Versions::default();
        for cache in shown().filter(|cache| asked.knows(&cache.cluster) && !is_streaming) {
            versions.set(&cache.cluster, asked.get(&cache.cluster));
        }
        let now = Instant::now();
        Watch {
            gvr: gvr.clone(),
            filter: request.filter,
            scope: request.scope,
            has_open_question: false,
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
    /// Reports, once, that an object arrived in a namespace about which the scope does not decide.
    pub fn take_open_question(&mut self) -> bool {
        std::mem::take(&mut self.has_open_question)
    }

    pub fn scope(&self) -> &ReadScope {
        &self.scope
    }

    /// Replaces the scope by one that shows the same objects.
    pub fn refine_scope(&mut self, scope: ReadScope) {
        debug_assert!(self.scope.shows_the_same(&scope), "a watch cannot take objects back");
        self.scope = scope;
    }

    /// The next events, none if a question is open; `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Vec<SearchEvent>> {
        loop {
            if self.is_over {
                return None;
            }
            if self.owes_initial_end && self.owed.is_empty() {
                self.owes_initial_end = false;
                return Some(vec![self.bookmark(true)]);
            }
            let bookmark_at = if self.bookmarks && !self.owes_initial_end { self.next_bookmark } else { self.ends };
            let next_item = tokio::select! {
                biased;
                next_item = self.sources.next(), if !self.sources.is_empty() => next_item,
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
            let events = match next_item {
                Some((cache, next_item)) => self.take(&cache, next_item),
                None => {
                    self.is_over = true;
                    return None;
                }
            };
            if !events.is_empty() || self.has_open_question {
                return Some(events);
            }
        }
    }

    /// A member that was missing when the watch began requires a new list.
    fn has_grown(&mut self) -> bool {
        let view = Arc::clone(&self.view.borrow_and_update());
        view.of(&self.gvr).any(|cache| !self.clusters.contains(&cache.cluster))
    }

    fn bookmark(&self, initial_events_end: bool) -> SearchEvent {
        SearchEvent::Bookmark { version: self.versions.to_string(), initial_events_end }
    }

    fn take(&mut self, cache: &Cache, next_item: StreamItem) -> Vec<SearchEvent> {
        match next_item {
            StreamItem::State(objects) => {
                self.has_open_question |= objects.iter().any(|(key, _)| self.scope.leaves_open(&cache.cluster, key));
                let fitting = objects
                    .iter()
                    .filter(|(key, kept)| self.scope.shows(&cache.cluster, key) && self.filter.matches(key, kept));
                fitting.map(|(_, kept)| self.present(cache, kept)).collect()
            }
            StreamItem::StateEnd(version) => {
                self.versions.advance(&cache.cluster, &version);
                self.owed.remove(&cache.cluster);
                Vec::new()
            }
            StreamItem::Steps(steps, version) => {
                let events = steps.iter().filter_map(|step| self.step(cache, step)).collect();
                if let Some(version) = version {
                    self.versions.advance(&cache.cluster, &version);
                }
                events
            }
            StreamItem::TooOld(problem) => {
                self.is_over = true;
                vec![SearchEvent::Error(Status::gone(problem.to_string()))]
            }
            StreamItem::Closed => {
                self.is_over = true;
                Vec::new()
            }
        }
    }

    /// The version covers this object only: until the initial state is complete, a client that reconnects must get
    /// all of it again.
    fn present(&self, cache: &Cache, kept: &Kept) -> SearchEvent {
        let object = kept.object();
        let mut versions = self.versions.clone();
        versions.set(&cache.cluster, object.resource_version());
        SearchEvent::Added(versioned(&object, &versions))
    }

    /// The event for a change, after the selectors of this watch.
    fn step(&mut self, cache: &Cache, step: &RecordedChange) -> Option<SearchEvent> {
        self.has_open_question |= self.scope.leaves_open(&cache.cluster, &step.key);
        let is_shown = self.scope.shows(&cache.cluster, &step.key);
        let fits = |kept: &Option<Kept>| kept.clone().filter(|kept| is_shown && self.filter.matches(&step.key, kept));
        let (before, now) = (fits(&step.before), fits(&step.now));
        self.versions.advance(&cache.cluster, &step.version.to_string());
        let shown = |kept: Kept| versioned(&kept.object(), &self.versions);
        match (before, now) {
            (None, None) => None,
            (None, Some(now)) => Some(SearchEvent::Added(shown(now))),
            (Some(_), Some(now)) => Some(SearchEvent::Modified(shown(now))),
            (Some(before), None) => Some(SearchEvent::Deleted(shown(before))),
        }
    }
}

fn versioned(object: &Object, versions: &Versions) -> Arc<Object> {
    let mut object = object.clone();
    object.set(&["metadata", "resourceVersion"], versions.to_string());
    Arc::new(object)
}

/// The progress of a cache's stream.
enum StreamStage {
    Begin(Start),
    State { follower: Follower, version: String, after: Option<ObjectKey> },
    Follow(Follower),
    End,
}

/// The items of one cache, from its start on.
fn source(cache: &Arc<Cache>, start: Start, namespace: &str) -> BoxStream<'static, (Arc<Cache>, StreamItem)> {
    let state = (Arc::clone(cache), namespace.to_owned(), StreamStage::Begin(start));
    stream::unfold(state, |(cache, namespace, mut stage)| async move {
        loop {
            let (next_item, next) = advance(&cache, &namespace, stage).await?;
            stage = next;
            if let Some(next_item) = next_item {
                return Some(((Arc::clone(&cache), next_item), (cache, namespace, stage)));
            }
        }
    })
    .boxed()
}

/// One step of a stream: its item, if any, and its next stage. `None` at the end.
async fn advance(cache: &Cache, namespace: &str, stage: StreamStage) -> Option<(Option<StreamItem>, StreamStage)> {
    let mirror = &cache.mirror;
    Some(match stage {
        StreamStage::End => return None,
        StreamStage::Begin(start) => {
            tokio::select! {
                () = mirror.synced() => {}
                () = cache.stop.cancelled() => return Some((Some(StreamItem::Closed), StreamStage::End)),
            }
            match start {
                // The version is read first: concurrent changes are sent twice rather than missed.
                Start::State => {
                    let version = mirror.version();
                    (None, StreamStage::State { follower: mirror.follow(), version, after: None })
                }
                Start::Now => (None, StreamStage::Follow(mirror.follow())),
                Start::After(version) => match mirror.follow_after(version) {
                    Ok(follower) => (None, StreamStage::Follow(follower)),
                    Err(problem) => (Some(StreamItem::TooOld(problem)), StreamStage::End),
                },
            }
        }
        StreamStage::State { follower, version, after } => {
            let chunk = mirror.chunk(namespace, after.as_ref(), CHUNK);
            match chunk.last() {
                None => (Some(StreamItem::StateEnd(version)), StreamStage::Follow(follower)),
                Some((last, _)) => {
                    let after = Some(last.clone());
                    (Some(StreamItem::State(chunk)), StreamStage::State { follower, version, after })
                }
            }
        }
        StreamStage::Follow(mut follower) => match follower.next().await {
            Ok(Some(progress)) => {
                (Some(StreamItem::Steps(progress.steps, progress.version)), StreamStage::Follow(follower))
            }
            Ok(None) => (Some(StreamItem::Closed), StreamStage::End),
            Err(problem) => (Some(StreamItem::TooOld(problem)), StreamStage::End),
        },
    })
}
