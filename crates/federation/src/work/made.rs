//! Works that were made here and are not in the mirror yet: a binding that changes right then must not lose them.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use reconcile::ObjectKey;

/// Works by binding, from when they are made until the mirror has shown them: a moment each.
#[derive(Default)]
pub struct Made {
    works: Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

impl Made {
    pub fn note(&self, binding: &ObjectKey, work: ObjectKey, is_shown: impl Fn(&ObjectKey) -> bool) {
        let mut works = self.works.lock();
        // Checked under the lock: `seen` runs either before, and the mirror shows it, or after, and finds it here.
        if !is_shown(&work) {
            works.entry(binding.clone()).or_default().insert(work);
        }
    }

    /// The mirror has shown it, or it is gone again.
    pub fn seen(&self, binding: &ObjectKey, work: &ObjectKey) {
        let mut works = self.works.lock();
        if let Some(of_binding) = works.get_mut(binding) {
            of_binding.remove(work);
            if of_binding.is_empty() {
                works.remove(binding);
            }
        }
    }

    /// The works of a binding that the mirror does not show.
    pub fn unseen(&self, binding: &ObjectKey, is_shown: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let works = self.works.lock();
        works.get(binding).into_iter().flatten().filter(|work| !is_shown(work)).cloned().collect()
    }

    pub fn forget(&self, binding: &ObjectKey) {
        self.works.lock().remove(binding);
    }
}
