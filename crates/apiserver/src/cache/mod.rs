//! The watch cache: every object of one resource in memory with its recent changes, fed by the store's watch.
//!
//! Lists and watches of every storage engine are served from here, so that a store on the network sends each change
//! once and not once per reader. A cache starts on first use and then follows the store for as long as the server runs.

mod entry;
mod watcher;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use kinds::SelectableField;
use object::{Object, Status};
use packing::Dictionary;
use parking_lot::{Mutex, RwLock};
use store::{EventKind, KeyValue, ProgressHandle, RangeEnd, RangeRequest, Store};
use tokio::sync::{Notify, OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::request::ListSelection;

pub use entry::{Entry, Filter, UnreadableEntry};
pub use watcher::{Change, ChangeKind, Watcher};

/// Changes kept for watchers that resume; the store's own compaction bounds them in time as well.
const EVENTS_MAX: usize = 100_000;
/// Bytes of the objects in those changes; a client that resumes from before them must list again.
const EVENTS_BYTES_MAX: usize = 4 << 20;
/// Trees of objects just written that wait for watchers; evicted ones are decoded again.
const HANDED_OVER_MAX: usize = 64;
/// Time a reader waits for the cache to reach its revision.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// Delay before a failing store is tried again.
const RESTART_DELAY: Duration = Duration::from_millis(200);

/// A committed change as the cache keeps it.
pub struct CacheEvent {
    pub revision: u64,
    /// The object after the change; for a deletion the last state, under the revision of the deletion.
    pub entry: Arc<Entry>,
    pub previous: Option<Arc<Entry>>,
    pub deleted: bool,
    /// The watch frame in the storage version, encoded for the first watcher and shared by all others.
    frame: OnceLock<Bytes>,
}

pub struct Cache {
    store: Arc<dyn Store>,
    prefix: String,
    selectable: Arc<[SelectableField]>,
    field_names: Arc<[String]>,
    dictionary: Dictionary,
    state: RwLock<State>,
    changed: watch::Sender<u64>,
    started: OnceCell<()>,
    progress: RwLock<Option<ProgressHandle>>,
    restarted: Notify,
    handed_over: Mutex<VecDeque<(u64, Arc<Object>)>>,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Box<str>, Arc<Entry>>,
    events: VecDeque<Arc<CacheEvent>>,
    events_bytes: usize,
    /// Watches may start at this revision or later.
    events_from: u64,
    /// The newest change that touched this resource.
    changed_at: u64,
    /// Everything up to here is in `entries`.
    revision: u64,
}

/// Objects of a list, with the revision they are consistent at.
pub struct Page {
    pub entries: Vec<Arc<Entry>>,
    pub revision: u64,
    /// Key to go on after, when there is more.
    pub next: Option<String>,
    /// Number of objects that follow, where that is known without filtering.
    pub remaining: Option<u64>,
}

impl Cache {
    pub fn new(
        store: Arc<dyn Store>,
        prefix: String,
        selectable: Vec<SelectableField>,
        stop: CancellationToken,
    ) -> Self {
        let field_names = selectable.iter().map(|field| field.name.clone()).collect();
        let (changed, _) = watch::channel(0);
        Self {
            store,
            prefix,
            selectable: selectable.into(),
            field_names,
            dictionary: Dictionary::for_large_values(),
            state: RwLock::default(),
            changed,
            started: OnceCell::new(),
            progress: RwLock::new(None),
            restarted: Notify::new(),
            handed_over: Mutex::default(),
            stop,
        }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The fields whose values entries have, in this order.
    pub fn selectable(&self) -> &[SelectableField] {
        &self.selectable
    }

    /// Keeps the tree of a write in this process, so that its watchers need not decode it again.
    pub fn hand_over(&self, revision: u64, written: &Object) {
        if self.changed.receiver_count() == 0 {
            return;
        }
        let object = Arc::new(written.unmanaged());
        let mut waiting = self.handed_over.lock();
        if waiting.len() == HANDED_OVER_MAX {
            waiting.pop_front();
        }
        waiting.push_back((revision, object));
    }

    /// The object of an entry as a tree that all watchers in this process share.
    pub fn share(&self, entry: &Entry) -> Arc<Object> {
        entry.share_or(|revision| {
            let mut waiting = self.handed_over.lock();
            let index = waiting.iter().position(|(of, _)| *of == revision)?;
            waiting.remove(index).map(|(_, object)| object)
        })
    }

    pub fn filter(&self, namespace: &str, selection: &ListSelection) -> Filter {
        Filter {
            namespace: namespace.to_owned(),
            labels: selection.labels.clone(),
            fields: selection.fields.clone(),
            field_names: self.field_names.clone(),
        }
    }

    /// Starts following the store on first use, and waits for the first full read.
    pub async fn ready(self: &Arc<Self>) -> Result<(), Status> {
        let start = || async {
            let mut stream = self.load().await?;
            if self.store.local().is_some() {
                self.catch_up(&mut stream).await?;
            }
            tokio::spawn(self.clone().follow(stream));
            Ok::<_, Status>(())
        };
        self.started.get_or_try_init(start).await.map(|_| ())
    }

    /// Takes in the history of a store in this process. It can be long, and readers wait for a revision only for a moment.
    async fn catch_up(&self, stream: &mut store::WatchStream) -> Result<(), Status> {
        let stored = self.store.revision().await.map_err(crate::storage::status_of_store)?;
        while self.revision() < stored {
            // Makes the stream answer also when the rest of the history concerns other resources.
            stream.progress().request();
            match stream.next().await {
                Some(Ok(batch)) => self.apply(batch),
                // The follower reads again.
                _ => break,
            }
        }
        Ok(())
    }

    /// Waits until the cache holds every write acknowledged before this call.
    pub async fn fresh(self: &Arc<Self>) -> Result<(), Status> {
        self.ready().await?;
        let revision = self.store.revision().await.map_err(crate::storage::status_of_store)?;
        self.reach(revision).await
    }

    /// Waits until the cache is at `revision` or later.
    pub async fn reach(self: &Arc<Self>, revision: u64) -> Result<(), Status> {
        self.ready().await?;
        let current = self.revision();
        if current >= revision {
            return Ok(());
        }
        let wait = async {
            loop {
                let handle = self.progress.read().clone();
                let Some(handle) = handle else {
                    self.restarted.notified().await;
                    continue;
                };
                handle.request();
                if handle.wait(revision).await.is_ok() {
                    return;
                }
                tokio::time::sleep(RESTART_DELAY).await;
            }
        };
        let waited = tokio::time::timeout(FRESHNESS_WAIT, wait).await;
        // The wait ends a moment after the change is here: on a busy machine the time can be over between the two.
        match self.revision() {
            current if waited.is_err() && current < revision => Err(Status::version_too_large(revision, current)),
            _ => Ok(()),
        }
    }

    /// The newest revision of which every change is here.
    pub fn revision(&self) -> u64 {
        let applied = self.progress.read().as_ref().map_or(0, ProgressHandle::applied);
        self.state.read().revision.max(applied)
    }

    /// Returns true when the cache is at `revision` and no object has changed after `seen`.
    pub fn unchanged_since(&self, seen: u64, revision: u64) -> bool {
        // Asked by most requests: a caller that needs no revision takes one lock.
        (revision == 0 || self.revision() >= revision) && self.state.read().changed_at <= seen
    }

    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.state.read().entries.get(key).cloned()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.state.read().entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every object that matches, at the cache's present revision.
    pub fn entries(&self, filter: &Filter) -> Vec<Arc<Entry>> {
        self.page(filter, None, 0).entries
    }

    /// A page of matching objects after `start`, at the cache's present revision.
    pub fn page(&self, filter: &Filter, start: Option<&str>, limit: usize) -> Page {
        let revision = self.revision();
        let state = self.state.read();
        let revision = revision.max(state.revision);
        state.page(filter, start, limit, revision)
    }

    /// The same, when the objects have not changed since `revision` and this is therefore also the page of then.
    pub fn page_at(&self, filter: &Filter, start: Option<&str>, limit: usize, revision: u64) -> Option<Page> {
        if self.revision() < revision {
            return None;
        }
        let state = self.state.read();
        (state.changed_at <= revision).then(|| state.page(filter, start, limit, revision))
    }

    async fn load(self: &Arc<Self>) -> Result<store::WatchStream, Status> {
        let to_status = crate::storage::status_of_store;
        // A store in this process still has its recent history: take it in, so that watches from before a restart resume.
        let base = match self.store.local() {
            Some(_) => self.store.compacted().await.max(1),
            None => self.store.revision().await.map_err(to_status)?,
        };
        let request = RangeRequest { start: &self.prefix, end: RangeEnd::Prefix, limit: 0, revision: Some(base) };
        let range = self.store.range(request).await.map_err(to_status)?;
        let mut entries = BTreeMap::new();
        for kv in range.kvs {
            match self.read(&kv) {
                Ok(entry) => {
                    entries.insert(Box::from(&kv.key[self.prefix.len()..]), Arc::new(entry));
                }
                Err(error) => tracing::error!(%error, "left out of the cache"),
            }
        }
        let stream = self.store.watch(&self.prefix, base + 1).await.map_err(to_status)?;
        *self.state.write() =
            State { entries, events_from: base, changed_at: base, revision: base, ..State::default() };
        *self.progress.write() = Some(stream.progress());
        self.restarted.notify_waiters();
        Ok(stream)
    }

    async fn follow(self: Arc<Self>, mut stream: store::WatchStream) {
        loop {
            let batch = tokio::select! {
                () = self.stop.cancelled() => return,
                batch = stream.next() => batch,
            };
            match batch {
                Some(Ok(batch)) => self.apply(batch),
                ended => {
                    if let Some(Err(error)) = ended {
                        tracing::warn!(prefix = self.prefix, %error, "the store's watch ended; reading again");
                    }
                    *self.progress.write() = None;
                    stream = loop {
                        tokio::select! {
                            () = self.stop.cancelled() => return,
                            () = tokio::time::sleep(RESTART_DELAY) => {}
                        }
                        match self.load().await {
                            Ok(stream) => break stream,
                            Err(status) => tracing::warn!(prefix = self.prefix, %status, "the store cannot be read"),
                        }
                    };
                    self.changed.send_modify(|changes| *changes += 1);
                }
            }
        }
    }

    fn read(&self, kv: &KeyValue) -> Result<Entry, UnreadableEntry> {
        let entry = Entry::read(&kv.key, kv.value.clone(), kv.mod_revision, &self.selectable)?;
        Ok(entry.packed(&self.dictionary))
    }

    fn apply(&self, batch: store::WatchBatch) {
        let mut state = self.state.write();
        for event in batch.events {
            let revision = event.kv.mod_revision;
            if revision <= state.changed_at && revision <= state.revision {
                continue;
            }
            let key = &event.kv.key[self.prefix.len()..];
            let previous = state.entries.get(key).cloned();
            let change = match event.kind {
                EventKind::Put => match self.read(&event.kv) {
                    Ok(entry) => {
                        let entry = Arc::new(entry);
                        state.entries.insert(key.into(), entry.clone());
                        CacheEvent { revision, entry, previous, deleted: false, frame: OnceLock::new() }
                    }
                    Err(error) => {
                        tracing::error!(%error, "left out of the cache");
                        continue;
                    }
                },
                EventKind::Delete => {
                    let Some(previous) = previous else { continue };
                    state.entries.remove(key);
                    let entry = Arc::new(previous.at_revision(revision));
                    CacheEvent { revision, entry, previous: Some(previous), deleted: true, frame: OnceLock::new() }
                }
            };
            state.events_bytes += change.entry.bytes();
            state.events.push_back(Arc::new(change));
            state.changed_at = revision;
        }
        state.revision = state.revision.max(batch.revision);
        while state.events.len() > EVENTS_MAX || state.events_bytes > EVENTS_BYTES_MAX {
            let Some(dropped) = state.forget_oldest() else { break };
            state.events_from = dropped.revision;
        }
        drop(state);
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Forgets changes at or before `revision`; called as the store compacts, so that memory follows.
    pub fn forget_before(&self, revision: u64) {
        let mut state = self.state.write();
        while state.events.front().is_some_and(|event| event.revision <= revision) {
            state.forget_oldest();
        }
        state.events_from = state.events_from.max(revision);
    }
}

impl State {
    fn forget_oldest(&mut self) -> Option<Arc<CacheEvent>> {
        let oldest = self.events.pop_front()?;
        self.events_bytes -= oldest.entry.bytes();
        Some(oldest)
    }

    fn page(&self, filter: &Filter, start: Option<&str>, limit: usize, revision: u64) -> Page {
        let scope = if filter.namespace.is_empty() { String::new() } else { format!("{}/", filter.namespace) };
        let lower = match start {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(scope.as_str()),
        };
        let mut page = Page { entries: Vec::new(), revision, next: None, remaining: None };
        if limit == 0 && filter.is_everything() && scope.is_empty() {
            page.entries.reserve(self.entries.len());
        }
        let mut walk = self.entries.range::<str, _>((lower, Bound::Unbounded));
        let mut last: Option<&str> = None;
        for (key, entry) in walk.by_ref().take_while(|(key, _)| key.starts_with(&scope)) {
            if !entry.matches(filter) {
                continue;
            }
            if limit > 0 && page.entries.len() == limit {
                page.next = last.map(str::to_owned);
                break;
            }
            page.entries.push(entry.clone());
            last = Some(key);
        }
        if page.next.is_some() && filter.is_everything() {
            let rest = walk.take_while(|(key, _)| key.starts_with(&scope)).count();
            page.remaining = Some(rest as u64 + 1);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::memory::Memory;

    use super::*;

    fn object() -> Object {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
        Object::from_value(value).expect("a map")
    }

    /// The tree of a written revision is given out once, while few others were written since.
    fn check(written_since: usize, is_given: bool) {
        let cache =
            Cache::new(Arc::new(Memory::new()), "/core/configmaps/".into(), Vec::new(), CancellationToken::new());
        let _watching = cache.changed.subscribe();
        let mut written = object();
        written.set(&["metadata", "managedFields"], json!([{"manager": "m"}]));
        // The store does not have this value: a reader that sees it got the handed-over object.
        written.set(&["data"], json!({"given": "yes"}));
        cache.hand_over(7, &written);
        (0..written_since).for_each(|other| cache.hand_over(8 + other as u64, &object()));
        let entry = Entry::read("n/a", object().encode(), 7, &[]).expect("readable");
        let shared = cache.share(&entry);
        assert_eq!(shared.get(&["data"]).is_some(), is_given, "{written_since} written since");
        assert_eq!(shared.get(&["metadata", "managedFields"]), None);
        assert!(Arc::ptr_eq(&shared, &cache.share(&entry)));
        drop(shared);
        assert_eq!(cache.share(&entry).get(&["data"]), None, "given once");
    }

    #[test]
    fn watchers_get_the_tree_of_the_writer_or_decode_their_own() {
        check(0, true);
        check(HANDED_OVER_MAX - 1, true);
        check(HANDED_OVER_MAX, false);
    }

    #[test]
    fn trees_without_watchers_are_not_kept() {
        let cache =
            Cache::new(Arc::new(Memory::new()), "/core/configmaps/".into(), Vec::new(), CancellationToken::new());
        cache.hand_over(7, &object());
        assert!(cache.handed_over.lock().is_empty());
    }

    /// After a restart a cache begins with the oldest revision that the store still has.
    #[tokio::test]
    async fn a_new_cache_has_the_whole_history_when_it_is_ready() {
        let store = Arc::new(Memory::new());
        let mut last = 0;
        for number in 0..2000 {
            last = store.create(&format!("/a/n/{number}"), object().encode(), None).await.expect("created");
        }
        let cache = Arc::new(Cache::new(store, "/a/".into(), Vec::new(), CancellationToken::new()));
        cache.ready().await.expect("a store");
        assert_eq!((cache.revision(), cache.len()), (last, 2000));
    }

    /// Between taking a change in and reporting it, the reader of the store may be paused for longer than a request waits.
    #[tokio::test]
    async fn a_change_that_is_here_is_fresh_before_its_reader_reports_it() {
        let cache = Arc::new(Cache::new(Arc::new(Memory::new()), "/a/".into(), Vec::new(), CancellationToken::new()));
        cache.ready().await.expect("a store");
        let revision = cache.revision() + 5;
        let reached = tokio::join!(cache.reach(revision), async {
            cache.apply(store::WatchBatch { events: Vec::new(), revision });
        });
        assert!(reached.0.is_ok(), "{reached:?}");
        let missing = cache.reach(revision + 1).await.expect_err("no such revision");
        assert_eq!(missing.code, 504, "{missing:?}");
    }
}
