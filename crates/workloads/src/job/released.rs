//! Pods whose tracking finalizer was removed but which the mirror still shows with it, so that they are not counted
//! twice.
//!
//! The response to such a write does not settle it: a pod under deletion disappears with its last finalizer, and the
//! API returns its previous version.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use object::Object;
use parking_lot::Mutex;
use reconcile::ObjectKey;

use crate::job::spec::{TRACKING_FINALIZER, is_tracked};
use crate::pods::Pod;

/// Pod uids by Job. Dropped once the mirror shows the pod without the finalizer or deleted, or with the Job.
#[derive(Default)]
pub struct Released {
    jobs: Mutex<HashMap<ObjectKey, HashSet<String>>>,
}

impl Released {
    pub fn add(&self, job: &ObjectKey, uid: &str) {
        self.jobs.lock().entry(job.clone()).or_default().insert(uid.to_owned());
    }

    /// Hides the finalizers that were already removed.
    pub fn show(&self, job: &ObjectKey, pods: &mut [Pod]) {
        let mut jobs = self.jobs.lock();
        let Some(released) = jobs.get_mut(job) else { return };
        let mut unseen = HashSet::new();
        for pod in pods.iter_mut().filter(|pod| released.contains(pod.uid()) && is_tracked(pod)) {
            unseen.insert(pod.uid().to_owned());
            let mut free = Object::clone(&pod.object);
            free.remove_finalizer(TRACKING_FINALIZER);
            pod.object = Arc::new(free);
        }
        if unseen.is_empty() {
            jobs.remove(job);
        } else {
            *released = unseen;
        }
    }

    pub fn forget(&self, job: &ObjectKey) {
        self.jobs.lock().remove(job);
    }
}
