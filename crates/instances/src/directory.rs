//! Finds instances by the name in a URL.

use std::sync::Arc;

use manager_kinds::{INSTANCE_NAMESPACE, annotations};
use object::Object;
use reconcile::{Mirror, ObjectKey, Subscription};

use crate::decide::Phase;
use crate::lifecycle::{Lifecycle, path_name};
use crate::running::RunningInstance;

/// An instance as users address it.
#[derive(Clone)]
pub struct InstanceEntry {
    pub object: Arc<Object>,
    pub running: Option<Arc<RunningInstance>>,
}

impl InstanceEntry {
    /// The path segment that names the instance.
    pub fn name(&self) -> String {
        path_name(&ObjectKey::of(&self.object))
    }

    /// Returns true while a requested restart has not happened yet. A hibernating plane starts when it is used.
    pub fn is_restarting(&self) -> bool {
        let requested = annotations::read(&self.object).0.restarted_at;
        match &self.running {
            Some(running) => running.started_with.restarted_at != requested,
            None => self.phase() != Phase::Hibernated.name(),
        }
    }

    /// `status.phase`.
    pub fn phase(&self) -> &str {
        self.object.str_at(&["status", "phase"])
    }
}

/// The instances of a manager.
#[derive(Clone)]
pub struct InstanceDirectory {
    lifecycle: Lifecycle,
}

impl InstanceDirectory {
    pub fn new(lifecycle: Lifecycle) -> Self {
        Self { lifecycle }
    }

    pub fn list(&self) -> Vec<InstanceEntry> {
        self.lifecycle.karmadas().list().into_iter().map(|object| self.entry(object)).collect()
    }

    /// Returns the instance of a path segment: `NAME` in the default namespace, or `NAMESPACE~NAME`.
    pub fn find(&self, segment: &str) -> Option<InstanceEntry> {
        find(self.lifecycle.karmadas(), segment).map(|object| self.entry(object))
    }

    /// Shows a write of the caller to later reads at once.
    pub fn note(&self, instance: &Arc<Object>) {
        self.lifecycle.karmadas().note(instance);
    }

    /// Reports changes of instances.
    pub fn changes(&self) -> Subscription {
        self.lifecycle.karmadas().subscribe()
    }

    /// Returns the running plane of an instance, and starts a hibernating one.
    pub async fn connect(&self, entry: &InstanceEntry) -> Option<Arc<RunningInstance>> {
        self.lifecycle.wake(&entry.object).await
    }

    fn entry(&self, object: Arc<Object>) -> InstanceEntry {
        let running = self.lifecycle.running().get(object.uid());
        InstanceEntry { object, running }
    }
}

fn find(karmadas: &Mirror, segment: &str) -> Option<Arc<Object>> {
    let key = match segment.split_once('~') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new(INSTANCE_NAMESPACE, segment),
    };
    karmadas.get(&key)
}
