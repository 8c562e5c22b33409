//! Exports the capacity and readiness of every member as metrics, in push and pull mode.

use std::sync::Arc;

use api::cluster::ClusterStatus;
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;

/// Runs until cancelled.
pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let mut changes = plane.clusters.subscribe();
    loop {
        let change = tokio::select! {
            () = cancel.cancelled() => return,
            change = changes.next() => change,
        };
        let Some(change) = change else { return };
        let members = &plane.metrics.members;
        match change.now.as_deref().map(|cluster| api::read_at::<ClusterStatus>(cluster, &["status"])) {
            Some(Ok(status)) => members.observed(&change.key.name, &status),
            // A cluster that cannot be read keeps its last metrics.
            Some(Err(_)) => {}
            None => members.forget(&change.key.name),
        }
    }
}
