//! Starts the controllers over shared mirrors, and dispatches pod events to all of them from one reader.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use reconcile::{Change, Clock, Mirrors};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::mirrors::ClusterMirrors;
use crate::settings::ClusterServiceSettings;
use crate::{addresses, autoscaling, disruption, endpoints, node_lifecycle, pod_gc, scheduling, volumes};

/// Pod events dispatched before yielding to other tasks.
const CHANGES_PER_TURN: usize = 64;

/// The dependencies of the cluster services.
pub struct ClusterServiceDeps {
    /// Of the cluster.
    pub mirrors: Mirrors,
    pub clock: Arc<dyn Clock>,
    pub settings: ClusterServiceSettings,
}

/// Receives every existing pod and every change; must not block.
pub type OnPod = Box<dyn Fn(&Change) + Send + Sync>;

/// A controller, ready to run.
pub struct Service {
    pub on_pod: Option<OnPod>,
    pub run: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Service {
    pub fn new(run: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { on_pod: None, run: Box::pin(run) }
    }

    pub fn on_pods(mut self, on_pod: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        self.on_pod = Some(Box::new(on_pod));
        self
    }
}

/// Runs until cancelled. Only one instance may run per cluster.
pub async fn run(parts: ClusterServiceDeps, cancel: CancellationToken) {
    let mirrors = ClusterMirrors::start(parts, &cancel);
    // Acting before the mirrors are complete would overcommit nodes and delete objects in use.
    tokio::select! {
        () = cancel.cancelled() => return,
        () = mirrors.synced() => {}
    }
    let services = [
        scheduling::start(&mirrors),
        endpoints::start(&mirrors),
        disruption::start(&mirrors),
        volumes::start(&mirrors),
        node_lifecycle::start(&mirrors),
        node_lifecycle::start_evictions(&mirrors),
        pod_gc::start(&mirrors),
        autoscaling::start(&mirrors),
        addresses::start(&mirrors),
    ];
    let mut running = JoinSet::new();
    let mut listeners = Vec::new();
    for service in services {
        running.spawn(service.run);
        listeners.extend(service.on_pod);
    }
    running.spawn(carry_pods(Arc::clone(&mirrors), listeners));
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "controller exited with an error");
        }
    }
}

/// Decodes each pod change once for all listeners.
async fn carry_pods(mirrors: Arc<ClusterMirrors>, listeners: Vec<OnPod>) {
    let mut changes = mirrors.pods.subscribe();
    let (mut is_caught_up, mut carried) = (false, 0usize);
    loop {
        let change = tokio::select! {
            biased;
            () = mirrors.cancel.cancelled() => return,
            change = changes.next() => change,
            () = std::future::ready(()), if !is_caught_up => {
                // All initial pods have been dispatched.
                is_caught_up = true;
                mirrors.pods_dispatched.send_replace(true);
                continue;
            }
        };
        let Some(change) = change else { return };
        listeners.iter().for_each(|listener| listener(&change));
        // A burst must not block other tasks; yielding after each change would be slow on a busy runtime.
        carried += 1;
        if carried.is_multiple_of(CHANGES_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
}
