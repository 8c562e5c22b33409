//! The state shared by the components of a node.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use cluster_client::ClusterClient;
use object::Object;
use reconcile::{Clock, Controller, Mirror, ObjectKey, Priority, Recorder};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::cri::{Runtime, RuntimeError};
use crate::env::ApiAddress;
use crate::fields::DownwardFacts;
use crate::machine::MachineInfo;
use crate::pod::uses_host_network;
use crate::probes::Prober;
use crate::sandbox::NodeDns;
use crate::services::Services;
use crate::state::States;
use crate::usage::UsageSampler;
use crate::volumes::tokens::TokenKeeper;

/// Maximum number of concurrent image pulls.
pub(crate) const PULLS_MAX: usize = 4;

/// The settings of a node. `new` sets Kubernetes' defaults.
#[derive(Clone, Debug)]
pub struct KubeletSettings {
    /// The runtime's socket.
    pub socket: PathBuf,
    /// The data directory of pods, created if missing.
    pub root_dir: PathBuf,
    pub node_name: String,
    /// The pod CIDR of this node, as configured in the CNI plugin.
    pub pod_cidr: String,
    /// The reported version: `v1.36.4`.
    pub kubernetes_version: String,
    /// The address of this machine; detected if unset.
    pub node_address: Option<IpAddr>,
    pub labels: BTreeMap<String, String>,
    /// As in `spec.taints` of a Node.
    pub taints: Vec<Value>,
    pub pods_max: u32,
    /// Cluster DNS servers; if empty, this node resolves Service names itself where it serves Services.
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
    /// The Service CIDR, served in every pod's network; `None` if another component serves it.
    pub service_cidr: Option<String>,
    /// The API address as reachable from this process. Used as backend of the Service `kubernetes` if its slices have
    /// none, since loopback addresses are not allowed there.
    pub api_endpoint: Option<SocketAddr>,
    /// The API address passed to pods, if the cluster IP of the Service `kubernetes` is not reachable.
    pub api_address: Option<(String, u16)>,
    /// The parent cgroup of pods; removed with the last of them.
    pub cgroup: String,
}

impl KubeletSettings {
    pub fn new(socket: PathBuf, root_dir: PathBuf, node_name: &str, pod_cidr: &str, kubernetes_version: &str) -> Self {
        Self {
            socket,
            root_dir,
            node_name: node_name.to_owned(),
            pod_cidr: pod_cidr.to_owned(),
            kubernetes_version: kubernetes_version.to_owned(),
            node_address: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            pods_max: 110,
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_cidr: Some("10.0.0.0/16".to_owned()),
            api_endpoint: None,
            api_address: None,
            cgroup: format!("/flotilla-{node_name}"),
        }
    }
}

/// The state shared by the components of a node.
pub(crate) struct KubeletNode {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub runtime: Runtime,
    pub settings: KubeletSettings,
    pub machine: MachineInfo,
    pub address: IpAddr,
    pub recorder: Recorder,
    pub pods: Mirror,
    pub controller: Controller<ObjectKey>,
    pub states: States,
    pub prober: Prober,
    pub tokens: TokenKeeper,
    pub pulls: Semaphore,
    pub samples: UsageSampler,
    pub resolving: NodeDns,
    pub services: Option<Arc<Services>>,
}

impl KubeletNode {
    /// Reconciles a pod now.
    pub fn wake(&self, key: &ObjectKey) {
        self.controller.queue().add_now(key.clone(), Priority::NORMAL);
    }

    /// Returns a process in the network namespace of a sandbox.
    pub async fn sandbox_pid(&self, id: &str) -> Result<Option<u64>, RuntimeError> {
        let status = self.runtime.sandbox_status(id, true).await?;
        let info = status.info.get("info").and_then(|info| serde_json::from_str::<Value>(info).ok());
        Ok(info.and_then(|info| info.get("pid")?.as_u64()).filter(|pid| *pid > 0))
    }

    pub fn api_address(&self) -> &ApiAddress {
        &self.settings.api_address
    }

    /// Returns the addresses of a pod: its own, or this machine's.
    pub fn pod_ips(&self, pod: &Object, sandbox_ips: &[String]) -> Vec<String> {
        if uses_host_network(pod) { vec![self.address.to_string()] } else { sandbox_ips.to_vec() }
    }

    pub fn facts(&self, pod_ips: Vec<String>) -> DownwardFacts {
        DownwardFacts {
            node_name: self.settings.node_name.clone(),
            host_ip: self.address.to_string(),
            pod_ips,
            node_cpu_millis: self.machine.cpus * 1000,
            node_memory_bytes: self.machine.memory_bytes,
        }
    }

    /// Returns the log directory of a pod, with one directory per container.
    pub fn log_directory(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.settings.root_dir.join("logs").join(format!("{namespace}_{name}_{uid}"))
    }

    pub fn cgroup_of(&self, uid: &str) -> String {
        format!("{}/pod{uid}", self.settings.cgroup)
    }
}
