//! Overlays the mirror with writes of a controller that the mirror does not show yet.
//!
//! Without it a controller that is triggered before it observes its own pods would create them again. Kubernetes
//! counts expectations for this; here the API responses are kept until the mirror has caught up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use object::Object;
use parking_lot::Mutex;
use reconcile::ObjectKey;
use tokio::time::Instant;

use crate::owners;
use crate::pods::Pod;

/// A created pod that is not observed for this long may be deleted already, so the API is asked.
pub const DOUBT_AFTER: Duration = Duration::from_secs(5);
/// A deletion that is not observed for this long is repeated.
const DELETION_FORGOTTEN_AFTER: Duration = Duration::from_secs(30);
/// Delay per pod of an owner to batch its pod events: reading all pods of a large owner for every change would be
/// quadratic.
const PACE_PER_POD: Duration = Duration::from_micros(50);
const PACE_MAX: Duration = Duration::from_millis(500);

/// Pending writes by owner, dropped with the owner or once the mirror shows them.
#[derive(Default)]
pub struct OwnPodWrites {
    owners: Mutex<HashMap<ObjectKey, OwnerWrites>>,
}

#[derive(Default)]
struct OwnerWrites {
    written: BTreeMap<ObjectKey, WrittenPod>,
    /// By uid.
    deleted: HashMap<String, Instant>,
    /// The owner itself as it was last written.
    owner: Option<Arc<Object>>,
    pods: usize,
}

struct WrittenPod {
    object: Arc<Object>,
    is_new: bool,
    at: Instant,
}

/// The known pods of an owner.
#[derive(Default)]
pub struct PodView {
    pub pods: Vec<Pod>,
    /// Created long ago and never observed.
    pub doubtful: Vec<ObjectKey>,
    /// Some writes are not observed yet.
    pub is_ahead: bool,
}

impl OwnPodWrites {
    pub fn created(&self, owner: &ObjectKey, object: Arc<Object>) {
        self.put(owner, object, true);
    }

    pub fn changed(&self, owner: &ObjectKey, object: Arc<Object>) {
        self.put(owner, object, false);
    }

    fn put(&self, owner: &ObjectKey, object: Arc<Object>, is_new: bool) {
        let mut owners = self.owners.lock();
        let ledger = owners.entry(owner.clone()).or_default();
        let key = ObjectKey::of(&object);
        let is_new = is_new || ledger.written.get(&key).is_some_and(|written| written.is_new);
        ledger.written.insert(key, WrittenPod { object, is_new, at: Instant::now() });
    }

    pub fn deleted(&self, owner: &ObjectKey, uid: &str) {
        let mut owners = self.owners.lock();
        owners.entry(owner.clone()).or_default().deleted.insert(uid.to_owned(), Instant::now());
    }

    /// Records a write of the owner itself.
    pub fn wrote_owner(&self, owner: Arc<Object>) {
        let key = ObjectKey::of(&owner);
        self.owners.lock().entry(key).or_default().owner = Some(owner);
    }

    /// Returns the newer of the observed and the written owner.
    pub fn newest_owner(&self, seen: Arc<Object>) -> Arc<Object> {
        let mut owners = self.owners.lock();
        let Some(ledger) = owners.get_mut(&ObjectKey::of(&seen)) else { return seen };
        match &ledger.owner {
            Some(written) if written.uid() == seen.uid() && version(written) > version(&seen) => Arc::clone(written),
            _ => {
                ledger.owner = None;
                seen
            }
        }
    }

    /// Drops the state of a deleted owner.
    pub fn forget_owner(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    /// Records that the pod does not exist.
    pub fn forget(&self, owner: &ObjectKey, pod: &ObjectKey) {
        if let Some(ledger) = self.owners.lock().get_mut(owner) {
            ledger.written.remove(pod);
        }
    }

    /// Records that the pod exists and the mirror is slow.
    pub fn trust(&self, owner: &ObjectKey, pod: &ObjectKey) {
        if let Some(written) = self.owners.lock().get_mut(owner).and_then(|ledger| ledger.written.get_mut(pod)) {
            written.at = Instant::now();
        }
    }

    /// Returns how long to batch events of the owner.
    pub fn pace(&self, owner: &ObjectKey) -> Duration {
        let pods = self.owners.lock().get(owner).map_or(0, |ledger| ledger.pods);
        PACE_PER_POD.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX)).min(PACE_MAX)
    }

    /// Applies pending writes to the observed pods. `is_known` reports whether the mirror has the pod, possibly with
    /// another owner.
    pub fn overlay(
        &self,
        owner: &ObjectKey,
        owner_uid: &str,
        seen: Vec<Arc<Object>>,
        is_known: impl Fn(&ObjectKey, &str) -> bool,
    ) -> PodView {
        let mut owners = self.owners.lock();
        let ledger = owners.entry(owner.clone()).or_default();
        ledger.pods = seen.len();
        let mut view = PodView::default();
        for object in seen {
            view.pods.push(ledger.newest(object));
        }
        let is_quiet = ledger.written.is_empty() && ledger.deleted.is_empty();
        if is_quiet {
            return view;
        }
        let seen: HashMap<String, bool> =
            view.pods.iter().map(|pod| (pod.uid().to_owned(), pod.object.is_deleting())).collect();
        ledger.written.retain(|key, written| {
            if seen.contains_key(written.object.uid()) {
                return true;
            }
            if !written.is_new
                || is_known(key, written.object.uid())
                || owners::controller_uid(&written.object) != Some(owner_uid)
            {
                return false;
            }
            if written.at.elapsed() >= DOUBT_AFTER {
                view.doubtful.push(key.clone());
            }
            view.pods.push(match ledger.deleted.contains_key(written.object.uid()) {
                true => Pod::deleting(Arc::clone(&written.object)),
                false => Pod::new(Arc::clone(&written.object)),
            });
            true
        });
        let written = &ledger.written;
        ledger.deleted.retain(|uid, at| {
            let is_unseen = seen.get(uid).map_or_else(
                || written.values().any(|written| written.object.uid() == uid),
                |is_deleting| !is_deleting,
            );
            is_unseen && at.elapsed() < DELETION_FORGOTTEN_AFTER
        });
        view.is_ahead = !ledger.written.is_empty() || !ledger.deleted.is_empty();
        view
    }
}

impl OwnerWrites {
    /// Returns the newer of the observed and the written pod.
    fn newest(&mut self, seen: Arc<Object>) -> Pod {
        let key = ObjectKey::of(&seen);
        let mut newest = seen;
        if let Some(written) = self.written.get(&key) {
            if written.object.uid() == newest.uid() && version(&written.object) > version(&newest) {
                newest = Arc::clone(&written.object);
            } else {
                self.written.remove(&key);
            }
        }
        let is_deleting_soon =
            self.deleted.get(newest.uid()).is_some_and(|deleted| deleted.elapsed() < DELETION_FORGOTTEN_AFTER);
        if is_deleting_soon { Pod::deleting(newest) } else { Pod::new(newest) }
    }
}

fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: u64) -> Arc<Object> {
        let value = json!({"metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"uid": "owner", "controller": true}]}});
        Arc::new(Object::from_value(value).expect("a map"))
    }

    /// Pods as `name@version`, marked if their deletion was requested.
    #[track_caller]
    fn check(writes: &OwnPodWrites, seen: &[(&str, u64)], expected: &str) {
        let seen = seen.iter().map(|(name, version)| pod(name, *version)).collect();
        let view = writes.overlay(&ObjectKey::new("a", "set"), "owner", seen, |_, _| false);
        let text = |pod: &Pod| {
            format!("{}@{}{}", pod.name(), pod.resource_version(), if pod.is_deleting() { "x" } else { "" })
        };
        let pods: Vec<String> = view.pods.iter().map(text).collect();
        assert_eq!(pods.join(" "), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn own_writes_are_visible_until_the_mirror_has_them() {
        let (writes, owner) = (OwnPodWrites::default(), ObjectKey::new("a", "set"));
        writes.created(&owner, pod("x", 5));
        check(&writes, &[], "x@5");
        check(&writes, &[("y", 1)], "y@1 x@5");
        check(&writes, &[("x", 5)], "x@5");
        // Observed once, it is deleted when the mirror says so.
        check(&writes, &[], "");
        writes.changed(&owner, pod("y", 7));
        check(&writes, &[("y", 6)], "y@7");
        check(&writes, &[("y", 8)], "y@8");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unobserved_deletion_counts_and_is_repeated() {
        let (writes, owner) = (OwnPodWrites::default(), ObjectKey::new("a", "set"));
        writes.deleted(&owner, "uid-x");
        check(&writes, &[("x", 1)], "x@1x");
        tokio::time::advance(DELETION_FORGOTTEN_AFTER).await;
        check(&writes, &[("x", 1)], "x@1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_never_observed_is_doubtful() {
        let (writes, owner) = (OwnPodWrites::default(), ObjectKey::new("a", "set"));
        writes.created(&owner, pod("x", 5));
        let view = writes.overlay(&owner, "owner", Vec::new(), |_, _| false);
        assert!(view.doubtful.is_empty() && view.is_ahead);
        tokio::time::advance(DOUBT_AFTER).await;
        let view = writes.overlay(&owner, "owner", Vec::new(), |_, _| false);
        assert_eq!(view.doubtful, [ObjectKey::new("a", "x")]);
        // The mirror has it with another owner.
        let view = writes.overlay(&owner, "owner", Vec::new(), |_, _| true);
        assert!(view.pods.is_empty() && !view.is_ahead);
    }
}
