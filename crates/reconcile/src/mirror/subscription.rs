//! Subscribers of a mirror: at most one unread change per object.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Object;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::mirror::ObjectKey;
use crate::mirror::kept::{Kept, Known};
use crate::mirror::store::Store;

/// Pending changes that hold decoded objects; beyond this they hold the stored form, to save memory.
const TREES_WAITING_MAX: usize = 64;

/// The change of one object since a subscriber last read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub key: ObjectKey,
    /// The object as last read; `None` if it is new to the subscriber.
    pub before: Option<Arc<Object>>,
    /// The object when the change was recorded; `None` if it was deleted.
    pub now: Option<Arc<Object>>,
    /// It existed when the subscription began and has not changed.
    pub is_initial: bool,
}

/// Unread changes, at most one per object, so its size is bounded by the number of objects.
pub struct Subscription {
    subscriber: Arc<Subscriber>,
}

#[derive(Default)]
pub struct Subscriber {
    pending: Mutex<Pending>,
    wake: Notify,
}

/// An unread change. Packed objects stay packed until it is read.
struct PendingChange {
    before: Option<Kept>,
    now: Option<Kept>,
    is_initial: bool,
}

#[derive(Default)]
struct Pending {
    changes: BTreeMap<ObjectKey, PendingChange>,
    is_closed: bool,
}

impl Subscriber {
    pub fn record(&self, key: &ObjectKey, before: Option<&Known>, now: Option<&Known>) {
        let mut pending = self.pending.lock();
        let is_short = pending.changes.len() < TREES_WAITING_MAX;
        let waiting = |known: &Known| if is_short { Kept::Tree(Arc::clone(&known.tree)) } else { known.kept.clone() };
        let now = now.map(waiting);
        match pending.changes.get_mut(key) {
            // `before` stays the state the reader last saw.
            Some(change) => {
                change.now = now;
                change.is_initial = false;
            }
            None => {
                let before = before.map(waiting);
                pending.changes.insert(key.clone(), PendingChange { before, now, is_initial: false });
            }
        }
        drop(pending);
        self.wake.notify_one();
    }

    /// No more changes will come.
    pub fn close(&self) {
        self.pending.lock().is_closed = true;
        self.wake.notify_one();
    }
}

impl PendingChange {
    fn into_change(self, key: ObjectKey) -> Change {
        let tree = |kept: Option<Kept>| kept.map(|kept| kept.object());
        Change { key, before: tree(self.before), now: tree(self.now), is_initial: self.is_initial }
    }
}

impl Subscription {
    pub fn new(store: &mut Store) -> Self {
        let subscriber = Arc::new(Subscriber::default());
        {
            let mut pending = subscriber.pending.lock();
            pending.is_closed = store.is_closed();
            for (key, kept) in store.subscribe(&subscriber) {
                let waiting = PendingChange { before: None, now: Some(kept.clone()), is_initial: true };
                pending.changes.insert(key.clone(), waiting);
            }
        }
        Self { subscriber }
    }

    /// Without the existing objects; their keys are returned.
    pub fn of_changes(store: &mut Store) -> (Vec<ObjectKey>, Self) {
        let subscriber = Arc::new(Subscriber::default());
        subscriber.pending.lock().is_closed = store.is_closed();
        let keys = store.subscribe(&subscriber).map(|(key, _)| key.clone()).collect();
        (keys, Self { subscriber })
    }

    /// The next change; `None` once the mirror has ended and all was read.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            {
                let mut pending = self.subscriber.pending.lock();
                if let Some((key, waiting)) = pending.changes.pop_first() {
                    drop(pending);
                    return Some(waiting.into_change(key));
                }
                if pending.is_closed {
                    return None;
                }
            }
            // `notify_one` stores a permit if it happens before this wait.
            self.subscriber.wake.notified().await;
        }
    }
}
