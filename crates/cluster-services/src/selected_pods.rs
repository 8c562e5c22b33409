//! The pods selected by each owner (Services, disruption budgets, autoscalers), updated incrementally.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use object::Object;
use object::selector::LabelSelector;
use parking_lot::Mutex;
use reconcile::{Change, Mirror, ObjectKey};

/// Extracts the relevant fields of a pod; `None` if the pod is irrelevant.
pub type ReadFn<T> = fn(&Object) -> Option<T>;

/// Owners of selectors with the extracted fields of the pods they select.
pub struct SelectedPods<T> {
    read: ReadFn<T>,
    namespaces: Mutex<HashMap<String, HashMap<String, SelectorPods<T>>>>,
}

struct SelectorPods<T> {
    selector: LabelSelector,
    pods: BTreeMap<String, Arc<T>>,
}

impl<T: PartialEq> SelectedPods<T> {
    pub fn new(read: ReadFn<T>) -> Self {
        Self { read, namespaces: Mutex::default() }
    }

    /// Sets the selector of an owner. Only a changed selector scans the pods of its namespace.
    pub fn set_selector(&self, owner: &ObjectKey, selector: LabelSelector, pods: &Mirror) {
        // Held during the scan, so that a pod deleted meanwhile is not added again.
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
        owners.insert(owner.name.clone(), SelectorPods { selector, pods: there });
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

    /// Updates a pod and returns the owners affected by the change.
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

    /// Returns the extracted fields of the owner's pods, by name.
    pub fn of(&self, owner: &ObjectKey) -> Vec<Arc<T>> {
        let namespaces = self.namespaces.lock();
        let selected = namespaces.get(&owner.namespace).and_then(|owners| owners.get(&owner.name));
        selected.map(|selected| selected.pods.values().cloned().collect()).unwrap_or_default()
    }
}
