//! Flags of every API server of ours: its address, storage, audit log, identities and limits.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use api_host::Storage;
use apiserver::admission::service_ip::ServiceRange;
use clap::{Args, ValueEnum};
use cluster_client::remote::addresses::AddressPolicy;
use manager_kinds::spec::STORAGE_BYTES_MIN;
use object::quantity::Quantity;
use pki::authority::DAY;

#[derive(Args)]
pub struct HostArgs {
    /// Directory for state, keys and kubeconfigs [default: ~/.flotilla].
    #[arg(long, env = "FLOTILLA_HOME", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:5443", value_name = "HOST:PORT")]
    pub bind: SocketAddr,
    /// Additional DNS name or IP address for the server certificate (can be repeated).
    #[arg(long = "tls-san", value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    tls: crate::tls_flags::TlsArgs,
    /// Validity of the server's own certificates, in days. They are renewed before they expire.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650), value_name = "DAYS")]
    leaf_cert_validity_days: u32,
    /// IPv4 network of the addresses that Services get.
    #[arg(long, default_value_t = ServiceRange::default(), value_parser = ServiceRange::parse, value_name = "CIDR")]
    service_cluster_ip_range: ServiceRange,
    /// Comma-separated kinds of addresses that are not connected to when Clusters, webhooks, APIServices and registries name them.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    forbidden_addresses: Vec<AddressKind>,
    /// URL written into kubeconfigs, if clients do not reach the server at --bind.
    #[arg(long, value_name = "URL")]
    advertise_url: Option<String>,
    /// Address at which other servers on the same etcd reach this one [default: --bind, or the local address of the route to etcd].
    #[arg(long, value_name = "HOST:PORT")]
    peer_address: Option<String>,
    /// Storage for objects: the data directory, an etcd cluster, or memory only (for tests).
    #[arg(long, value_enum, default_value_t = StorageKind::Embedded)]
    storage: StorageKind,
    /// Maximum space of embedded storage, in bytes or as a quantity such as 2Gi; 0 for no limit. At the limit, creates and
    /// growing updates are refused with 507 until objects are deleted or the limit is raised.
    #[arg(long, default_value = "0", value_parser = storage_bytes, value_name = "BYTES")]
    quota_backend_bytes: u64,
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
    #[command(flatten)]
    webhooks: crate::webhook_flags::WebhookArgs,
    /// Comma-separated admission plugins to disable.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    disable_admission_plugins: Vec<String>,
    #[command(flatten)]
    limits: crate::limits::LimitsArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AddressKind {
    LinkLocal,
    Loopback,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StorageKind {
    Embedded,
    Etcd,
    Memory,
}

impl HostArgs {
    /// Returns the data directory; `default_name` is its name in the home directory.
    pub fn data_dir(&self, default_name: &str) -> anyhow::Result<PathBuf> {
        match &self.data_dir {
            Some(directory) => Ok(directory.clone()),
            None => {
                let home = std::env::var_os("HOME").context("HOME is not set: use --data-dir DIR")?;
                Ok(PathBuf::from(home).join(default_name))
            }
        }
    }

    pub fn apply(self, host: &mut api_host::Options) -> anyhow::Result<()> {
        host.storage = self.storage()?;
        host.storage_bytes_max = self.quota_backend_bytes;
        host.names = self.names;
        host.tls = self.tls.read()?;
        host.leaf_validity = DAY * self.leaf_cert_validity_days;
        host.service_range = self.service_cluster_ip_range;
        host.addresses = AddressPolicy {
            forbids_link_local: self.forbidden_addresses.contains(&AddressKind::LinkLocal),
            forbids_loopback: self.forbidden_addresses.contains(&AddressKind::Loopback),
        };
        host.advertise = self.advertise_url;
        host.peer_address = self.peer_address;
        self.encryption.apply(host)?;
        self.audit.apply(host)?;
        host.event_ttl = Duration::from_secs(self.event_ttl);
        self.webhooks.apply(host)?;
        host.oidc = self.identity.oidc()?;
        host.authentication_config = self.identity.authentication_config.clone();
        host.static_tokens = self.identity.tokens()?;
        host.anonymous = self.identity.anonymous_auth;
        host.admission_off.extend(self.disable_admission_plugins);
        self.limits.apply(&mut host.limits);
        Ok(())
    }

    fn storage(&self) -> anyhow::Result<Storage> {
        if self.storage != StorageKind::Etcd && !self.etcd_servers.is_empty() {
            bail!("--etcd-servers requires --storage etcd");
        }
        if self.storage != StorageKind::Embedded && self.quota_backend_bytes > 0 {
            bail!("--quota-backend-bytes requires --storage embedded; an etcd has a flag of this name of its own");
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

/// Reads a size limit of the storage.
fn storage_bytes(text: &str) -> Result<u64, String> {
    let bytes = Quantity::parse(text).map_err(|problem| problem.to_string())?.value();
    match u64::try_from(bytes) {
        Ok(bytes) if bytes == 0 || bytes >= STORAGE_BYTES_MIN => Ok(bytes),
        _ => Err(format!("must be 0 for no limit, or at least {} MiB", STORAGE_BYTES_MIN >> 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_limit_is_bytes_or_a_quantity() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(storage_bytes(text).ok(), expected, "{text}");
        check("0", Some(0));
        check("16777216", Some(16 << 20));
        check("2Gi", Some(2 << 30));
        check("1G", Some(1_000_000_000));
        for wrong in ["15Mi", "1", "-1Gi", "much", ""] {
            check(wrong, None);
        }
    }
}
