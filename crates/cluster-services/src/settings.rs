//! What the room can be told; the defaults are those of kube-controller-manager and kube-scheduler.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Volumes are directories directly below this one; nothing outside of it is ever removed.
    pub host_path_root: PathBuf,
    /// Where pods reach the API, for the endpoints of the Service `kubernetes`; loopback addresses cannot be told.
    pub api_address: Option<SocketAddr>,
    /// A node that gives no sign of life for this long is not known to be well.
    pub node_monitor_grace_period: Duration,
    /// The same for a node that never gave one.
    pub node_startup_grace_period: Duration,
    /// Nodes per second whose pods are driven out, in each zone.
    pub node_eviction_rate: f64,
    /// The same while a large part of a large zone is unwell; a small zone is then left alone.
    pub secondary_node_eviction_rate: f64,
    /// Zones of more nodes than this are large.
    pub large_cluster_size_threshold: usize,
    /// The share of unwell nodes that makes a zone partly disrupted.
    pub unhealthy_zone_threshold: f64,
    /// Ended pods that are kept, for people to look at.
    pub terminated_pod_gc_threshold: usize,
    pub pod_gc_period: Duration,
    /// How long a node must be missing before its pods are.
    pub pod_gc_quarantine: Duration,
    pub autoscaler_sync_period: Duration,
    pub autoscaler_tolerance: f64,
    pub autoscaler_downscale_stabilization: Duration,
    /// A young pod's cpu is not counted before it was ready once, or this old.
    pub autoscaler_cpu_initialization_period: Duration,
    /// A pod that is unready so soon after its start was never ready.
    pub autoscaler_initial_readiness_delay: Duration,
    /// Endpoints of a Service are written at most this often while its pods change; less often where there are many.
    pub endpoints_batch_period: Duration,
    /// How long a pod waits for its volumes once its node is chosen.
    pub volume_bind_timeout: Duration,
    /// Bindings that are written at the same time.
    pub bindings_at_once: usize,
}

impl Default for Settings {
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
            autoscaler_tolerance: 0.1,
            autoscaler_downscale_stabilization: Duration::from_secs(300),
            autoscaler_cpu_initialization_period: Duration::from_secs(300),
            autoscaler_initial_readiness_delay: Duration::from_secs(30),
            endpoints_batch_period: Duration::from_millis(100),
            volume_bind_timeout: Duration::from_secs(600),
            bindings_at_once: 256,
        }
    }
}
