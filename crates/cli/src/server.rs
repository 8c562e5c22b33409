//! `flotilla server`: runs a control plane until it is terminated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use control_plane::{ControlPlane, Options, Storage};

use crate::termination::Termination;

#[derive(Args)]
pub struct ServerArgs {
    /// Directory for state, keys and kubeconfigs [default: ~/.flotilla].
    #[arg(long, env = "FLOTILLA_HOME", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:5443", value_name = "HOST:PORT")]
    bind: SocketAddr,
    /// Additional DNS name or IP address for the server certificate (can be repeated).
    #[arg(long = "tls-san", value_name = "NAME")]
    names: Vec<String>,
    /// URL written into kubeconfigs, if clients do not reach the server at --bind.
    #[arg(long, value_name = "URL")]
    advertise_url: Option<String>,
    /// Address at which other servers on the same etcd reach this one [default: --bind, or the local address of the route to etcd].
    #[arg(long, value_name = "HOST:PORT")]
    peer_address: Option<String>,
    /// Storage for objects: the data directory, an etcd cluster, or memory only (for tests).
    #[arg(long, value_enum, default_value_t = StorageKind::Embedded)]
    storage: StorageKind,
    /// Comma-separated etcd endpoints.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    etcd_servers: Vec<String>,
    #[command(flatten)]
    etcd: crate::etcd::EtcdArgs,
    #[command(flatten)]
    encryption: crate::encryption::EncryptionArgs,
    #[command(flatten)]
    audit: crate::audit::AuditArgs,
    /// Time to live of events, in seconds.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    event_ttl: u64,
    #[command(flatten)]
    identity: crate::identity::IdentityArgs,
    /// Comma-separated admission plugins to disable.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    disable_admission_plugins: Vec<String>,
    /// Admission plugins to enable that are off by default: ServiceAccount (mounts tokens of this control plane into pods).
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    enable_admission_plugins: Vec<String>,
    #[command(flatten)]
    propagation: crate::propagation::PropagationArgs,
    #[command(flatten)]
    limits: crate::limits::LimitsArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StorageKind {
    Embedded,
    Etcd,
    Memory,
}

pub async fn run(args: ServerArgs) -> anyhow::Result<()> {
    let options = args.into_options()?;
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(options).await?;
    tracing::info!(
        address = %plane.address,
        kubeconfig = %plane.kubeconfig.display(),
        took = ?started.elapsed(),
        "the control plane is ready"
    );
    let ending = termination.asked_unless(plane.broken()).await;
    tracing::info!("shutting down, waiting for requests in flight");
    plane.stop().await;
    ending
}

impl ServerArgs {
    fn into_options(self) -> anyhow::Result<Options> {
        let storage = self.storage()?;
        let data_dir = match self.data_dir {
            Some(directory) => directory,
            None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set: use --data-dir DIR")?)
                .join(".flotilla"),
        };
        let mut options = Options::new(data_dir, self.bind);
        options.host.storage = storage;
        options.host.names = self.names;
        options.host.advertise = self.advertise_url;
        options.host.peer_address = self.peer_address;
        self.encryption.apply(&mut options.host)?;
        self.audit.apply(&mut options.host)?;
        options.host.event_ttl = Duration::from_secs(self.event_ttl);
        options.host.oidc = self.identity.oidc()?;
        options.host.static_tokens = self.identity.tokens()?;
        options.host.anonymous = self.identity.anonymous_auth;
        options.host.admission_off.retain(|step| !self.enable_admission_plugins.contains(step));
        options.host.admission_off.extend(self.disable_admission_plugins);
        options.propagation = self.propagation.read()?;
        self.limits.apply(&mut options.host.limits);
        Ok(options)
    }

    fn storage(&self) -> anyhow::Result<Storage> {
        if self.storage != StorageKind::Etcd && !self.etcd_servers.is_empty() {
            bail!("--etcd-servers requires --storage etcd");
        }
        Ok(match self.storage {
            StorageKind::Embedded => Storage::Embedded,
            StorageKind::Memory => Storage::Memory,
            StorageKind::Etcd if self.etcd_servers.is_empty() => {
                bail!("--storage etcd requires --etcd-servers https://HOST:2379[,...]")
            }
            StorageKind::Etcd => Storage::Etcd(self.etcd.options(&self.etcd_servers)?),
        })
    }
}
