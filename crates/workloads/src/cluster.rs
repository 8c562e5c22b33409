//! State shared by the controllers: the API client, the clock, and mirrors of owners and owned objects.

use std::sync::Arc;

use cluster_client::ClusterClient;
use futures::future::join_all;
use jiff::Timestamp;
use object::builtin;
use object::{GroupVersionResource, Object};
use reconcile::{Clock, Mirror, MirrorSpec, Recorder};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::events::RateLimitedRecorder;
use crate::owners::{BY_OWNER, owner_values};
use crate::pods;

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

pub struct Cluster {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub pods: Mirror,
    pub nodes: Mirror,
    pub claims: Mirror,
    pub deployments: Mirror,
    pub replica_sets: Mirror,
    pub replication_controllers: Mirror,
    pub stateful_sets: Mirror,
    pub daemon_sets: Mirror,
    pub revisions: Mirror,
    pub jobs: Mirror,
    pub cron_jobs: Mirror,
    cancel: CancellationToken,
}

impl Cluster {
    pub fn start(client: ClusterClient, clock: Arc<dyn Clock>, cancel: &CancellationToken) -> Arc<Self> {
        let start = |spec: MirrorSpec| Mirror::start(client.clone(), spec, cancel.clone());
        let packed = |gvr: GroupVersionResource| start(MirrorSpec::new(&gvr).packed().index(BY_OWNER, owner_values));
        let pods = MirrorSpec::new(&builtin::pods()).packed().trim(pods::trim).index(BY_OWNER, owner_values);
        let cluster = Self {
            pods: start(pods),
            // All nodes are read for each DaemonSet, so few fields are kept, decoded.
            nodes: start(MirrorSpec::new(&builtin::nodes()).trim(trim_node)),
            claims: packed(builtin::persistent_volume_claims()),
            deployments: packed(builtin::deployments()),
            replica_sets: packed(builtin::replica_sets()),
            replication_controllers: packed(builtin::replication_controllers()),
            stateful_sets: packed(builtin::stateful_sets()),
            daemon_sets: packed(builtin::daemon_sets()),
            revisions: packed(builtin::controller_revisions()),
            jobs: packed(builtin::jobs()),
            cron_jobs: packed(builtin::cron_jobs()),
            client: client.clone(),
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
            &self.revisions,
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
