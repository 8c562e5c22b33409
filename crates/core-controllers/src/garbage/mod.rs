//! The garbage collector: deletes objects whose owners are gone, and handles foreground and orphan deletion.
//!
//! The graph holds only objects that have owners. Before a deletion, the API is asked whether the owner still exists.

mod execute;
mod graph;
mod owners;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ClusterClient, RestMapper};
use parking_lot::Mutex;
use reconcile::{Clock, Controller, Priority};
use tokio_util::sync::CancellationToken;

use crate::resource_watcher::{Listener, ResourceEvent, ResourceWatcher};
use graph::{Graph, TrackedObject};

const WORKERS: usize = 8;
/// Dependents created just before an orphaning delete must have been observed before they are released.
const ORPHAN_DELAY: Duration = Duration::from_millis(100);

/// A work item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GarbageTask {
    /// Check the owners of an object, and the dependents it waits for.
    Judge(TrackedObject),
    /// Orphan the dependents, then remove the finalizer.
    Orphan(TrackedObject),
}

pub struct Collector {
    client: ClusterClient,
    mapper: RestMapper,
    graph: Mutex<Graph>,
    controller: Controller<GarbageTask>,
    clock: Arc<dyn Clock>,
}

impl Collector {
    pub fn new(client: ClusterClient, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            mapper: RestMapper::new(client.clone()),
            client,
            graph: Mutex::default(),
            controller: Controller::new("garbage-collector"),
            clock,
        })
    }

    /// Starts after the initial lists: an owner must not be deleted or orphaned before its dependents are known.
    pub async fn run(self: Arc<Self>, resource_watcher: Arc<ResourceWatcher>, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = resource_watcher.listed() => {}
        }
        let controller = self.controller.clone();
        controller.run(Vec::new(), WORKERS, cancel, move |task| execute::reconcile(Arc::clone(&self), task)).await;
    }

    /// Enqueues without waiting, since listeners must not block; the queue is bounded by the graph.
    fn judge(&self, items: impl IntoIterator<Item = TrackedObject>, priority: Priority) {
        for item in items {
            self.controller.queue().add_after(GarbageTask::Judge(item), Duration::ZERO, priority);
        }
    }
}

impl Listener for Collector {
    fn see(&self, resource: &Arc<ApiResource>, seen: ResourceEvent<'_>) {
        let mut graph = self.graph.lock();
        let (found, priority) = match seen {
            ResourceEvent::Added(object) => (graph.put(resource, object), Priority::LOW),
            ResourceEvent::Modified(object) => (graph.put(resource, object), Priority::NORMAL),
            ResourceEvent::Deleted(object) => (graph.delete(object), Priority::NORMAL),
            ResourceEvent::Listed(uids) => (graph.retain(resource, uids), Priority::NORMAL),
            ResourceEvent::Unserved => (graph.forget(resource), Priority::NORMAL),
        };
        drop(graph);
        self.judge(found.to_judge, priority);
        for item in found.to_orphan {
            self.controller.queue().add_after(GarbageTask::Orphan(item), ORPHAN_DELAY, Priority::NORMAL);
        }
    }
}
