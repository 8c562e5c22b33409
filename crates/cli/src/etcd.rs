//! Flags for the connection to etcd.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use store::etcd::{EtcdOptions, Tls};

#[derive(Args, Clone)]
pub struct EtcdArgs {
    /// CA certificate of etcd
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in etcd
    #[arg(long, default_value = "/registry", value_name = "PREFIX")]
    etcd_prefix: String,
}

impl EtcdArgs {
    pub fn options(&self, servers: &[String]) -> anyhow::Result<EtcdOptions> {
        let mut options = EtcdOptions::new(servers.to_vec());
        options.prefix = self.etcd_prefix.clone();
        let identity = self.etcd_certfile.as_deref().zip(self.etcd_keyfile.as_deref());
        options.tls = tls("etcd", self.etcd_cafile.as_deref(), identity)?;
        Ok(options)
    }
}

/// The same flags for an etcd that is written to, where another one is read.
#[derive(Args, Clone)]
pub struct TargetEtcdArgs {
    /// Comma-separated endpoints of the etcd to write to, instead of a data directory
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub to_etcd: Vec<String>,
    /// CA certificate of the etcd to write to
    #[arg(long, value_name = "FILE")]
    to_etcd_cafile: Option<PathBuf>,
    /// Client certificate for the etcd to write to
    #[arg(long, value_name = "FILE", requires = "to_etcd_keyfile")]
    to_etcd_certfile: Option<PathBuf>,
    /// Key of that client certificate
    #[arg(long, value_name = "FILE", requires = "to_etcd_certfile")]
    to_etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in the etcd to write to
    #[arg(long, default_value = "/registry", value_name = "PREFIX")]
    to_etcd_prefix: String,
}

impl TargetEtcdArgs {
    pub fn options(&self) -> anyhow::Result<EtcdOptions> {
        let mut options = EtcdOptions::new(self.to_etcd.clone());
        options.prefix = self.to_etcd_prefix.clone();
        let identity = self.to_etcd_certfile.as_deref().zip(self.to_etcd_keyfile.as_deref());
        options.tls = tls("to-etcd", self.to_etcd_cafile.as_deref(), identity)?;
        Ok(options)
    }
}

/// Reads the files of flags that begin with `--FLAGS-`.
fn tls(flags: &str, ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> anyhow::Result<Option<Tls>> {
    let Some(ca) = ca else {
        if identity.is_some() {
            bail!("--{flags}-certfile requires --{flags}-cafile, the CA of etcd's certificate");
        }
        return Ok(None);
    };
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let identity_pem = match identity {
        Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
        None => None,
    };
    Ok(Some(Tls { ca_pem: read(ca)?, identity_pem }))
}
