//! The scheduler's view of the cluster: the state from the API plus assumed pods.

use std::collections::HashMap;

use object::Object;
use placement::{Cluster, Pod};
use reconcile::{Change, ObjectKey};

use crate::scheduling::queue::UnblockingEvent;

#[derive(Default)]
pub struct SchedulerState {
    pub cluster: Cluster,
    /// Uids of pods that are being bound. Bounded by the concurrent bindings plus those the mirror does not show yet.
    assumed: HashMap<ObjectKey, String>,
}

impl SchedulerState {
    pub fn is_assumed(&self, key: &ObjectKey, uid: &str) -> bool {
        self.assumed.get(key).is_some_and(|known| known == uid)
    }

    pub fn assume(&mut self, key: &ObjectKey, pod: &Pod, node: &str) {
        self.cluster.withdraw_nomination(&key.namespace, &key.name);
        self.cluster.set_pod_on(pod, node);
        self.assumed.insert(key.clone(), pod.uid.to_string());
    }

    /// Reverts an assumed pod after a failed binding, unless the API has shown it meanwhile.
    pub fn retract(&mut self, key: &ObjectKey, uid: &str) -> bool {
        if !self.is_assumed(key, uid) {
            return false;
        }
        self.assumed.remove(key);
        self.cluster.remove_pod(&key.namespace, &key.name);
        true
    }

    /// Updates the state of a pod; returns the event for unschedulable pods.
    pub fn pod_changed(&mut self, change: &Change) -> Option<UnblockingEvent> {
        let key = &change.key;
        let Some(pod) = &change.now else {
            self.assumed.remove(key);
            self.cluster.withdraw_nomination(&key.namespace, &key.name);
            return self.cluster.remove_pod(&key.namespace, &key.name).then_some(UnblockingEvent::PodLeft);
        };
        if has_ended(pod) {
            self.assumed.remove(key);
            self.cluster.withdraw_nomination(&key.namespace, &key.name);
            return self.cluster.remove_pod(&key.namespace, &key.name).then_some(UnblockingEvent::PodLeft);
        }
        if pod.str_at(&["spec", "nodeName"]).is_empty() {
            return self.unbound_changed(key, pod);
        }
        self.assumed.remove(key);
        let is_known = self.cluster.placed_uid(&key.namespace, &key.name) == Some(pod.uid());
        let is_same = change.before.as_ref().is_some_and(|before| is_same_here(before, pod));
        if is_known && is_same {
            return None;
        }
        self.cluster.withdraw_nomination(&key.namespace, &key.name);
        self.cluster.set_pod(&Pod::read(pod));
        Some(UnblockingEvent::PodCame)
    }

    fn unbound_changed(&mut self, key: &ObjectKey, pod: &Object) -> Option<UnblockingEvent> {
        if self.is_assumed(key, pod.uid()) {
            return None;
        }
        // A pod of the same name was on a node, and this one is another.
        let left = self.cluster.remove_pod(&key.namespace, &key.name);
        let node = pod.str_at(&["status", "nominatedNodeName"]);
        match node.is_empty() || pod.is_deleting() {
            true => self.cluster.withdraw_nomination(&key.namespace, &key.name),
            false => self.cluster.nominate(&Pod::read(pod), node),
        }
        left.then_some(UnblockingEvent::PodLeft)
    }
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Reports whether no field relevant for placement changed, as for most updates of a running pod.
fn is_same_here(before: &Object, now: &Object) -> bool {
    before.uid() == now.uid()
        && before.is_deleting() == now.is_deleting()
        && !now.is_deleting()
        && before.get(&["spec"]) == now.get(&["spec"])
        && before.get(&["metadata", "labels"]) == now.get(&["metadata", "labels"])
        && before.get(&["metadata", "ownerReferences"]) == now.get(&["metadata", "ownerReferences"])
        && before.get(&["status", "startTime"]) == now.get(&["status", "startTime"])
}
