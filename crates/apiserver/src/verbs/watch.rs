//! Watches: from a revision, from the current state, or as a streaming list with a bookmark at its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use object::Status;
use rand::RngExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Target;
use super::list::check_fields;
use crate::cache::{Change, Watcher};
use crate::request::ListOptions;
use crate::server::Server;

/// Interval of bookmarks for watchers that request them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end of the watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Watches without a timeout end after this long, plus up to as much again so that they do not all end at once.
const DURATION_MIN: Duration = Duration::from_secs(1800);
/// Longer timeouts are cut to this; far larger ones overflow the clock.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// An event for a watcher.
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
    initial: VecDeque<Change>,
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

pub async fn watch(server: &Server, target: &Target, options: &ListOptions) -> Result<Watch, Status> {
    check_fields(target, options)?;
    let cache = &target.resource.cache;
    let filter = cache.filter(&target.namespace, options);
    let streaming = options.send_initial_events == Some(true);
    match options.resource_version {
        None if options.send_initial_events != Some(false) => cache.fresh().await?,
        None | Some(0) => cache.ready().await?,
        Some(revision) => cache.reach(revision).await?,
    }
    let with_state = streaming || (options.send_initial_events.is_none() && options.resource_version.unwrap_or(0) == 0);
    let mut refused = None;
    let (initial, watcher) = match options.resource_version {
        _ if with_state => {
            let (entries, watcher) = cache.state_and_watch(filter);
            (entries.into_iter().map(Change::added).collect(), watcher)
        }
        Some(revision) if revision > 0 => match cache.watch_after(filter.clone(), revision) {
            Ok(watcher) => (VecDeque::new(), watcher),
            // A watch that was admitted is refused by its first event, which is where clients look.
            Err(status) => {
                refused = Some(status);
                (VecDeque::new(), cache.watch_after(filter, cache.revision())?)
            }
        },
        _ => (VecDeque::new(), cache.watch_after(filter, cache.revision())?),
    };
    let now = Instant::now();
    let duration = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds).min(DURATION_MAX),
        _ => DURATION_MIN.mul_f64(rand::rng().random_range(1.0..2.0)),
    };
    Ok(Watch {
        initial,
        watcher,
        owes_initial_end: streaming && options.bookmarks,
        bookmarks: options.bookmarks,
        next_bookmark: first_bookmark(now, duration),
        ends: now + duration,
        stop: server.stop.clone(),
        refused,
        failed: false,
    })
}

/// Returns the time of the first bookmark, before the watch ends, so that the next watch can start from it.
fn first_bookmark(now: Instant, duration: Duration) -> Instant {
    let usual = BOOKMARK_EVERY.mul_f64(rand::rng().random_range(0.75..1.0));
    let before_end = duration.checked_sub(BOOKMARK_BEFORE_END).filter(|wait| !wait.is_zero());
    now + before_end.map_or(usual, |wait| wait.min(usual))
}

impl Watch {
    /// Returns the next events; `None` when the watch has ended.
    pub async fn next(&mut self) -> Option<Vec<WatchItem>> {
        if self.failed {
            return None;
        }
        if let Some(status) = self.refused.take() {
            self.failed = true;
            return Some(vec![WatchItem::Error(status)]);
        }
        if !self.initial.is_empty() {
            let count = self.initial.len().min(500);
            return Some(self.initial.drain(..count).map(WatchItem::Change).collect());
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

/// Keeps the compiler honest about what a watch holds on to: it must be able to move between threads.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Watch>();
    assert_send::<Arc<Target>>();
};
