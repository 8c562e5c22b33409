//! Tells the control plane every few seconds that the agent lives, by a Lease that belongs to its Cluster.

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::{Object, Status, time};
use reconcile::Clock;
use reconcile::backoff::Backoff;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::registration::{FIELD_MANAGER, owner};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");

pub struct Pulse {
    pub plane: ClusterClient,
    pub cluster: String,
    pub clock: Arc<dyn Clock>,
    /// How long others believe in it.
    pub duration: Duration,
    pub renew_every: Duration,
}

/// Renews until cancelled.
pub async fn keep(pulse: Pulse, cancel: CancellationToken) {
    let backoff = Backoff { base: Duration::from_millis(200), max: pulse.renew_every };
    let mut last: Option<Arc<Object>> = None;
    let mut failures = 0;
    loop {
        let wait = match pulse.renew(last.take()).await {
            Ok(lease) => {
                (last, failures) = (lease, 0);
                pulse.renew_every
            }
            Err(status) => {
                failures += 1;
                tracing::debug!(%status, "the lease could not be renewed");
                backoff.wait(failures)
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Pulse {
    /// The lease as it is then; `None` while there is no Cluster it could belong to.
    async fn renew(&self, last: Option<Arc<Object>>) -> Result<Option<Arc<Object>>, Status> {
        let target = ResourceRef::namespaced(&LEASES.gvr(), CLUSTER_NAMESPACE, &self.cluster);
        let current = match last {
            Some(lease) => Some(lease),
            None => self.plane.find(target.clone()).await?,
        };
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        if let Some(current) = current {
            let renewed = self.renewed((*current).clone());
            // Should it be gone, the Cluster may be too: the next look decides.
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
