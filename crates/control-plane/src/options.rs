//! Settings of a control plane.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::features::Features;
use core_controllers::AgentApproval;
use plane_api::searching::SearchAccess;
use tokio::runtime::Handle;

/// Context, cluster and user name in the kubeconfig, as existing scripts for Karmada expect.
const CONTEXT: &str = "karmada-apiserver";

/// Groups whose heartbeats get through while others flood the API server: pull agents and components of Karmada too.
const RESERVED_GROUPS: &[&str] = &[
    "system:karmada:agents",
    "system:nodes",
    "system:serviceaccounts:kube-system",
    "system:serviceaccounts:karmada-system",
];

/// Plugins that write values of this control plane into pods and claims. Pods and claims here are templates for members, which
/// have their own classes, defaults and tokens. Karmada disables ServiceAccount too; `--enable-admission-plugins` has
/// the others for parity with its API server.
const OFF_BY_DEFAULT: [&str; 5] =
    ["ServiceAccount", "Priority", "DefaultTolerationSeconds", "DefaultStorageClass", "PersistentVolumeClaimResize"];

/// Settings of the components that manage members and place workloads.
#[derive(Clone, Default)]
pub struct Propagation {
    pub features: Arc<Features>,
    pub federation: federation::Settings,
    pub scheduling: binding_scheduling::SchedulingSettings,
    pub fleet: fleet::Settings,
    pub services: services::ServiceSettings,
    pub autoscaling: autoscaling::AutoscalingSettings,
    pub member_sync: member_sync::Settings,
    /// Address of the estimator service; `None` serves none.
    pub estimator_server: Option<estimator::server::ServerSettings>,
    /// Management cluster of Cluster API whose clusters join by themselves.
    pub cluster_api: Option<cluster_client::RemoteConfig>,
    /// Allows ClusterTaintPolicies to add NoExecute taints.
    pub allow_no_execute_taint_policy: bool,
    /// Selects the agents whose certificates are approved automatically.
    pub agent_approval: AgentApproval,
    /// The address for clusters that register themselves, if they reach this server through another one.
    pub published: Option<PublishedAddress>,
    /// Selects the objects of members that search shows.
    pub search_access: SearchAccess,
    /// Runs the components apart from the requests, so that a burst of propagation does not delay them; `None` shares the
    /// runtime of the API server.
    pub background: Option<Handle>,
}

/// An address of a control plane with the CA of its server.
#[derive(Clone, Debug)]
pub struct PublishedAddress {
    pub url: String,
    pub ca_pem: String,
}

#[derive(Clone)]
pub struct Options {
    /// The API server, its store and its keys.
    pub host: api_host::Options,
    pub propagation: Propagation,
    /// Serves profiles of the whole process; not for planes that share it with others.
    pub profiling: bool,
}

impl Options {
    pub fn new(data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        let mut host = api_host::Options::new(CONTEXT, data_dir, bind);
        host.admission_off = OFF_BY_DEFAULT.map(str::to_owned).to_vec();
        host.limits.reserved_groups = RESERVED_GROUPS;
        Self { host, propagation: Propagation::default(), profiling: false }
    }
}
