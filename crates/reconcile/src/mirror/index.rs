//! Typed indexes of a mirror.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use object::Object;
use parking_lot::RwLock;

use crate::mirror::kept::Kept;
use crate::mirror::{Mirror, ObjectKey};

type Values<K> = Box<dyn Fn(&Object) -> Vec<K> + Send + Sync>;

/// The objects of a mirror by values of type `K`. The handle belongs to its mirror: another index or another mirror
/// cannot be asked by mistake. The index is maintained while a handle exists.
pub struct Index<K> {
    mirror: Mirror,
    table: Arc<Table<K>>,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { mirror: self.mirror.clone(), table: Arc::clone(&self.table) }
    }
}

impl<K: Eq + Hash> Index<K> {
    pub(super) fn new(mirror: Mirror, table: Arc<Table<K>>) -> Self {
        Self { mirror, table }
    }

    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// The objects with this value, ordered by namespace and name.
    pub fn list<Q>(&self, value: &Q) -> Vec<Arc<Object>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let kept: Vec<Kept> = {
            let store = self.mirror.shared.store.read();
            self.table.keys_of(value).iter().filter_map(|key| store.get(key)).collect()
        };
        kept.iter().map(Kept::object).collect()
    }

    /// The keys of the objects with this value, without decoding the objects.
    pub fn keys<Q>(&self, value: &Q) -> Vec<ObjectKey>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let _store = self.mirror.shared.store.read();
        self.table.keys_of(value)
    }
}

/// Keys by value. Changed only under the write lock of the store, so that it always matches the objects.
pub struct Table<K> {
    values: Values<K>,
    keys: RwLock<HashMap<K, BTreeSet<ObjectKey>>>,
}

/// A table of any type of values, as the store updates it.
pub trait AnyTable: Send + Sync {
    fn update(&self, key: &ObjectKey, before: Option<&Object>, now: Option<&Object>);
}

impl<K: Eq + Hash> Table<K> {
    pub fn new(values: impl Fn(&Object) -> Vec<K> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { values: Box::new(values), keys: RwLock::default() })
    }

    #[cfg(test)]
    pub fn has(&self, value: &K, key: &ObjectKey) -> bool {
        self.keys.read().get(value).is_some_and(|keys| keys.contains(key))
    }

    fn keys_of<Q>(&self, value: &Q) -> Vec<ObjectKey>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.keys.read().get(value).into_iter().flatten().cloned().collect()
    }
}

impl<K: Eq + Hash + Send + Sync> AnyTable for Table<K> {
    fn update(&self, key: &ObjectKey, before: Option<&Object>, now: Option<&Object>) {
        let mut table = self.keys.write();
        for value in before.map(&self.values).unwrap_or_default() {
            if let Some(keys) = table.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    table.remove(&value);
                }
            }
        }
        for value in now.map(&self.values).unwrap_or_default() {
            table.entry(value).or_default().insert(key.clone());
        }
    }
}
