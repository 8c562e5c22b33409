//! Watchers of a local engine: fed on commit, catching up from history when they fall behind.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::error::{Error, Result};
use crate::kv::{Event, Revision};
use crate::local::Local;
use crate::watch::WatchBatch;

/// Events queued for a watcher; beyond that it catches up from history at its own pace.
const QUEUE_EVENTS_MAX: usize = 4096;
/// Events in one batch.
const BATCH_EVENTS_MAX: usize = 1024;
/// Revisions visited per lock acquisition while catching up.
const CATCH_UP_VISITS_MAX: usize = 8192;

/// Watchers by prefix, so that a commit touches only those it concerns.
#[derive(Default)]
pub(crate) struct Hub {
    /// Watchers of prefixes that end in a slash, found by the slashes of a key.
    directories: HashMap<Arc<str>, Vec<Arc<Slot>>>,
    others: Vec<Arc<Slot>>,
    touched: Vec<Arc<Slot>>,
    closed: bool,
}

impl Hub {
    pub fn push(&mut self, event: &Event) {
        let key = &*event.kv.key;
        for (slash, _) in key.match_indices('/') {
            for slot in self.directories.get(&key[..=slash]).into_iter().flatten() {
                slot.push(event, &mut self.touched);
            }
        }
        for slot in self.others.iter().filter(|slot| key.starts_with(&*slot.prefix)) {
            slot.push(event, &mut self.touched);
        }
    }

    /// The watchers to wake, without holding a lock.
    pub fn take_touched(&mut self) -> Vec<Arc<Slot>> {
        std::mem::take(&mut self.touched)
    }

    fn add(&mut self, slot: &Arc<Slot>) {
        if self.closed {
            slot.state.lock().mode = Mode::Ended;
        }
        match slot.prefix.ends_with('/') {
            true => self.directories.entry(slot.prefix.clone()).or_default().push(slot.clone()),
            false => self.others.push(slot.clone()),
        }
    }

    fn remove(&mut self, slot: &Arc<Slot>) {
        self.others.retain(|other| !Arc::ptr_eq(other, slot));
        if let Some(slots) = self.directories.get_mut(&slot.prefix) {
            slots.retain(|other| !Arc::ptr_eq(other, slot));
            if slots.is_empty() {
                self.directories.remove(&slot.prefix);
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        for slot in self.directories.values().flatten().chain(&self.others) {
            slot.end();
        }
    }
}

enum Mode {
    /// The next events are read from history, beginning with this revision.
    Behind(Revision),
    /// The next events are in the queue.
    Fed,
    Ended,
}

struct SlotState {
    mode: Mode,
    queue: VecDeque<Event>,
    waker: Option<Waker>,
    progress_requested: bool,
    /// The revision of the batch the reader is processing.
    in_hand: Option<Revision>,
    applied: Revision,
}

/// One watcher as the hub and the progress handles see it.
pub(crate) struct Slot {
    prefix: Arc<str>,
    from: Revision,
    state: Mutex<SlotState>,
    moved: Notify,
}

impl Slot {
    fn push(self: &Arc<Self>, event: &Event, touched: &mut Vec<Arc<Slot>>) {
        if event.kv.mod_revision < self.from {
            return;
        }
        let mut state = self.state.lock();
        if !matches!(state.mode, Mode::Fed) {
            return;
        }
        if state.queue.len() == QUEUE_EVENTS_MAX {
            let oldest = state.queue.front().map_or(event.kv.mod_revision, |oldest| oldest.kv.mod_revision);
            state.queue = VecDeque::new();
            state.mode = Mode::Behind(oldest);
        } else {
            state.queue.push_back(event.clone());
        }
        if state.waker.is_some() {
            drop(state);
            touched.push(self.clone());
        }
    }

    pub fn wake(&self) {
        if let Some(waker) = self.state.lock().waker.take() {
            waker.wake();
        }
    }

    fn end(&self) {
        self.state.lock().mode = Mode::Ended;
        self.wake();
        self.moved.notify_waiters();
    }
}

/// The reading end behind [`crate::WatchStream`].
pub(crate) struct LocalWatch {
    local: Arc<Local>,
    slot: Arc<Slot>,
}

impl Local {
    /// Starts a watch; see [`crate::Store::watch`].
    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, from: Revision) -> Result<LocalWatch> {
        let index = self.index.read();
        if from <= index.compacted() {
            return Err(Error::Compacted { requested: from, compacted: index.compacted() });
        }
        let slot = Arc::new(Slot {
            prefix: prefix.into(),
            from,
            state: Mutex::new(SlotState {
                mode: if from > index.revision() { Mode::Fed } else { Mode::Behind(from) },
                queue: VecDeque::new(),
                waker: None,
                // The first batch arrives at once and carries the current revision.
                progress_requested: true,
                in_hand: None,
                applied: from.saturating_sub(1).min(index.revision()),
            }),
            moved: Notify::new(),
        });
        self.hub.lock().add(&slot);
        Ok(LocalWatch { local: self.clone(), slot })
    }

    /// Ends all watches, now and later.
    pub(crate) fn close_watches(&self) {
        self.hub.lock().close();
    }

    pub(crate) fn published(&self) -> watch::Receiver<Revision> {
        self.published.subscribe()
    }
}

enum NextStep {
    Batch(WatchBatch),
    CatchUp(Revision),
    Wait,
    End,
}

impl LocalWatch {
    pub fn progress(&self) -> LocalProgress {
        LocalProgress { local: self.local.clone(), slot: self.slot.clone() }
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchBatch>>> {
        self.settle();
        loop {
            match self.step(cx) {
                NextStep::Batch(batch) => return Poll::Ready(Some(Ok(batch))),
                NextStep::Wait => return Poll::Pending,
                NextStep::End => return Poll::Ready(None),
                NextStep::CatchUp(next) => match self.catch_up(next) {
                    Ok(Some(batch)) => return Poll::Ready(Some(Ok(batch))),
                    Ok(None) => {}
                    Err(error) => {
                        self.slot.end();
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            }
        }
    }

    /// The reader polls again, so it has processed its last batch.
    fn settle(&self) {
        let mut state = self.slot.state.lock();
        if let Some(done) = state.in_hand.take() {
            state.applied = state.applied.max(done);
            drop(state);
            self.slot.moved.notify_waiters();
        }
    }

    fn step(&self, cx: &mut Context<'_>) -> NextStep {
        // Read before the queue: every event up to this revision is in the queue or was taken from it.
        let published = self.local.revision();
        let mut state = self.slot.state.lock();
        match state.mode {
            Mode::Ended => return NextStep::End,
            Mode::Behind(next) => return NextStep::CatchUp(next),
            Mode::Fed => {}
        }
        if state.queue.is_empty() && !state.progress_requested {
            state.waker = Some(cx.waker().clone());
            return NextStep::Wait;
        }
        state.progress_requested = false;
        let taken = state.queue.len().min(BATCH_EVENTS_MAX);
        let events: Vec<Event> = state.queue.drain(..taken).collect();
        let last = events.last().map_or(0, |event| event.kv.mod_revision);
        let revision = if state.queue.is_empty() { last.max(published) } else { last };
        state.in_hand = Some(revision);
        NextStep::Batch(WatchBatch { events, revision })
    }

    fn catch_up(&self, next: Revision) -> Result<Option<WatchBatch>> {
        // While the index is locked nothing is pushed, so switching from history to the queue is atomic.
        let index = self.local.index.read();
        if next <= index.compacted() {
            return Err(Error::Compacted { requested: next, compacted: index.compacted() });
        }
        let wanted = |key: &str| key.starts_with(&*self.slot.prefix);
        let (events, reached) = index.events(next, wanted, BATCH_EVENTS_MAX, CATCH_UP_VISITS_MAX);
        let mut state = self.slot.state.lock();
        if matches!(state.mode, Mode::Ended) {
            return Ok(None);
        }
        let done = reached > index.revision();
        state.mode = if done { Mode::Fed } else { Mode::Behind(reached) };
        let revision = reached - 1;
        if events.is_empty() {
            // No events to deliver: all visited revisions count as applied.
            state.applied = state.applied.max(revision);
            drop(state);
            self.slot.moved.notify_waiters();
            return Ok(None);
        }
        state.in_hand = Some(revision);
        Ok(Some(WatchBatch { events, revision }))
    }
}

impl Drop for LocalWatch {
    fn drop(&mut self) {
        self.local.hub.lock().remove(&self.slot);
        self.slot.end();
    }
}

/// Lets others wait for the reader of a watch.
#[derive(Clone)]
pub(crate) struct LocalProgress {
    local: Arc<Local>,
    slot: Arc<Slot>,
}

impl LocalProgress {
    pub fn applied(&self) -> Revision {
        let published = self.local.revision();
        let state = self.slot.state.lock();
        let quiet = matches!(state.mode, Mode::Fed) && state.queue.is_empty() && state.in_hand.is_none();
        if quiet { state.applied.max(published) } else { state.applied }
    }

    pub fn request(&self) {
        self.slot.state.lock().progress_requested = true;
        self.slot.wake();
    }

    pub async fn wait(&self, revision: Revision) -> Result<()> {
        let mut published = self.local.published();
        loop {
            let moved = self.slot.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.applied() >= revision {
                return Ok(());
            }
            if matches!(self.slot.state.lock().mode, Mode::Ended) {
                return Err(Error::Closed);
            }
            // Once the store has reached the revision only the reader counts, so writers need not wake the waiters.
            let ahead = revision > self.local.revision();
            tokio::select! {
                () = moved => {}
                _ = published.wait_for(|published| *published >= revision), if ahead => {}
            }
        }
    }
}
