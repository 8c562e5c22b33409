//! Deletes what has lost its owners, and holds owners back while dependents must go first or be set free.
//!
//! The graph holds only objects that have owners. Whether an owner is there is asked of the API before anything goes.

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
/// Dependents made just before their owner was deleted with `orphan` must have been seen before they are set free.
const ORPHAN_DELAY: Duration = Duration::from_millis(100);

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// Does it still have an owner? Is it waiting for dependents?
    Judge(Item),
    /// Set its dependents free, then let it go.
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

    /// Begins when all that is there has been seen: an owner must not be let go, or orphaned, before its dependents
    /// are known.
    pub async fn run(self: Arc<Self>, everything: Arc<Everything>, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = everything.listed() => {}
        }
        let controller = self.controller.clone();
        controller.run(Vec::new(), WORKERS, cancel, move |task| work::reconcile(Arc::clone(&self), task)).await;
    }

    /// Listeners must not wait, so a full queue does not hold them back; the graph bounds what can be asked.
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
