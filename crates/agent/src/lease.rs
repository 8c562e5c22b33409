//! Renews the Lease of the member's Cluster every few seconds: the heartbeat of the agent.

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use membership::registration::{FIELD_MANAGER, owner};
use object::{Object, Status, time};
use reconcile::Clock;
use reconcile::backoff::Backoff;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");

/// The lease of one agent.
pub struct AgentLease {
    pub plane: ClusterClient,
    pub cluster: String,
    pub clock: Arc<dyn Clock>,
    /// Time after the last renewal when the lease expires.
    pub duration: Duration,
    pub renew_every: Duration,
}

/// Renews until cancelled.
pub async fn keep(lease: AgentLease, cancel: CancellationToken) {
    let backoff = Backoff { base: Duration::from_millis(200), max: lease.renew_every };
    let mut last: Option<Arc<Object>> = None;
    let mut failures = 0;
    loop {
        let wait = match lease.renew(last.take()).await {
            Ok(renewed) => {
                (last, failures) = (renewed, 0);
                lease.renew_every
            }
            Err(status) => {
                failures += 1;
                tracing::debug!(%status, "cannot renew the lease, will retry");
                backoff.wait(failures)
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl AgentLease {
    /// Renews the lease and returns it; `None` while its Cluster does not exist.
    async fn renew(&self, last: Option<Arc<Object>>) -> Result<Option<Arc<Object>>, Status> {
        let target = ResourceRef::namespaced(&LEASES.gvr(), CLUSTER_NAMESPACE, &self.cluster);
        let current = match last {
            Some(lease) => Some(lease),
            None => self.plane.find(target.clone()).await?,
        };
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        if let Some(current) = current {
            let renewed = self.renewed((*current).clone());
            // If it was deleted, the Cluster may be deleted too: the next renewal reads both again.
            return self.plane.update(target, renewed, options).await.map(Some);
        }
        let Some(cluster) = self.plane.find(ResourceRef::cluster(&CLUSTERS.gvr(), &self.cluster)).await? else {
            return Ok(None);
        };
        let mut lease = LEASES.object(CLUSTER_NAMESPACE, &self.cluster);
        lease.set(&["metadata", "ownerReferences"], json!([owner(&cluster, false)]));
        let target = ResourceRef::within(&LEASES.gvr(), CLUSTER_NAMESPACE);
        self.plane.create(target, self.renewed(lease), options).await.map(Some)
    }

    fn renewed(&self, mut lease: Object) -> Object {
        lease.set(&["spec", "holderIdentity"], self.cluster.as_str());
        lease.set(&["spec", "leaseDurationSeconds"], self.duration.as_secs());
        lease.set(&["spec", "renewTime"], time::format_micros(self.clock.now()));
        lease
    }
}

#[cfg(test)]
mod tests;
