//! The settings of the controllers; the defaults are those of kube-controller-manager and kube-scheduler.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use scaling::ScalingSettings;

#[derive(Clone, Debug)]
pub struct ClusterServiceSettings {
    /// Volumes are directories directly below this one; nothing outside of it is ever removed.
    pub host_path_root: PathBuf,
    /// The API address for pods, published as endpoints of the Service `kubernetes`; loopback addresses are not
    /// allowed.
    pub api_address: Option<SocketAddr>,
    /// Grace period without heartbeats before a node is marked unknown.
    pub node_monitor_grace_period: Duration,
    /// Grace period before the first heartbeat of a node.
    pub node_startup_grace_period: Duration,
    /// Nodes per second whose pods are evicted, in each zone.
    pub node_eviction_rate: f64,
    /// The rate in a partially disrupted large zone; in a small one evictions stop.
    pub secondary_node_eviction_rate: f64,
    /// Zones with more nodes than this are large.
    pub large_cluster_size_threshold: usize,
    /// The fraction of unhealthy nodes at which a zone is partially disrupted.
    pub unhealthy_zone_threshold: f64,
    /// Number of finished pods to keep.
    pub terminated_pod_gc_threshold: usize,
    pub pod_gc_period: Duration,
    /// Time a node must be missing before its pods are deleted.
    pub pod_gc_quarantine: Duration,
    pub autoscaler_sync_period: Duration,
    pub autoscaler: ScalingSettings,
    /// Minimum interval between endpoint updates of a Service; longer for many pods.
    pub endpoints_batch_period: Duration,
    /// Time a pod waits for its volumes to be bound after its node was chosen.
    pub volume_bind_timeout: Duration,
    /// Maximum number of concurrent bindings.
    pub bindings_at_once: usize,
}

impl Default for ClusterServiceSettings {
    fn default() -> Self {
        Self {
            host_path_root: PathBuf::from("/var/lib/flotilla/volumes"),
            api_address: None,
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
            terminated_pod_gc_threshold: 12_500,
            pod_gc_period: Duration::from_secs(20),
            pod_gc_quarantine: Duration::from_secs(40),
            autoscaler_sync_period: Duration::from_secs(15),
            autoscaler: ScalingSettings::default(),
            endpoints_batch_period: Duration::from_millis(100),
            volume_bind_timeout: Duration::from_secs(600),
            bindings_at_once: 256,
        }
    }
}
