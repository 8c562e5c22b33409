//! Pods that were let go of here and that the mirror still shows as held: counted again, they would count twice.
//!
//! The answer to such a write does not settle it: a pod that is being deleted goes with its last finalizer, and the API
//! answers with the version it had before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use object::Object;
use parking_lot::Mutex;
use reconcile::ObjectKey;

use crate::job::wish::{TRACKING_FINALIZER, is_tracked};
use crate::pods::Pod;

/// By Job, uids of pods. They are dropped once the mirror shows that they are free or gone, or with the Job.
#[derive(Default)]
pub struct Released {
    jobs: Mutex<HashMap<ObjectKey, HashSet<String>>>,
}

impl Released {
    pub fn add(&self, job: &ObjectKey, uid: &str) {
        self.jobs.lock().entry(job.clone()).or_default().insert(uid.to_owned());
    }

    /// Shows a Job's pods without the finalizers that were taken off here.
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
