//! Settings of a control plane.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::features::Features;
use core_controllers::AgentApproval;

/// Context, cluster and user name in the kubeconfig, as existing scripts for Karmada expect.
const CONTEXT: &str = "karmada-apiserver";

/// Groups whose heartbeats get through while others flood the API server: pull agents and components of Karmada too.
const RESERVED_GROUPS: &[&str] = &[
    "system:karmada:agents",
    "system:nodes",
    "system:serviceaccounts:kube-system",
    "system:serviceaccounts:karmada-system",
];

/// Settings of the components that manage members and place workloads.
#[derive(Clone, Default)]
pub struct Propagation {
    pub features: Arc<Features>,
    pub federation: federation::Settings,
    pub scheduling: binding_scheduling::SchedulingSettings,
    pub fleet: fleet::Settings,
    pub member_sync: member_sync::Settings,
    /// Allows ClusterTaintPolicies to add NoExecute taints.
    pub allow_no_execute_taint_policy: bool,
    /// Selects the agents whose certificates are approved automatically.
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
        // As in Karmada: pod templates must reach members without a token of the control plane.
        host.admission_off = vec!["ServiceAccount".to_owned()];
        host.limits.reserved_groups = RESERVED_GROUPS;
        Self { host, propagation: Propagation::default() }
    }
}
