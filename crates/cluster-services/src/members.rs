//! Which pods each selector means (of Services, of disruption budgets), kept current pod by pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use object::Object;
use object::selector::LabelSelector;
use parking_lot::Mutex;
use reconcile::{Change, Mirror, ObjectKey};

/// What is kept of a pod; `None` when the pod does not count at all.
pub type ReadFn<T> = fn(&Object) -> Option<T>;

/// Owners of selectors, and for each what is kept of the pods it selects.
pub struct Members<T> {
    read: ReadFn<T>,
    namespaces: Mutex<HashMap<String, HashMap<String, Selected<T>>>>,
}

struct Selected<T> {
    selector: LabelSelector,
    pods: BTreeMap<String, Arc<T>>,
}

impl<T: PartialEq> Members<T> {
    pub fn new(read: ReadFn<T>) -> Self {
        Self { read, namespaces: Mutex::default() }
    }

    /// Takes in the selector of an owner. Only a new selector makes the pods of its namespace be looked through.
    pub fn set_selector(&self, owner: &ObjectKey, selector: LabelSelector, pods: &Mirror) {
        // Held while pods are read, so that none that leaves meanwhile is put back.
        let mut namespaces = self.namespaces.lock();
        let owners = namespaces.entry(owner.namespace.clone()).or_default();
        if owners.get(&owner.name).is_some_and(|known| known.selector == selector) {
            return;
        }
        let mut there = BTreeMap::new();
        pods.each_within(&owner.namespace, |pod| {
            if let Some(kept) = Some(pod).filter(|pod| selector.matches(pod)).and_then(|pod| (self.read)(pod)) {
                there.insert(pod.name().to_owned(), Arc::new(kept));
            }
        });
        owners.insert(owner.name.clone(), Selected { selector, pods: there });
    }

    pub fn remove_selector(&self, owner: &ObjectKey) {
        let mut namespaces = self.namespaces.lock();
        if let Some(owners) = namespaces.get_mut(&owner.namespace) {
            owners.remove(&owner.name);
            if owners.is_empty() {
                namespaces.remove(&owner.namespace);
            }
        }
    }

    /// Takes in a pod and tells which owners see a difference.
    pub fn pod_changed(&self, change: &Change) -> Vec<ObjectKey> {
        let mut namespaces = self.namespaces.lock();
        let Some(owners) = namespaces.get_mut(&change.key.namespace) else { return Vec::new() };
        let now = change.now.as_ref().and_then(|pod| Some((pod, Arc::new((self.read)(pod)?))));
        let mut changed = Vec::new();
        for (name, selected) in owners.iter_mut() {
            let is_new = match &now {
                Some((pod, kept)) if selected.selector.matches(pod) => match selected.pods.get(&change.key.name) {
                    Some(old) if old == kept => false,
                    _ => {
                        selected.pods.insert(change.key.name.clone(), Arc::clone(kept));
                        true
                    }
                },
                _ => selected.pods.remove(&change.key.name).is_some(),
            };
            if is_new {
                changed.push(ObjectKey::new(&change.key.namespace, name));
            }
        }
        changed
    }

    pub fn count(&self, owner: &ObjectKey) -> usize {
        let namespaces = self.namespaces.lock();
        namespaces.get(&owner.namespace).and_then(|owners| owners.get(&owner.name)).map_or(0, |found| found.pods.len())
    }

    /// What is kept of the owner's pods, by name.
    pub fn of(&self, owner: &ObjectKey) -> Vec<Arc<T>> {
        let namespaces = self.namespaces.lock();
        let selected = namespaces.get(&owner.namespace).and_then(|owners| owners.get(&owner.name));
        selected.map(|selected| selected.pods.values().cloned().collect()).unwrap_or_default()
    }
}
