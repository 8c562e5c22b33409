//! State shared by the controllers: the API client, the clock, and mirrors of owners and owned objects.

use std::sync::Arc;

use cluster_client::ClusterClient;
use futures::future::join_all;
use jiff::Timestamp;
use object::builtin;
use object::{GroupVersionResource, Object};
use reconcile::{Clock, Index, Mirror, MirrorSpec, Mirrors, Recorder};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::events::RateLimitedRecorder;
use crate::owners::{OwnerKey, owner_keys};
use crate::pods;

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

pub struct Cluster {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub pods: Mirror,
    pub pods_by_owner: Index<OwnerKey>,
    pub nodes: Mirror,
    pub claims: Mirror,
    pub deployments: Mirror,
    pub replica_sets: Mirror,
    pub replica_sets_by_owner: Index<OwnerKey>,
    pub replication_controllers: Mirror,
    pub replication_controllers_by_owner: Index<OwnerKey>,
    pub stateful_sets: Mirror,
    pub daemon_sets: Mirror,
    pub revisions_by_owner: Index<OwnerKey>,
    pub jobs: Mirror,
    pub jobs_by_owner: Index<OwnerKey>,
    pub cron_jobs: Mirror,
    cancel: CancellationToken,
}

impl Cluster {
    pub fn start(mirrors: &Mirrors, clock: Arc<dyn Clock>, cancel: &CancellationToken) -> Arc<Self> {
        let packed = |gvr: GroupVersionResource| mirrors.packed(&gvr);
        let pods = mirrors.get(MirrorSpec::new(&builtin::pods()).packed().trim(pods::trim));
        let replica_sets = packed(builtin::replica_sets());
        let replication_controllers = packed(builtin::replication_controllers());
        let jobs = packed(builtin::jobs());
        let cluster = Self {
            pods_by_owner: pods.index(owner_keys),
            pods,
            // All nodes are read for each DaemonSet, so few fields are kept, decoded.
            nodes: mirrors.get(MirrorSpec::new(&builtin::nodes()).trim(trim_node)),
            claims: packed(builtin::persistent_volume_claims()),
            deployments: packed(builtin::deployments()),
            replica_sets_by_owner: replica_sets.index(owner_keys),
            replica_sets,
            replication_controllers_by_owner: replication_controllers.index(owner_keys),
            replication_controllers,
            stateful_sets: packed(builtin::stateful_sets()),
            daemon_sets: packed(builtin::daemon_sets()),
            revisions_by_owner: packed(builtin::controller_revisions()).index(owner_keys),
            jobs_by_owner: jobs.index(owner_keys),
            jobs,
            cron_jobs: packed(builtin::cron_jobs()),
            client: mirrors.client().clone(),
            clock,
            cancel: cancel.clone(),
        };
        Arc::new(cluster)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn cancelled(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Returns once all mirrors are complete.
    pub async fn synced(&self) {
        let mirrors = [
            &self.pods,
            &self.nodes,
            &self.claims,
            &self.deployments,
            &self.replica_sets,
            &self.replication_controllers,
            &self.stateful_sets,
            &self.daemon_sets,
            self.revisions_by_owner.mirror(),
            &self.jobs,
            &self.cron_jobs,
        ];
        join_all(mirrors.map(Mirror::synced)).await;
    }

    /// Returns an event recorder for a Kubernetes controller.
    pub fn events(&self, component: &'static str) -> RateLimitedRecorder {
        let clock = Arc::clone(&self.clock);
        RateLimitedRecorder::new(Recorder::start(self.client.clone(), component, clock, self.cancel.clone()))
    }
}

/// Keeps only the fields that decide whether a daemon pod may run on the node.
fn trim_node(node: &mut Object) {
    node.as_map_mut().remove("status");
    for field in ["managedFields", "annotations"] {
        node.remove(&["metadata", field]);
    }
    if let Some(spec) = node.as_map_mut().get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| matches!(field.as_str(), "taints" | "unschedulable"));
    }
}
