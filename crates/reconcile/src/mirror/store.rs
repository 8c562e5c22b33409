//! The objects of a mirror, their indexes and subscribers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use cluster_client::Origin;
use object::Object;
use packing::{Dictionary, Packed};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::mirror::history::{History, RecordedChange};
use crate::mirror::{IndexFn, ObjectKey};

/// Pending changes that hold decoded objects; beyond this they hold the stored form, to save memory.
const TREES_WAITING_MAX: usize = 64;

pub struct Store {
    objects: BTreeMap<ObjectKey, Kept>,
    /// Memory of the objects, if it is counted.
    bytes: usize,
    is_counted: bool,
    /// Dictionary for packing objects; without it they are kept as trees.
    dictionary: Option<Arc<Dictionary>>,
    indexes: Vec<Index>,
    subscribers: Vec<Weak<Subscriber>>,
    /// The version of the API this state matches; empty before the first list.
    version: String,
    history: Option<History>,
    is_closed: bool,
}

/// An object in stored form.
#[derive(Clone)]
pub enum Kept {
    Tree(Arc<Object>),
    /// Its encoding, a fraction of the tree's size; the tree itself while someone else holds it.
    Packed(Packed, Weak<Object>),
    /// Shared with the API server in this process, which has it encoded anyway.
    Held(Arc<dyn Origin>),
}

impl Kept {
    fn new(object: &Arc<Object>, dictionary: Option<&Dictionary>, origin: Option<Arc<dyn Origin>>) -> Self {
        match (dictionary, origin) {
            (None, _) => Self::Tree(Arc::clone(object)),
            (Some(_), Some(origin)) => Self::Held(origin),
            (Some(dictionary), None) => Self::packed(object, dictionary),
        }
    }

    pub fn packed(object: &Arc<Object>, dictionary: &Dictionary) -> Self {
        Self::Packed(dictionary.pack(object.encode()), Arc::downgrade(object))
    }

    pub fn object(&self) -> Arc<Object> {
        match self {
            Self::Tree(object) => Arc::clone(object),
            Self::Held(origin) => origin.object(),
            Self::Packed(packed, tree) => tree
                .upgrade()
                .unwrap_or_else(|| Arc::new(Object::decode(&packed.unpack()).expect("encoded from an object"))),
        }
    }

    /// Its share of a mirror's limit. Memory held by the API in this process does not count.
    fn weight(&self) -> usize {
        match self {
            Self::Packed(packed, _) => packed.size(),
            Self::Tree(object) => weight(object),
            Self::Held(_) => 0,
        }
    }

    /// Its JSON.
    pub fn encoded(&self) -> Bytes {
        match self {
            Self::Packed(packed, _) => packed.unpack(),
            Self::Tree(_) | Self::Held(_) => self.object().encode(),
        }
    }

    /// Bytes it takes, not counting shared ones.
    pub fn size(&self) -> usize {
        match self {
            Self::Packed(packed, _) => packed.size(),
            Self::Tree(_) | Self::Held(_) => 0,
        }
    }
}

/// An object of a list.
pub enum Listed {
    /// With its shared encoding in this process, if any.
    Tree(Arc<Object>, Option<Arc<dyn Origin>>),
    /// Packed on arrival, so that a long list is never in memory as trees.
    Kept(ObjectKey, Kept),
}

/// The objects a mirror holds, and about what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorSize {
    pub objects: usize,
    pub bytes: usize,
}

impl MirrorSize {
    pub fn add(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes += bytes;
    }

    pub fn remove(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// About what an object takes as a tree.
pub fn weight(object: &Object) -> usize {
    const NODE_BYTES: usize = 64;
    fn of(value: &Value) -> usize {
        NODE_BYTES
            + match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(of).sum(),
                Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + of(value)).sum(),
                _ => 0,
            }
    }
    object.as_map().iter().map(|(key, value)| key.len() + of(value)).sum()
}

impl Listed {
    /// The memory it takes, as far as that is the mirror's own.
    pub fn size(&self) -> usize {
        match self {
            Self::Tree(object, None) => weight(object),
            Self::Tree(_, Some(_)) => 0,
            Self::Kept(_, kept) => kept.size(),
        }
    }

    fn key(&self) -> ObjectKey {
        match self {
            Self::Tree(object, _) => ObjectKey::of(object),
            Self::Kept(key, _) => key.clone(),
        }
    }
}

/// A decoded object and its stored form.
struct Known {
    kept: Kept,
    tree: Arc<Object>,
}

impl From<Kept> for Known {
    fn from(kept: Kept) -> Self {
        Self { tree: kept.object(), kept }
    }
}

struct Index {
    name: &'static str,
    values: IndexFn,
    keys: HashMap<String, BTreeSet<ObjectKey>>,
}

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
struct Subscriber {
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

impl Store {
    pub fn new(indexes: &[(&'static str, IndexFn)], dictionary: Option<Arc<Dictionary>>, has_history: bool) -> Self {
        let indexes = indexes.iter().map(|(name, values)| Index { name, values: *values, keys: HashMap::new() });
        Self {
            objects: BTreeMap::new(),
            bytes: 0,
            is_counted: false,
            dictionary,
            indexes: indexes.collect(),
            subscribers: Vec::new(),
            version: String::new(),
            history: has_history.then(History::default),
            is_closed: false,
        }
    }

    /// The history. Panics if the mirror does not record one.
    pub fn history(&self) -> &History {
        self.history.as_ref().expect("the mirror records a history")
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Up to `count_max` objects after a key, in order.
    pub fn chunk(&self, namespace: &str, after: Option<&ObjectKey>, count_max: usize) -> Vec<(ObjectKey, Kept)> {
        let start = match after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Included(ObjectKey::new(namespace, "")),
        };
        let walk = self.objects.range((start, Bound::Unbounded));
        let within = walk.take_while(|(key, _)| namespace.is_empty() || key.namespace == namespace);
        within.take(count_max).map(|(key, kept)| (key.clone(), kept.clone())).collect()
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Kept> {
        self.objects.get(key).cloned()
    }

    pub fn list(&self) -> Vec<Kept> {
        self.objects.values().cloned().collect()
    }

    pub fn list_within(&self, namespace: &str) -> Vec<Kept> {
        let start = ObjectKey::new(namespace, "");
        let within = self.objects.range(start..).take_while(|(key, _)| key.namespace == namespace);
        within.map(|(_, kept)| kept.clone()).collect()
    }

    pub fn list_by(&self, index: &'static str, value: &str) -> Vec<Kept> {
        let index = self.indexes.iter().find(|i| i.name == index).expect("the mirror was given this index");
        let keys = index.keys.get(value).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Counts from now on what the objects take; there are none yet.
    pub fn count_bytes(mut self) -> Self {
        self.is_counted = true;
        self
    }

    fn weight(&self, kept: &Kept) -> usize {
        if self.is_counted { kept.weight() } else { 0 }
    }

    pub fn size(&self) -> MirrorSize {
        MirrorSize { objects: self.objects.len(), bytes: self.bytes }
    }

    pub fn has_key(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Takes in the newest state of an object.
    pub fn put(&mut self, object: Arc<Object>, origin: Option<Arc<dyn Origin>>) {
        let version = object.resource_version().to_owned();
        let kept = Kept::new(&object, self.dictionary.as_deref(), origin);
        self.put_kept(Known { kept, tree: object }, &version);
        self.reach(&version);
    }

    /// Advances the version without a change.
    pub fn reach(&mut self, version: &str) {
        version.clone_into(&mut self.version);
        self.wake_followers();
    }

    /// The same version again changes nothing.
    fn put_kept(&mut self, Known { kept, tree: object }: Known, version: &str) {
        let key = ObjectKey::of(&object);
        let before = self.objects.get(&key).cloned().map(Known::from);
        let is_known = |old: &Arc<Object>| {
            !old.resource_version().is_empty()
                && old.resource_version() == object.resource_version()
                && old.uid() == object.uid()
        };
        if before.as_ref().is_some_and(|before| is_known(&before.tree)) {
            return;
        }
        self.reindex(&key, before.as_ref().map(|before| &*before.tree), Some(&object));
        self.bytes += self.weight(&kept);
        if let Some(replaced) = self.objects.insert(key.clone(), kept.clone()) {
            self.bytes = self.bytes.saturating_sub(self.weight(&replaced));
        }
        self.record(&key, before.as_ref(), Some(&kept), version);
        self.tell(&key, before, Some(Known { kept, tree: object }));
    }

    pub fn remove(&mut self, key: &ObjectKey, version: &str) {
        self.remove_at(key, version);
        self.reach(version);
    }

    fn remove_at(&mut self, key: &ObjectKey, version: &str) {
        let Some(removed) = self.objects.remove(key) else { return };
        self.bytes = self.bytes.saturating_sub(self.weight(&removed));
        let before = Known::from(removed);
        self.reindex(key, Some(&before.tree), None);
        self.record(key, Some(&before), None, version);
        self.tell(key, Some(before), None);
    }

    /// Replaces the content with a full list: objects not in it were deleted.
    pub fn replace(&mut self, objects: Vec<Listed>, version: &str) {
        let listed: BTreeSet<ObjectKey> = objects.iter().map(Listed::key).collect();
        let gone: Vec<ObjectKey> = self.objects.keys().filter(|key| !listed.contains(key)).cloned().collect();
        if let Some(history) = &mut self.history {
            history.read_at(number(version), self.version.is_empty());
        }
        for key in gone {
            self.remove_at(&key, version);
        }
        for object in objects {
            let known = match object {
                Listed::Tree(tree, origin) => {
                    Known { kept: Kept::new(&tree, self.dictionary.as_deref(), origin), tree }
                }
                Listed::Kept(_, kept) => Known::from(kept),
            };
            self.put_kept(known, version);
        }
        self.reach(version);
    }

    /// The first list is not a change.
    fn record(&mut self, key: &ObjectKey, before: Option<&Known>, now: Option<&Kept>, version: &str) {
        let Some(history) = self.history.as_mut().filter(|_| !self.version.is_empty()) else { return };
        let before = before.map(|before| before.kept.clone());
        let step = RecordedChange { key: key.clone(), before, now: now.cloned(), version: number(version) };
        history.record(step, self.objects.len());
    }

    fn wake_followers(&self) {
        if let Some(history) = &self.history {
            history.wake();
        }
    }

    /// No more changes will come.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.wake_followers();
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

    fn tell(&mut self, key: &ObjectKey, before: Option<Known>, now: Option<Known>) {
        self.subscribers.retain(|weak| {
            let Some(subscriber) = weak.upgrade() else { return false };
            subscriber.record(key, before.as_ref(), now.as_ref());
            true
        });
    }
}

/// Versions of Kubernetes are numeric; any other one sorts before all of them.
pub fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl Subscriber {
    fn record(&self, key: &ObjectKey, before: Option<&Known>, now: Option<&Known>) {
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
}

impl PendingChange {
    fn told(self, key: ObjectKey) -> Change {
        let tree = |kept: Option<Kept>| kept.map(|kept| kept.object());
        Change { key, before: tree(self.before), now: tree(self.now), is_initial: self.is_initial }
    }
}

impl Subscription {
    pub fn new(store: &mut Store) -> Self {
        let subscriber = Arc::new(Subscriber::default());
        {
            let mut pending = subscriber.pending.lock();
            pending.is_closed = store.is_closed;
            for (key, kept) in &store.objects {
                let waiting = PendingChange { before: None, now: Some(kept.clone()), is_initial: true };
                pending.changes.insert(key.clone(), waiting);
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
                if let Some((key, waiting)) = pending.changes.pop_first() {
                    drop(pending);
                    return Some(waiting.told(key));
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
