//! The objects of a mirror, their indexes and subscribers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use cluster_client::Origin;
use object::Object;
use packing::Dictionary;

use crate::mirror::ObjectKey;
use crate::mirror::history::{History, RecordedChange};
use crate::mirror::index::AnyTable;
use crate::mirror::kept::{Kept, Known, Listed, MirrorSize, number};
use crate::mirror::own_writes::{Answer, OwnWrites, Shown};
use crate::mirror::subscription::Subscriber;

pub struct Store {
    /// As readers see them: the state of the watch, and own writes it has not shown yet.
    objects: BTreeMap<ObjectKey, Kept>,
    own_writes: OwnWrites,
    /// Memory of the objects, if it is counted.
    bytes: usize,
    is_counted: bool,
    /// Dictionary for packing objects; without it they are kept as trees.
    dictionary: Option<Arc<Dictionary>>,
    indexes: Vec<Weak<dyn AnyTable>>,
    subscribers: Vec<Weak<Subscriber>>,
    /// The version of the API this state matches; empty before the first list.
    version: String,
    history: Option<History>,
    is_closed: bool,
}

impl Store {
    pub fn new(dictionary: Option<Arc<Dictionary>>, has_history: bool) -> Self {
        Self {
            objects: BTreeMap::new(),
            own_writes: OwnWrites::default(),
            bytes: 0,
            is_counted: false,
            dictionary,
            indexes: Vec::new(),
            subscribers: Vec::new(),
            version: String::new(),
            history: has_history.then(History::default),
            is_closed: false,
        }
    }

    /// Fills a table with the existing objects and maintains it from now on.
    pub fn add_index(&mut self, table: Weak<dyn AnyTable>) {
        if let Some(table) = table.upgrade() {
            self.objects.iter().for_each(|(key, kept)| table.update(key, None, Some(&kept.object())));
        }
        self.indexes.push(table);
    }

    /// Existing objects, and a place for later changes.
    pub fn subscribe(&mut self, subscriber: &Arc<Subscriber>) -> impl Iterator<Item = (&ObjectKey, &Kept)> {
        self.subscribers.push(Arc::downgrade(subscriber));
        self.objects.iter()
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
        self.within(namespace).map(|(_, kept)| kept.clone()).collect()
    }

    pub fn keys_within(&self, namespace: &str) -> Vec<ObjectKey> {
        self.within(namespace).map(|(key, _)| key.clone()).collect()
    }

    fn within<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Kept)> {
        let start = ObjectKey::new(namespace, "");
        self.objects.range(start..).take_while(move |(key, _)| key.namespace == namespace)
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

    /// Takes the newest state of an object from the watch.
    pub fn put(&mut self, object: Arc<Object>, origin: Option<Arc<dyn Origin>>) {
        let version = object.resource_version().to_owned();
        let key = ObjectKey::of(&object);
        let kept = Kept::new(&object, self.dictionary.as_deref(), origin);
        self.show(&key, Some(Known { kept, tree: object }), &version);
        self.advance(&version, &[key]);
    }

    /// Takes a deletion from the watch.
    pub fn remove(&mut self, key: &ObjectKey, version: &str) {
        self.show(key, None, version);
        self.advance(version, std::slice::from_ref(key));
    }

    /// Advances the version without a change.
    pub fn reach(&mut self, version: &str) {
        self.advance(version, &[]);
    }

    /// Replaces the content with a full list: objects not in it were deleted.
    pub fn replace(&mut self, objects: Vec<Listed>, version: &str) {
        if number(version) < number(&self.version) {
            // The API was restored from a backup: what was written since does not exist.
            self.own_writes.clear();
        }
        let listed: BTreeSet<ObjectKey> = objects.iter().map(Listed::key).collect();
        let known = self.objects.keys().chain(self.own_writes.keys());
        let gone: BTreeSet<ObjectKey> = known.filter(|key| !listed.contains(key)).cloned().collect();
        if let Some(history) = &mut self.history {
            history.read_at(number(version), self.version.is_empty());
        }
        for key in gone {
            self.show(&key, None, version);
        }
        for object in objects {
            let known = match object {
                Listed::Tree(tree, origin) => {
                    Known { kept: Kept::new(&tree, self.dictionary.as_deref(), origin), tree }
                }
                Listed::Kept(_, kept) => Known::from(kept),
            };
            self.show(&ObjectKey::of(&known.tree), Some(known), version);
        }
        let noted: Vec<ObjectKey> = self.own_writes.keys().cloned().collect();
        self.advance(version, &noted);
    }

    /// Shows the answer of a write until the watch has caught up with it. `written` is `None` if the object is gone, or is
    /// none that is mirrored.
    pub fn note(&mut self, key: &ObjectKey, answer: Answer<'_>, written: Option<Arc<Object>>) {
        let is_news = self.own_writes.is_news(key, answer).unwrap_or_else(|| {
            // Without a note the watch is believed, unless it has not reached the write or still shows the deleted uid.
            let shows_uid = || self.objects.get(key).is_some_and(|kept| kept.object().uid() == answer.uid);
            number(&self.version) < answer.version || (answer.is_deletion && shows_uid())
        });
        if !is_news {
            return;
        }
        let before = self.objects.get(key).cloned().map(Known::from);
        self.own_writes.note(key, answer, before.as_ref().map(Shown::from));
        let version = self.version.clone();
        let now = written.map(|tree| Known { kept: Kept::Tree(Arc::clone(&tree)), tree });
        self.change(key, before, now, &version);
        while let Some((key, shown)) = self.own_writes.drop_excess() {
            self.settle(&key, shown, &version);
        }
    }

    /// The number of own writes that the watch has not shown.
    pub fn own_writes(&self) -> usize {
        self.own_writes.len()
    }

    /// Takes the state of an object from the watch; an own write that is newer stays visible.
    fn show(&mut self, key: &ObjectKey, now: Option<Known>, version: &str) {
        if self.own_writes.has(key) {
            return self.own_writes.show(key, now.as_ref().map(Shown::from));
        }
        let before = self.objects.get(key).cloned().map(Known::from);
        self.change(key, before, now, version);
    }

    fn advance(&mut self, version: &str, changed: &[ObjectKey]) {
        version.clone_into(&mut self.version);
        if self.own_writes.len() > 0 {
            for key in self.own_writes.due(number(version), changed) {
                if let Some(shown) = self.own_writes.end(&key) {
                    self.settle(&key, shown, version);
                }
            }
        }
        self.wake_followers();
    }

    /// Shows readers what the watch shows, after the end of an own write.
    fn settle(&mut self, key: &ObjectKey, shown: Option<Shown>, version: &str) {
        let before = self.objects.get(key).cloned().map(Known::from);
        let now = shown.map(|shown| match &before {
            // The watch shows what was written: no need to decode it.
            Some(Known { tree, .. }) if shown.version == number(tree.resource_version()) && shown.uid == tree.uid() => {
                Known { kept: shown.kept, tree: Arc::clone(tree) }
            }
            _ => Known::from(shown.kept),
        });
        self.change(key, before, now, version);
    }

    /// Changes what readers see of an object.
    fn change(&mut self, key: &ObjectKey, before: Option<Known>, now: Option<Known>, version: &str) {
        self.bytes += now.as_ref().map_or(0, |now| self.weight(&now.kept));
        let replaced = match &now {
            Some(now) => self.objects.insert(key.clone(), now.kept.clone()),
            None => self.objects.remove(key),
        };
        self.bytes = self.bytes.saturating_sub(replaced.map_or(0, |replaced| self.weight(&replaced)));
        if is_same(before.as_ref(), now.as_ref()) {
            return;
        }
        self.reindex(key, before.as_ref().map(|before| &*before.tree), now.as_ref().map(|now| &*now.tree));
        self.record(key, before.as_ref(), now.as_ref().map(|now| &now.kept), version);
        self.notify(key, before.as_ref(), now.as_ref());
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
            subscriber.close();
        }
    }

    fn reindex(&mut self, key: &ObjectKey, before: Option<&Object>, now: Option<&Object>) {
        self.indexes.retain(|weak| {
            let Some(table) = weak.upgrade() else { return false };
            table.update(key, before, now);
            true
        });
    }

    fn notify(&mut self, key: &ObjectKey, before: Option<&Known>, now: Option<&Known>) {
        self.subscribers.retain(|weak| {
            let Some(subscriber) = weak.upgrade() else { return false };
            subscriber.record(key, before, now);
            true
        });
    }
}

/// The same version again changes nothing, though it may be kept in another form.
fn is_same(before: Option<&Known>, now: Option<&Known>) -> bool {
    match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => {
            let version = before.tree.resource_version();
            !version.is_empty() && version == now.tree.resource_version() && before.tree.uid() == now.tree.uid()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
