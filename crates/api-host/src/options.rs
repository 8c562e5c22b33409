//! What an API server and its surroundings can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::audit::Level;
use apiserver::auth::{OidcConfig, User};
use apiserver::documents::Version;
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
    Etcd(store::etcd::EtcdOptions),
}

#[derive(Clone)]
pub struct Options {
    pub data_dir: PathBuf,
    pub bind: SocketAddr,
    /// Names and addresses beside the usual ones that the server certificate is valid for.
    pub names: Vec<String>,
    /// What kubeconfigs point at when it is not the bind address (a load balancer, a forwarded port).
    pub advertise: Option<String>,
    /// Where servers on the same storage reach this one, `HOST:PORT`; found out when it is not given.
    pub peer_address: Option<String>,
    /// Cluster, user and context in the administrator's kubeconfig.
    pub context: String,
    /// Name of that kubeconfig in the data directory.
    pub kubeconfig_file: String,
    pub storage: Storage,
    pub version: Version,
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
}

impl Options {
    pub fn new(context: &str, data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        Self {
            data_dir: data_dir.into(),
            bind,
            names: Vec::new(),
            advertise: None,
            peer_address: None,
            context: context.to_owned(),
            kubeconfig_file: format!("{context}.config"),
            storage: Storage::default(),
            version: Version::default(),
            audit_log: None,
            audit_level: Level::None,
            limits: LimitsConfig::default(),
            event_ttl: Duration::from_secs(3600),
            oidc: None,
            static_tokens: Vec::new(),
            anonymous: true,
            admission_off: Vec::new(),
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir.join(&self.kubeconfig_file)
    }
}
