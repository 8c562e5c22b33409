//! Watches: from a revision, from the current state, or as a streaming list with a bookmark at its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use object::Status;
use object::request::User;
use rand::RngExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Target;
use super::list::check_fields;
use crate::cache::{Change, Entry, Watcher};
use crate::limits::Backlog;
use crate::request::ListSelection;
use crate::respond::counted_bytes;
use crate::scope::ReadScope;

/// Interval of bookmarks to watchers that request them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end of the watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Watches without a timeout end after this long, plus up to as much again so that they do not all end at once.
const DURATION_MIN: Duration = Duration::from_secs(1800);
/// Longer timeouts are cut to this; far larger ones overflow the clock.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Bytes of objects in one batch of a watch; a batch has at least one object.
const BATCH_BYTES_MAX: usize = 32 << 10;

/// Objects of the initial state that a watcher has not received yet.
type InitialState = Arc<Backlog<VecDeque<Arc<Entry>>>>;

/// One item of a watch.
pub enum WatchItem {
    Change(Change),
    Bookmark {
        revision: u64,
        initial_events_end: bool,
    },
    /// Always the last.
    Error(Status),
}

/// A running watch. Call `next` until it returns `None`.
pub struct Watch {
    /// Objects of the initial state that are still to be sent; `None` when there are none.
    initial: Option<InitialState>,
    watcher: Watcher,
    /// A streaming list still owes the bookmark that ends its initial events.
    owes_initial_end: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    stop: CancellationToken,
    refused: Option<Status>,
    failed: bool,
}

/// Starts a watch of a caller in this process.
pub async fn watch(scope: ReadScope<'_>, target: &Target, selection: &ListSelection) -> Result<Watch, Status> {
    start(scope, None, target, selection).await
}

/// Starts a watch whose client may not read it: the initial state counts as the user's memory and is dropped when it
/// is not read in time.
pub async fn watch_counted(
    scope: ReadScope<'_>,
    user: &Arc<User>,
    target: &Target,
    selection: &ListSelection,
) -> Result<Watch, Status> {
    start(scope, Some(user), target, selection).await
}

async fn start(
    scope: ReadScope<'_>,
    counted_for: Option<&Arc<User>>,
    target: &Target,
    selection: &ListSelection,
) -> Result<Watch, Status> {
    let options = &selection.options;
    check_fields(target, &selection.fields)?;
    let cache = &target.resource.cache;
    let filter = target.resource.filter(&target.namespace, selection);
    let streaming = options.send_initial_events == Some(true);
    match selection.revision {
        None if options.send_initial_events != Some(false) => cache.fresh().await?,
        None | Some(0) => cache.ready().await?,
        Some(revision) => cache.reach(revision).await?,
    }
    let with_state = streaming || (options.send_initial_events.is_none() && selection.revision.unwrap_or(0) == 0);
    let mut refused = None;
    let (initial, watcher) = match selection.revision {
        _ if with_state => {
            let (entries, watcher) = cache.state_and_watch(filter);
            (entries, watcher)
        }
        Some(revision) if revision > 0 => match cache.watch_after(filter.clone(), revision) {
            Ok(watcher) => (Vec::new(), watcher),
            // A watch that was admitted is refused by its first event, which is where clients look.
            Err(status) => {
                refused = Some(status);
                (Vec::new(), cache.watch_after(filter, cache.revision())?)
            }
        },
        _ => (Vec::new(), cache.watch_after(filter, cache.revision())?),
    };
    let now = Instant::now();
    let duration = match options.timeout {
        Some(timeout) if !timeout.is_zero() => timeout.min(DURATION_MAX),
        _ => DURATION_MIN.mul_f64(rand::rng().random_range(1.0..2.0)),
    };
    Ok(Watch {
        initial: initial_backlog(scope, counted_for, initial)?,
        watcher,
        owes_initial_end: streaming && options.bookmarks,
        bookmarks: options.bookmarks,
        next_bookmark: first_bookmark(now, duration),
        ends: now + duration,
        stop: scope.stop.clone(),
        refused,
        failed: false,
    })
}

fn initial_backlog(
    scope: ReadScope<'_>,
    counted_for: Option<&Arc<User>>,
    entries: Vec<Arc<Entry>>,
) -> Result<Option<InitialState>, Status> {
    if entries.is_empty() {
        return Ok(None);
    }
    let Some(user) = counted_for else { return Ok(Some(Backlog::new(entries.into(), None))) };
    let counted = counted_bytes(entries.iter().map(|entry| entry.bytes()).sum());
    let reservation = counted.map(|bytes| scope.limits.reserve(user, bytes)).transpose()?;
    let is_counted = reservation.is_some();
    let backlog = Backlog::new(entries.into(), reservation);
    if is_counted {
        scope.limits.backlogs.watch_over(&backlog);
    }
    Ok(Some(backlog))
}

/// In good time before the watch ends, so that its successor starts from where this one was, or earlier.
fn first_bookmark(now: Instant, duration: Duration) -> Instant {
    let usual = BOOKMARK_EVERY.mul_f64(rand::rng().random_range(0.75..1.0));
    let before_end = duration.checked_sub(BOOKMARK_BEFORE_END).filter(|wait| !wait.is_zero());
    now + before_end.map_or(usual, |wait| wait.min(usual))
}

impl Watch {
    /// The next changes; `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Vec<WatchItem>> {
        if self.failed {
            return None;
        }
        if let Some(status) = self.refused.take() {
            self.failed = true;
            return Some(vec![WatchItem::Error(status)]);
        }
        if let Some(items) = self.next_initial() {
            return Some(items);
        }
        if self.owes_initial_end {
            self.owes_initial_end = false;
            let revision = self.watcher.revision();
            return Some(vec![WatchItem::Bookmark { revision, initial_events_end: true }]);
        }
        let stop = self.stop.clone();
        let bookmark_at = if self.bookmarks { self.next_bookmark } else { self.ends + BOOKMARK_EVERY };
        tokio::select! {
            biased;
            changes = self.watcher.next() => match changes {
                Ok(changes) => Some(changes.into_iter().map(WatchItem::Change).collect()),
                Err(status) => {
                    self.failed = true;
                    Some(vec![WatchItem::Error(status)])
                }
            },
            () = stop.cancelled() => None,
            () = tokio::time::sleep_until(self.ends) => None,
            () = tokio::time::sleep_until(bookmark_at) => {
                self.next_bookmark = self.bookmark_after(Instant::now());
                Some(self.bookmark())
            }
        }
    }

    /// A batch of the initial state; `None` after its end.
    fn next_initial(&mut self) -> Option<Vec<WatchItem>> {
        let Some(batch) = self.initial.as_ref()?.next(take_batch) else {
            self.failed = true;
            self.initial = None;
            return Some(vec![WatchItem::Error(Status::gone("the client did not read the initial state in time"))]);
        };
        if batch.is_empty() {
            self.initial = None;
            return None;
        }
        Some(batch.into_iter().map(|entry| WatchItem::Change(Change::added(entry))).collect())
    }

    fn bookmark_after(&self, now: Instant) -> Instant {
        let last = self.ends - BOOKMARK_BEFORE_END;
        let usual = now + BOOKMARK_EVERY;
        if now < last { usual.min(last) } else { usual }
    }

    /// Returns a bookmark, or changes that arrived before it.
    fn bookmark(&mut self) -> Vec<WatchItem> {
        match self.watcher.take() {
            Ok(changes) if changes.is_empty() => {
                vec![WatchItem::Bookmark { revision: self.watcher.revision(), initial_events_end: false }]
            }
            Ok(changes) => changes.into_iter().map(WatchItem::Change).collect(),
            Err(status) => {
                self.failed = true;
                vec![WatchItem::Error(status)]
            }
        }
    }
}

fn take_batch(entries: &mut VecDeque<Arc<Entry>>) -> Vec<Arc<Entry>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES_MAX {
        let Some(entry) = entries.pop_front() else { break };
        bytes += entry.bytes();
        batch.push(entry);
    }
    batch
}

/// Keeps the compiler honest about what a watch holds on to: it must be able to move between threads.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Watch>();
    assert_send::<Arc<Target>>();
};
