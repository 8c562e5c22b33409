//! The objects of a mirror, their indexes and who wants to hear of changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use object::Object;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::mirror::{IndexFn, ObjectKey};

pub struct Store {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    indexes: Vec<Index>,
    subscribers: Vec<Weak<Subscriber>>,
    is_closed: bool,
}

struct Index {
    name: &'static str,
    values: IndexFn,
    keys: HashMap<String, BTreeSet<ObjectKey>>,
}

/// What became of one object since a subscriber last heard of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub key: ObjectKey,
    /// As the subscriber knew it; `None` when it is new to it.
    pub before: Option<Arc<Object>>,
    /// As it was when the change was recorded; `None` when it is gone.
    pub now: Option<Arc<Object>>,
    /// It was there when the subscription began: nothing happened to it.
    pub is_initial: bool,
}

/// Changes still to be read, one per object at most: its size is bounded by what it tells of.
pub struct Subscription {
    subscriber: Arc<Subscriber>,
}

#[derive(Default)]
struct Subscriber {
    pending: Mutex<Pending>,
    wake: Notify,
}

#[derive(Default)]
struct Pending {
    changes: BTreeMap<ObjectKey, Change>,
    is_closed: bool,
}

impl Store {
    pub fn new(indexes: &[(&'static str, IndexFn)]) -> Self {
        let indexes = indexes.iter().map(|(name, values)| Index { name, values: *values, keys: HashMap::new() });
        Self { objects: BTreeMap::new(), indexes: indexes.collect(), subscribers: Vec::new(), is_closed: false }
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(key).cloned()
    }

    pub fn list(&self) -> Vec<Arc<Object>> {
        self.objects.values().cloned().collect()
    }

    pub fn list_within(&self, namespace: &str) -> Vec<Arc<Object>> {
        let start = ObjectKey::new(namespace, "");
        let within = self.objects.range(start..).take_while(|(key, _)| key.namespace == namespace);
        within.map(|(_, object)| Arc::clone(object)).collect()
    }

    pub fn list_by(&self, index: &'static str, value: &str) -> Vec<Arc<Object>> {
        let index = self.indexes.iter().find(|i| i.name == index).expect("the mirror was given this index");
        let keys = index.keys.get(value).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Takes in the newest state of an object. The same version again changes nothing.
    pub fn put(&mut self, object: Arc<Object>) {
        let key = ObjectKey::of(&object);
        let before = self.objects.get(&key).cloned();
        let is_known = |old: &Arc<Object>| {
            !old.resource_version().is_empty()
                && old.resource_version() == object.resource_version()
                && old.uid() == object.uid()
        };
        if before.as_ref().is_some_and(is_known) {
            return;
        }
        self.reindex(&key, before.as_deref(), Some(&object));
        self.objects.insert(key.clone(), Arc::clone(&object));
        self.tell(&key, before, Some(object));
    }

    pub fn remove(&mut self, key: &ObjectKey) {
        let Some(before) = self.objects.remove(key) else { return };
        self.reindex(key, Some(&before), None);
        self.tell(key, Some(before), None);
    }

    /// Makes the store what a list says: what is not in it is gone.
    pub fn replace(&mut self, objects: Vec<Arc<Object>>) {
        let listed: BTreeSet<ObjectKey> = objects.iter().map(|object| ObjectKey::of(object)).collect();
        let gone: Vec<ObjectKey> = self.objects.keys().filter(|key| !listed.contains(key)).cloned().collect();
        for key in gone {
            self.remove(&key);
        }
        for object in objects {
            self.put(object);
        }
    }

    /// No more changes will come.
    pub fn close(&mut self) {
        self.is_closed = true;
        for subscriber in self.subscribers.drain(..).filter_map(|weak| weak.upgrade()) {
            subscriber.pending.lock().is_closed = true;
            subscriber.wake.notify_one();
        }
    }

    fn reindex(&mut self, key: &ObjectKey, before: Option<&Object>, now: Option<&Object>) {
        for index in &mut self.indexes {
            for value in before.map(index.values).unwrap_or_default() {
                if let Some(keys) = index.keys.get_mut(&value) {
                    keys.remove(key);
                    if keys.is_empty() {
                        index.keys.remove(&value);
                    }
                }
            }
            for value in now.map(index.values).unwrap_or_default() {
                index.keys.entry(value).or_default().insert(key.clone());
            }
        }
    }

    fn tell(&mut self, key: &ObjectKey, before: Option<Arc<Object>>, now: Option<Arc<Object>>) {
        self.subscribers.retain(|weak| {
            let Some(subscriber) = weak.upgrade() else { return false };
            subscriber.record(key, before.clone(), now.clone());
            true
        });
    }
}

impl Subscriber {
    fn record(&self, key: &ObjectKey, before: Option<Arc<Object>>, now: Option<Arc<Object>>) {
        let mut pending = self.pending.lock();
        match pending.changes.get_mut(key) {
            // What it was before stays what the reader last knew.
            Some(change) => {
                change.now = now;
                change.is_initial = false;
            }
            None => {
                let change = Change { key: key.clone(), before, now, is_initial: false };
                pending.changes.insert(key.clone(), change);
            }
        }
        drop(pending);
        self.wake.notify_one();
    }
}

impl Subscription {
    pub fn new(store: &mut Store) -> Self {
        let subscriber = Arc::new(Subscriber::default());
        {
            let mut pending = subscriber.pending.lock();
            pending.is_closed = store.is_closed;
            for (key, object) in &store.objects {
                let now = Some(Arc::clone(object));
                pending.changes.insert(key.clone(), Change { key: key.clone(), before: None, now, is_initial: true });
            }
        }
        store.subscribers.push(Arc::downgrade(&subscriber));
        Self { subscriber }
    }

    /// The next change; `None` once the mirror has ended and all was read.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            {
                let mut pending = self.subscriber.pending.lock();
                if let Some((_, change)) = pending.changes.pop_first() {
                    return Some(change);
                }
                if pending.is_closed {
                    return None;
                }
            }
            // A permit is kept for a wake that comes before this wait.
            self.subscriber.wake.notified().await;
        }
    }
}
