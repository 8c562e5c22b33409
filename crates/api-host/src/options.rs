//! Settings of an API server, its storage and its keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::admission::service_ip::ServiceRange;
use apiserver::audit::{BatchSettings, Level, Policy, Rotation};
use apiserver::auth::webhook::WebhookEndpoint;
use apiserver::auth::{Authorizer, OidcConfig, TokenAuthenticator};
use apiserver::documents::Version;
use apiserver::http::PlainPaths;
use apiserver::limits::LimitsConfig;
use cluster_client::remote::addresses::AddressPolicy;
use object::request::User;
use pki::authority::LEAF_LIFETIME;
use pki::token::Secret;

use crate::provided_tls::TlsOptions;

/// Storage engine for objects.
#[derive(Clone, Debug, Default)]
pub enum Storage {
    /// In the data directory, durable.
    #[default]
    Embedded,
    /// Lost when the process ends; for tests.
    Memory,
    Etcd(store::etcd::EtcdOptions),
}

/// Encryption of stored values.
#[derive(Clone, Debug, Default)]
pub struct EncryptionOptions {
    /// An `EncryptionConfiguration`. Without one, embedded storage uses the file in its data directory and creates it.
    pub provider_config: Option<PathBuf>,
    /// Applies changes of `provider_config` without a restart.
    pub automatic_reload: bool,
}

#[derive(Clone)]
pub struct Options {
    pub data_dir: PathBuf,
    pub bind: SocketAddr,
    /// Additional names and addresses of the serving certificate.
    pub names: Vec<String>,
    pub tls: TlsOptions,
    /// Validity of the server's own certificates.
    pub leaf_validity: Duration,
    /// Addresses that Services get.
    pub service_range: ServiceRange,
    /// Addresses that are not connected to when objects of users name them.
    pub addresses: AddressPolicy,
    /// URL in kubeconfigs when it is not the bind address (a load balancer, a forwarded port).
    pub advertise: Option<String>,
    /// Address for other servers on the same storage, `HOST:PORT`; detected when not set.
    pub peer_address: Option<String>,
    /// Cluster, user and context in the administrator's kubeconfig.
    pub context: String,
    /// Name of that kubeconfig in the data directory.
    pub kubeconfig_file: String,
    /// Plain HTTP listeners for metrics and health checks.
    pub plain_listeners: BTreeMap<SocketAddr, PlainPaths>,
    pub storage: Storage,
    /// Most bytes that embedded storage may use; 0 is no limit.
    pub storage_bytes_max: u64,
    /// Refuses to start on a storage without a control plane, instead of creating one with new keys.
    pub requires_existing_data: bool,
    pub encryption: EncryptionOptions,
    pub version: Version,
    pub audit_log: Option<PathBuf>,
    /// Requests recorded in the audit log.
    pub audit_policy: Policy,
    pub audit_rotation: Rotation,
    /// Webhook that gets the recorded requests.
    pub audit_webhook: Option<(WebhookEndpoint, BatchSettings)>,
    pub limits: LimitsConfig,
    pub event_ttl: Duration,
    pub oidc: Option<OidcConfig>,
    /// Tokens from a file, each with its user.
    pub static_tokens: Vec<(Secret, User)>,
    /// Tokens that a component of this server issues and revokes.
    pub issued_tokens: Option<Arc<dyn TokenAuthenticator>>,
    /// Webhook for bearer tokens that nothing else here knows, and the time its answers are kept.
    pub token_webhook: Option<(WebhookEndpoint, Duration)>,
    /// The authorizers in the order in which they are asked.
    pub authorizers: Vec<Authorizer>,
    /// An `AuthenticationConfiguration`; changes apply without a restart.
    pub authentication_config: Option<PathBuf>,
    /// An `AuthorizationConfiguration`, which replaces `authorizers`; changes apply without a restart.
    pub authorization_config: Option<PathBuf>,
    /// Serves health, version and `kube-public/cluster-info` to callers without credentials.
    pub anonymous: bool,
    /// Names of admission steps to disable.
    pub admission_off: Vec<String>,
    /// Names of admission steps that were asked for. An unknown one is reported and has no effect.
    pub admission_on: Vec<String>,
}

impl Options {
    pub fn new(context: &str, data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        Self {
            data_dir: data_dir.into(),
            bind,
            names: Vec::new(),
            tls: TlsOptions::default(),
            leaf_validity: LEAF_LIFETIME,
            service_range: ServiceRange::default(),
            addresses: AddressPolicy::default(),
            advertise: None,
            peer_address: None,
            context: context.to_owned(),
            kubeconfig_file: format!("{context}.config"),
            plain_listeners: BTreeMap::new(),
            storage: Storage::default(),
            storage_bytes_max: 0,
            requires_existing_data: false,
            encryption: EncryptionOptions::default(),
            version: Version::default(),
            audit_log: None,
            audit_policy: Policy::everything(Level::Metadata),
            audit_rotation: Rotation::default(),
            audit_webhook: None,
            limits: LimitsConfig::default(),
            event_ttl: Duration::from_secs(3600),
            oidc: None,
            static_tokens: Vec::new(),
            issued_tokens: None,
            token_webhook: None,
            authorizers: vec![Authorizer::Rbac],
            authentication_config: None,
            authorization_config: None,
            anonymous: true,
            admission_off: Vec::new(),
            admission_on: Vec::new(),
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir.join(&self.kubeconfig_file)
    }
}
