//! The estimator service of a control plane: estimates for all members whose capacity it knows.

use std::sync::Arc;

use api::capacity::ClusterNodes;
use api::names;
use api::work::{AggregatedStatusItem, RESOURCE_BINDINGS, STATUS_UNSCHEDULABLE, Unschedulable};
use async_trait::async_trait;
use cluster_client::{ClusterClient, ResourceRef};
use estimator::server::EstimatorSource;
use object::Status;
use plane_state::MemberCapacity;

pub struct AllMembers {
    pub capacity: MemberCapacity,
    pub client: ClusterClient,
}

#[async_trait]
impl EstimatorSource for AllMembers {
    fn capacity(&self, cluster: &str) -> Option<Arc<ClusterNodes>> {
        self.capacity.get(cluster)
    }

    /// Members report unschedulable pods with the status of a workload.
    async fn unschedulable(&self, cluster: &str, namespace: &str, name: &str) -> Result<Option<Unschedulable>, Status> {
        let binding = names::binding_name("Deployment", name);
        let target = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), namespace, &binding);
        let Some(binding) = self.client.find(target).await? else { return Ok(None) };
        let statuses: Vec<AggregatedStatusItem> = api::read_at(&binding, &["status", "aggregatedStatus"])?;
        let own = statuses.into_iter().find(|item| item.cluster_name == cluster).and_then(|item| item.status);
        let waiting = own.and_then(|status| status.get(STATUS_UNSCHEDULABLE).cloned());
        Ok(waiting.and_then(|waiting| serde_json::from_value(waiting).ok()))
    }
}
