//! The node: what all its parts share, and how they reach each other.

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
use crate::fields::Surroundings;
use crate::machine::Machine;
use crate::pod::uses_host_network;
use crate::probes::Prober;
use crate::sandbox::Resolving;
use crate::services::Services;
use crate::state::States;
use crate::usage::Samples;
use crate::volumes::tokens::TokenKeeper;

/// Images pulled at the same time.
pub(crate) const PULLS_MAX: usize = 4;

/// What a node is to be. `new` has Kubernetes' defaults for all that need not be said.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The runtime's socket.
    pub socket: PathBuf,
    /// Where pods keep their files and logs; made when it is not there.
    pub root_dir: PathBuf,
    pub node_name: String,
    /// Addresses of pods on this node, as the runtime's network plugin gives them out.
    pub pod_cidr: String,
    /// What the node says its version is: `v1.36.4`.
    pub kubernetes_version: String,
    /// Where this machine is reached; found out when not said.
    pub node_address: Option<IpAddr>,
    pub labels: BTreeMap<String, String>,
    /// As in `spec.taints` of a Node.
    pub taints: Vec<Value>,
    pub pods_max: u32,
    /// Name servers of the cluster; without any, this node answers for the names of Services where it serves them.
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
    /// The range of service addresses, served within every pod's network; `None` where something else serves them.
    pub service_cidr: Option<String>,
    /// Where this process reaches the API: what is behind the Service `kubernetes` when its slices do not say, as those of an
    /// API on the loopback cannot.
    pub api_endpoint: Option<SocketAddr>,
    /// Where pods are told to find the API, when the cluster IP of the Service `kubernetes` leads nowhere.
    pub api_address: Option<(String, u16)>,
    /// The cgroup below which pods are put; it is removed with the last of them.
    pub cgroup: String,
}

impl Settings {
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

/// What all parts of a node share.
pub(crate) struct Node {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub runtime: Runtime,
    pub settings: Settings,
    pub machine: Machine,
    pub address: IpAddr,
    pub recorder: Recorder,
    pub pods: Mirror,
    pub controller: Controller<ObjectKey>,
    pub states: States,
    pub prober: Prober,
    pub tokens: TokenKeeper,
    pub pulls: Semaphore,
    pub samples: Samples,
    pub resolving: Resolving,
    pub services: Option<Arc<Services>>,
}

impl Node {
    /// Looks at a pod again, now.
    pub fn wake(&self, key: &ObjectKey) {
        self.controller.queue().add_now(key.clone(), Priority::NORMAL);
    }

    /// A process in the network of a sandbox.
    pub async fn sandbox_pid(&self, id: &str) -> Result<Option<u64>, RuntimeError> {
        let status = self.runtime.sandbox_status(id, true).await?;
        let info = status.info.get("info").and_then(|info| serde_json::from_str::<Value>(info).ok());
        Ok(info.and_then(|info| info.get("pid")?.as_u64()).filter(|pid| *pid > 0))
    }

    pub fn api_address(&self) -> &ApiAddress {
        &self.settings.api_address
    }

    /// Where a pod is: its own addresses, or this machine's.
    pub fn pod_ips(&self, pod: &Object, sandbox_ips: &[String]) -> Vec<String> {
        if uses_host_network(pod) { vec![self.address.to_string()] } else { sandbox_ips.to_vec() }
    }

    pub fn surroundings(&self, pod_ips: Vec<String>) -> Surroundings {
        Surroundings {
            node_name: self.settings.node_name.clone(),
            host_ip: self.address.to_string(),
            pod_ips,
            node_cpu_millis: self.machine.cpus * 1000,
            node_memory_bytes: self.machine.memory_bytes,
        }
    }

    /// The folder of a pod's logs, one folder per container in it.
    pub fn log_directory(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.settings.root_dir.join("logs").join(format!("{namespace}_{name}_{uid}"))
    }

    pub fn cgroup_of(&self, uid: &str) -> String {
        format!("{}/pod{uid}", self.settings.cgroup)
    }
}
