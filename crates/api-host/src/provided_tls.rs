//! Server certificates from files, and the TLS versions and cipher suites of the listener.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use pki::tls::server::{ProvidedCertificates, ServingPair, TlsPolicy};

/// The name by which components of the control plane verify the server's own certificate.
pub(crate) const OWN_NAME: &str = "kubernetes.default.svc";

/// TLS settings of the listener.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Certificate and key for clients that request no other certificate by name.
    pub default: Option<PairFiles>,
    /// Certificates for clients that request a name, and the names; without names those of the certificate.
    pub by_name: Vec<(PairFiles, Vec<String>)>,
    pub policy: TlsPolicy,
}

/// A certificate file, with its intermediates, and its key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TlsOptions {
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let pairs = self.default.iter().chain(self.by_name.iter().map(|(pair, _)| pair));
        pairs.flat_map(|pair| [pair.certificate.clone(), pair.key.clone()]).collect()
    }

    pub(crate) fn load(&self) -> anyhow::Result<ProvidedCertificates> {
        let default = self.default.as_ref().map(PairFiles::load).transpose()?;
        let mut by_name = Vec::new();
        for (files, names) in &self.by_name {
            let pair = files.load()?;
            let names = if names.is_empty() { pair.names().to_vec() } else { names.clone() };
            ensure!(!names.is_empty(), "{} has no DNS names: name some after the files", files.certificate.display());
            by_name.push((names, pair));
        }
        Ok(ProvidedCertificates { default, by_name })
    }
}

impl PairFiles {
    fn load(&self) -> anyhow::Result<ServingPair> {
        let read = |file: &PathBuf| std::fs::read(file).with_context(|| format!("cannot read {}", file.display()));
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        ServingPair::from_pem(&certificate, &key)
            .with_context(|| format!("cannot use {} with {}", self.certificate.display(), self.key.display()))
    }
}
