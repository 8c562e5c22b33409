//! Finds instances by the name in a URL.

use std::sync::Arc;

use manager_kinds::{INSTANCE_NAMESPACE, annotations};
use object::Object;
use reconcile::{Mirror, ObjectKey, Subscription};

use crate::decide::Phase;
use crate::lifecycle::{Lifecycle, path_name};
use crate::replica::RemoteInstances;
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
    elsewhere: Arc<RemoteInstances>,
}

impl InstanceDirectory {
    pub fn new(lifecycle: Lifecycle) -> Self {
        Self { lifecycle, elsewhere: Arc::default() }
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

    /// The version up to which changes of instances are known.
    pub fn version(&self) -> u64 {
        self.lifecycle.karmadas().version().parse().unwrap_or(0)
    }

    /// Shows the instances as they were at a later version.
    pub fn show(&self, instances: &[Arc<Object>], version: u64) {
        let karmadas = self.lifecycle.karmadas();
        instances.iter().for_each(|instance| karmadas.note(instance));
        for known in karmadas.list() {
            let is_older = known.resource_version().parse::<u64>().is_ok_and(|seen| seen <= version);
            if is_older && !instances.iter().any(|instance| instance.uid() == known.uid()) {
                karmadas.note_gone(&known);
            }
        }
    }

    /// Reports changes of instances.
    pub fn changes(&self) -> Subscription {
        self.lifecycle.karmadas().subscribe()
    }

    /// Returns the plane of an instance, here or through the replica that runs it, and starts a hibernating one.
    pub async fn connect(&self, entry: &InstanceEntry) -> Option<Arc<RunningInstance>> {
        if let Some(running) = &entry.running {
            return Some(Arc::clone(running));
        }
        match self.elsewhere.get(self.lifecycle.replica_context(), &entry.object) {
            Some(running) => Some(running),
            None => self.lifecycle.wake(&entry.object).await,
        }
    }

    /// Returns the plane of an instance that this replica runs, and starts a hibernating one. For other replicas: it never
    /// leads to a further one.
    pub async fn connect_here(&self, uid: &str) -> Option<Arc<RunningInstance>> {
        if let Some(running) = self.lifecycle.running().get(uid) {
            return Some(running);
        }
        let instance = self.lifecycle.karmadas().list().into_iter().find(|instance| instance.uid() == uid)?;
        match self.lifecycle.replica_context().elsewhere(&instance) {
            Some(_) => None,
            None => self.lifecycle.wake(&instance).await,
        }
    }

    /// Returns the name of this replica of the manager; empty if there can be no others.
    pub fn replica_name(&self) -> String {
        self.lifecycle
            .replica_context()
            .replicas
            .as_ref()
            .map(|replicas| replicas.own().name.clone())
            .unwrap_or_default()
    }

    fn entry(&self, object: Arc<Object>) -> InstanceEntry {
        let running = self.lifecycle.running().get(object.uid());
        // A hibernating plane runs nowhere: only a request to it may start it.
        let is_asleep = object.str_at(&["status", "phase"]) == Phase::Hibernated.name();
        let running = running.or_else(|| match is_asleep {
            true => None,
            false => self.elsewhere.get(self.lifecycle.replica_context(), &object),
        });
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
