//! Flags for the connection to etcd.

use std::path::PathBuf;

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
        options.tls = self.tls()?;
        Ok(options)
    }

    fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let Some(ca) = &self.etcd_cafile else {
            if self.etcd_certfile.is_some() {
                bail!("--etcd-certfile requires --etcd-cafile, the CA of etcd's certificate");
            }
            return Ok(None);
        };
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let identity_pem = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok(Some(Tls { ca_pem: read(ca)?, identity_pem }))
    }
}
