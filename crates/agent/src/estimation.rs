//! The estimator service of an agent: estimates from what it knows of its member.

use std::sync::Arc;

use api::capacity::ClusterNodes;
use api::work::Unschedulable;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use estimator::server::EstimatorSource;
use member_sync::unschedulable_replicas;
use object::Status;
use plane_state::MemberCapacity;

pub struct OwnMember {
    pub cluster: String,
    pub capacity: MemberCapacity,
    pub member: ClusterClient,
}

#[async_trait]
impl EstimatorSource for OwnMember {
    fn capacity(&self, cluster: &str) -> Option<Arc<ClusterNodes>> {
        self.capacity.get(cluster)
    }

    async fn unschedulable(&self, cluster: &str, namespace: &str, name: &str) -> Result<Option<Unschedulable>, Status> {
        if cluster != self.cluster {
            return Err(Status::bad_request(format!("this is the estimator of cluster {}", self.cluster)));
        }
        unschedulable_replicas(&self.member, namespace, name).await
    }
}
