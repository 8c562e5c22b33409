//! What a control plane can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::features::Features;
use apiserver::audit::Level;
use apiserver::auth::{OidcConfig, User};
use apiserver::limits::LimitsConfig;
use pki::token::Secret;

/// Where objects are kept.
#[derive(Clone, Debug, Default)]
pub enum Storage {
    /// In the data directory, durable.
    #[default]
    Embedded,
    /// Gone when the process ends; for tests.
    Memory,
    Etcd(store::etcd::Options),
}

/// How members are looked after and workloads placed on them.
#[derive(Clone, Default)]
pub struct Propagation {
    pub features: Arc<Features>,
    pub federation: federation::Settings,
    pub scheduling: scheduling::Settings,
    pub fleet: fleet::Settings,
    pub member_sync: member_sync::Settings,
    /// May ClusterTaintPolicies put on taints that evict?
    pub allow_no_execute_taint_policy: bool,
}

#[derive(Clone)]
pub struct Options {
    pub data_dir: PathBuf,
    pub bind: SocketAddr,
    /// Names and addresses beside the usual ones that the server certificate is valid for.
    pub names: Vec<String>,
    /// What kubeconfigs point at when it is not the bind address (a load balancer, a forwarded port).
    pub advertise: Option<String>,
    pub storage: Storage,
    pub audit_log: Option<PathBuf>,
    pub audit_level: Level,
    pub limits: LimitsConfig,
    pub event_ttl: Duration,
    pub oidc: Option<OidcConfig>,
    /// Tokens known from a file, each with its user.
    pub static_tokens: Vec<(Secret, User)>,
    /// Whether health, version and `kube-public/cluster-info` answer callers without credentials.
    pub anonymous: bool,
    /// Admission steps left out, by name.
    pub admission_off: Vec<String>,
    pub propagation: Propagation,
}

impl Options {
    pub fn new(data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        Self {
            data_dir: data_dir.into(),
            bind,
            names: Vec::new(),
            advertise: None,
            storage: Storage::default(),
            audit_log: None,
            audit_level: Level::None,
            limits: LimitsConfig::default(),
            event_ttl: Duration::from_secs(3600),
            oidc: None,
            static_tokens: Vec::new(),
            anonymous: true,
            // As in Karmada: a pod template must reach members without a token of the control plane in it.
            admission_off: vec!["ServiceAccount".to_owned()],
            propagation: Propagation::default(),
        }
    }
}
