//! A reader's place in a cache's changes: walks the shared events by revision, so a watcher costs a cursor, not a queue.

use std::sync::Arc;

use bytes::Bytes;
use object::Status;
use tokio::sync::watch;

use super::{Cache, CacheEvent, Entry, Filter};

/// Changes a watcher takes in one turn under the lock.
const BATCH_MAX: usize = 256;
/// Bytes of the objects in these changes; a turn takes at least one.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// The kind of a change as this watcher's selectors see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

pub struct Change {
    pub kind: ChangeKind,
    pub entry: Arc<Entry>,
    /// Set when the change looks to this watcher as it does to one without selectors, whose frame is shared.
    shared: Option<Arc<CacheEvent>>,
}

pub struct Watcher {
    cache: Arc<Cache>,
    filter: Filter,
    /// Everything up to this revision has been handed out.
    at: u64,
    changed: watch::Receiver<u64>,
}

impl ChangeKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Change {
    pub fn added(entry: Arc<Entry>) -> Self {
        Self { kind: ChangeKind::Added, entry, shared: None }
    }

    /// The event as one line of JSON, in the storage version.
    pub fn frame(&self) -> Bytes {
        match &self.shared {
            Some(event) => event.frame.get_or_init(|| encode_frame(self.kind, &self.entry)).clone(),
            None => encode_frame(self.kind, &self.entry),
        }
    }
}

fn encode_frame(kind: ChangeKind, entry: &Entry) -> Bytes {
    let mut out = Vec::with_capacity(entry.stored.size() + 96);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.name().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    entry.stored.write_json(&mut out);
    out.extend_from_slice(b"}\n");
    out.into()
}

impl Cache {
    /// A watcher of changes after `revision`; 410 when those are no longer kept.
    pub fn watch_after(self: &Arc<Self>, filter: Filter, revision: u64) -> Result<Watcher, Status> {
        let state = self.state.read();
        if revision < state.events_from {
            return Err(too_old(revision, state.events_from));
        }
        Ok(Watcher { cache: self.clone(), filter, at: revision, changed: self.changed.subscribe() })
    }

    /// The present state and a watcher of what follows it, with nothing lost or doubled in between.
    pub fn state_and_watch(self: &Arc<Self>, filter: Filter) -> (Vec<Arc<Entry>>, Watcher) {
        let changed = self.changed.subscribe();
        let applied = self.revision();
        let state = self.state.read();
        let at = state.revision.max(applied);
        let page = state.page(&filter, None, 0, at);
        let watcher = Watcher { cache: self.clone(), filter, at, changed };
        (page.entries, watcher)
    }
}

fn too_old(revision: u64, oldest: u64) -> Status {
    Status::gone(format!("too old resource version: {revision} ({oldest})"))
}

impl Watcher {
    /// The revision up to which this watcher is complete, for bookmarks.
    pub fn revision(&self) -> u64 {
        self.at
    }

    /// Waits for changes that concern this watcher. An error is final: the history it needs is gone.
    pub async fn next(&mut self) -> Result<Vec<Change>, Status> {
        loop {
            self.changed.mark_unchanged();
            let changes = self.take()?;
            if !changes.is_empty() {
                return Ok(changes);
            }
            if self.changed.changed().await.is_err() {
                return Err(Status::unavailable("the server is shutting down"));
            }
        }
    }

    /// Changes that are here already, without waiting.
    pub fn take(&mut self) -> Result<Vec<Change>, Status> {
        loop {
            // Taken before the look at the events: whatever came up to here is among them.
            let applied = self.cache.revision();
            let batch: Vec<Arc<CacheEvent>> = {
                let state = self.cache.state.read();
                if self.at < state.events_from {
                    return Err(too_old(self.at, state.events_from));
                }
                let first = state.events.partition_point(|event| event.revision <= self.at);
                let mut bytes = 0;
                let fits = |event: &&Arc<CacheEvent>| {
                    let fits = bytes < BATCH_BYTES_MAX;
                    bytes += event.entry.bytes();
                    fits
                };
                let batch: Vec<_> = state.events.range(first..).take(BATCH_MAX).take_while(fits).cloned().collect();
                if batch.is_empty() {
                    self.at = self.at.max(state.revision).max(applied);
                    return Ok(Vec::new());
                }
                batch
            };
            self.at = batch.last().map_or(self.at, |event| event.revision);
            let changes: Vec<Change> = batch.iter().filter_map(|event| self.view(event)).collect();
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    fn view(&self, event: &Arc<CacheEvent>) -> Option<Change> {
        let was = event.previous.as_ref().is_some_and(|previous| previous.matches(&self.filter));
        let is = !event.deleted && event.entry.matches(&self.filter);
        let shared = Some(event.clone());
        let natural = if event.previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        match (was, is) {
            (false, false) => None,
            (true, true) => Some(Change { kind: ChangeKind::Modified, entry: event.entry.clone(), shared }),
            (false, true) => {
                let shared = if natural == ChangeKind::Added { shared } else { None };
                Some(Change { kind: ChangeKind::Added, entry: event.entry.clone(), shared })
            }
            (true, false) if event.deleted => {
                Some(Change { kind: ChangeKind::Deleted, entry: event.entry.clone(), shared })
            }
            // It left the selector: the watcher is shown the last state it knew, under the revision of the change.
            (true, false) => {
                let last = event.previous.as_ref()?.at_revision(event.revision);
                Some(Change { kind: ChangeKind::Deleted, entry: Arc::new(last), shared: None })
            }
        }
    }
}
