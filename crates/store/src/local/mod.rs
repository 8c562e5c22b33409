//! State shared by the local engines: history in memory, non-blocking readers, watchers fed on commit.

pub(crate) mod chain;
pub(crate) mod change;
pub(crate) mod index;
pub(crate) mod kept;
pub(crate) mod lease;
pub(crate) mod watcher;

#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest, RangeResult, Revision};
use crate::local::chain::Version;
use crate::local::index::{FIRST_REVISION, Index, Span};
use crate::local::watcher::Hub;

/// Keys visited per lock acquisition, so that a long range does not block writers.
const VISITS_MAX: usize = 4096;
/// Revisions dropped per lock acquisition.
const COMPACT_STEP: usize = 1024;

/// Bounds of the history kept automatically; the first one reached applies.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    pub age: Duration,
    pub events: usize,
    /// Bytes of replaced and deleted values, before packing.
    pub bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { age: Duration::from_secs(300), events: 100_000, bytes: 16 << 20 }
    }
}

impl Retention {
    /// Keeps everything until compaction is requested.
    pub const UNBOUNDED: Retention = Retention { age: Duration::MAX, events: usize::MAX, bytes: usize::MAX };
}

/// The readable state of a local engine.
pub struct Local {
    index: RwLock<Index>,
    hub: Mutex<Hub>,
    /// Set after the index, once the watchers have the events up to it.
    revision: AtomicU64,
    compacted: AtomicU64,
    published: watch::Sender<Revision>,
    /// Revisions with the time they were seen, a second or more apart, to compact by age.
    seen: Mutex<std::collections::VecDeque<(Instant, Revision)>>,
}

impl Default for Local {
    fn default() -> Self {
        Local::new(Index::new(FIRST_REVISION, 0))
    }
}

impl Local {
    pub(crate) fn new(index: Index) -> Self {
        let (revision, compacted) = (index.revision(), index.compacted());
        Local {
            index: RwLock::new(index),
            hub: Mutex::default(),
            revision: AtomicU64::new(revision),
            compacted: AtomicU64::new(compacted),
            published: watch::Sender::new(revision),
            seen: Mutex::default(),
        }
    }

    pub fn get(&self, key: &str) -> (Option<KeyValue>, Revision) {
        let index = self.index.read();
        (index.get(key), index.revision())
    }

    pub fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult> {
        match self.range_in_steps(&request, VISITS_MAX) {
            // Compaction overtook a read of the latest revision between two steps: read in one step.
            Err(Error::Compacted { .. }) if request.revision.is_none() => self.range_in_steps(&request, usize::MAX),
            result => result,
        }
    }

    fn range_in_steps(&self, request: &RangeRequest<'_>, visits_max: usize) -> Result<RangeResult> {
        let span = Span::of(request);
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        let mut index = self.index.read();
        let mut result = RangeResult { revision: index.revision(), ..RangeResult::default() };
        let at = index.readable(request.revision)?;
        let mut from: Option<Arc<str>> = None;
        loop {
            let start = Bound::Included(from.as_deref().unwrap_or(request.start));
            if result.kvs.len() < limit {
                let page = index.page(start, &span, at, limit - result.kvs.len(), visits_max);
                result.kvs.extend(page.kvs);
                from = page.next;
            } else {
                let (count, next) = index.count(start, &span, at, visits_max);
                result.remaining += count;
                from = next;
            }
            if from.is_none() {
                result.more = result.remaining > 0;
                return Ok(result);
            }
            if visits_max != usize::MAX {
                drop(index);
                index = self.index.read();
                index.readable(Some(at))?;
            }
        }
    }

    pub fn count(&self, prefix: &str) -> u64 {
        let index = self.index.read();
        index.count(Bound::Included(prefix), &Span::Prefix(prefix), index.revision(), usize::MAX).0
    }

    pub fn revision(&self) -> Revision {
        self.revision.load(Ordering::Acquire)
    }

    pub fn compacted(&self) -> Revision {
        self.compacted.load(Ordering::Acquire)
    }

    /// Applies `write` under the write lock, feeds the watchers, and only then publishes the revision.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut Applier<'_>) -> T) -> T {
        let mut index = self.index.write();
        let mut hub = self.hub.lock();
        let mut applier = Applier { index: &mut index, hub: &mut hub };
        let result = write(&mut applier);
        let revision = index.revision();
        self.revision.store(revision, Ordering::Release);
        let touched = hub.take_touched();
        drop(hub);
        drop(index);
        touched.iter().for_each(|slot| slot.wake());
        self.published.send_if_modified(|published| std::mem::replace(published, revision) != revision);
        result
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Index) -> T) -> T {
        read(&self.index.read())
    }

    /// Drops history up to `revision` in steps. `pruned` gets every version that is no longer readable.
    pub(crate) fn compact(&self, revision: Revision, mut pruned: impl FnMut(&Arc<str>, Version)) -> Result<()> {
        {
            let index = self.index.read();
            if revision > index.revision() {
                return Err(Error::FutureRevision { requested: revision, current: index.revision() });
            }
            if revision <= index.compacted() {
                return Err(Error::Compacted { requested: revision, compacted: index.compacted() });
            }
        }
        loop {
            let reached = self.index.write().compact(revision, COMPACT_STEP, &mut pruned);
            self.compacted.fetch_max(reached, Ordering::AcqRel);
            if reached >= revision {
                return Ok(());
            }
        }
    }

    /// The revision up to which history exceeds `retention`.
    pub(crate) fn expired(&self, retention: &Retention, now: Instant) -> Option<Revision> {
        let (revision, compacted, events, bytes) = {
            let index = self.index.read();
            (index.revision(), index.compacted(), index.history_events(), index.history_bytes())
        };
        let mut seen = self.seen.lock();
        let by_age = retention.age < Duration::MAX;
        let due =
            |(at, last): &(Instant, Revision)| *last < revision && now.duration_since(*at) >= Duration::from_secs(1);
        if by_age && seen.back().is_none_or(due) {
            seen.push_back((now, revision));
        }
        let mut target = 0;
        while let Some((at, old)) = seen.front()
            && now.duration_since(*at) >= retention.age
        {
            target = *old;
            seen.pop_front();
        }
        if events > retention.events || bytes > retention.bytes {
            // Half is dropped at once, so that a store at its bound does not compact on every write.
            target = target.max(self.read(|index| index.revision_after(events / 2)));
        }
        (target > compacted).then_some(target)
    }
}

/// The write side of [`Local`], held under its lock.
pub(crate) struct Applier<'a> {
    pub index: &'a mut Index,
    hub: &'a mut Hub,
}

impl Applier<'_> {
    pub fn apply(&mut self, key: &Arc<str>, version: Version) {
        let event = self.index.apply(key, version);
        self.hub.push(&event);
    }

    pub fn forget_lease(&mut self, lease: LeaseId) {
        self.index.forget_lease(lease);
    }
}
