//! What a control plane can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::features::Features;
use core_controllers::AgentApproval;

/// The context (and cluster and user) name in the kubeconfig everybody's scripts expect.
const CONTEXT: &str = "karmada-apiserver";

/// How members are looked after and workloads placed on them.
#[derive(Clone, Default)]
pub struct Propagation {
    pub features: Arc<Features>,
    pub federation: federation::Settings,
    pub scheduling: binding_scheduling::SchedulingSettings,
    pub fleet: fleet::Settings,
    pub member_sync: member_sync::Settings,
    /// May ClusterTaintPolicies put on taints that evict?
    pub allow_no_execute_taint_policy: bool,
    /// Which agents get certificates without a person.
    pub agent_approval: AgentApproval,
}

#[derive(Clone)]
pub struct Options {
    /// The API server, its store and its keys.
    pub host: api_host::Options,
    pub propagation: Propagation,
}

impl Options {
    pub fn new(data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        let mut host = api_host::Options::new(CONTEXT, data_dir, bind);
        // As in Karmada: a pod template must reach members without a token of the control plane in it.
        host.admission_off = vec!["ServiceAccount".to_owned()];
        Self { host, propagation: Propagation::default() }
    }
}
