//! The garbage collector: deletes objects whose owners are gone, and handles foreground and orphan deletion.
//!
//! The graph holds only objects that have owners. Before a deletion, the API is asked whether the owner still exists.

mod graph;
mod owners;
mod plan;
mod work;

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ClusterClient, RestMapper};
use parking_lot::Mutex;
use reconcile::{Clock, Controller, Priority};
use tokio_util::sync::CancellationToken;

use crate::everything::{Everything, Listener, Seen};
use graph::{Graph, Item};

const WORKERS: usize = 8;
/// Dependents created just before an orphaning delete must have been observed before they are released.
const ORPHAN_DELAY: Duration = Duration::from_millis(100);

/// A work item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// Check the owners of an object, and the dependents it waits for.
    Judge(Item),
    /// Orphan the dependents, then remove the finalizer.
    Orphan(Item),
}

pub struct Collector {
    client: ClusterClient,
    mapper: RestMapper,
    graph: Mutex<Graph>,
    controller: Controller<Task>,
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
    pub async fn run(self: Arc<Self>, everything: Arc<Everything>, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = everything.listed() => {}
        }
        let controller = self.controller.clone();
        controller.run(Vec::new(), WORKERS, cancel, move |task| work::reconcile(Arc::clone(&self), task)).await;
    }

    /// Enqueues without waiting, since listeners must not block; the queue is bounded by the graph.
    fn judge(&self, items: impl IntoIterator<Item = Item>, priority: Priority) {
        for item in items {
            self.controller.queue().add_after(Task::Judge(item), Duration::ZERO, priority);
        }
    }
}

impl Listener for Collector {
    fn see(&self, resource: &Arc<ApiResource>, seen: Seen<'_>) {
        let mut graph = self.graph.lock();
        let (found, priority) = match seen {
            Seen::Added(object) => (graph.put(resource, object), Priority::LOW),
            Seen::Modified(object) => (graph.put(resource, object), Priority::NORMAL),
            Seen::Deleted(object) => (graph.delete(object), Priority::NORMAL),
            Seen::Listed(uids) => (graph.retain(resource, uids), Priority::NORMAL),
            Seen::Unserved => (graph.forget(resource), Priority::NORMAL),
        };
        drop(graph);
        self.judge(found.to_judge, priority);
        for item in found.to_orphan {
            self.controller.queue().add_after(Task::Orphan(item), ORPHAN_DELAY, Priority::NORMAL);
        }
    }
}
