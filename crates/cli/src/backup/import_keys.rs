//! The keys of a Karmada that a new control plane continues to use.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use pki::authority::CertificateAuthority;
use pki::key::PrivateKey;
use pki::key_dir::{PRIVATE, PUBLIC, name};
use store::snapshot::SnapshotFile;

#[derive(Args)]
#[command(next_help_heading = "Keys")]
pub struct ImportKeysArgs {
    /// CA of the Karmada: --client-ca-file of its kube-apiserver
    #[arg(long, value_name = "FILE", requires = "ca_key_file")]
    ca_file: Option<PathBuf>,
    /// Key of that CA: --cluster-signing-key-file of its kube-controller-manager
    #[arg(long, value_name = "FILE", requires = "ca_file")]
    ca_key_file: Option<PathBuf>,
    /// Private key of ServiceAccount tokens: --service-account-signing-key-file of its kube-apiserver
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Option<PathBuf>,
    /// CA for aggregated servers: --requestheader-client-ca-file of its kube-apiserver
    #[arg(long, value_name = "FILE", requires = "front_proxy_ca_key_file")]
    front_proxy_ca_file: Option<PathBuf>,
    /// Key of that CA
    #[arg(long, value_name = "FILE", requires = "front_proxy_ca_file")]
    front_proxy_ca_key_file: Option<PathBuf>,
}

/// Keys for the new data directory.
#[derive(Default)]
pub struct ImportedKeys {
    pub files: Vec<SnapshotFile>,
    has_authority: bool,
    has_signing_key: bool,
}

impl ImportKeysArgs {
    /// Reads the files and checks that they belong together.
    pub fn read(&self) -> anyhow::Result<ImportedKeys> {
        let mut keys = ImportedKeys::default();
        if let (Some(certificate), Some(key)) = (&self.ca_file, &self.ca_key_file) {
            keys.add_authority(name::AUTHORITY, certificate, key)?;
            keys.has_authority = true;
        }
        if let (Some(certificate), Some(key)) = (&self.front_proxy_ca_file, &self.front_proxy_ca_key_file) {
            keys.add_authority(name::FRONT_PROXY_AUTHORITY, certificate, key)?;
        }
        if let Some(path) = &self.service_account_key_file {
            let pem = read(path)?;
            PrivateKey::from_pem(&pem).with_context(|| format!("{} has no usable private key", path.display()))?;
            keys.add(format!("{}.key", name::SERVICE_ACCOUNT), PRIVATE, pem);
            keys.has_signing_key = true;
        }
        Ok(keys)
    }
}

impl ImportedKeys {
    fn add_authority(&mut self, stem: &str, certificate: &Path, key: &Path) -> anyhow::Result<()> {
        let (certificate_pem, key_pem) = (read(certificate)?, read(key)?);
        CertificateAuthority::from_pem(&certificate_pem, &key_pem).with_context(|| {
            format!("{} and {} are not a CA certificate and its key", certificate.display(), key.display())
        })?;
        self.add(format!("{stem}.crt"), PUBLIC, certificate_pem);
        self.add(format!("{stem}.key"), PRIVATE, key_pem);
        Ok(())
    }

    fn add(&mut self, name: String, mode: u32, bytes: Vec<u8>) {
        self.files.push(SnapshotFile { path: format!("pki/{name}"), mode, bytes });
    }

    /// Describes which credentials stay valid.
    pub fn report(&self) -> String {
        let authority = match self.has_authority {
            true => "taken over: kubeconfigs and agents stay valid",
            false => "NEW: kubeconfigs and agents of the Karmada stop working (--ca-file, --ca-key-file)",
        };
        let signing = match self.has_signing_key {
            true => "taken over: ServiceAccount tokens stay valid",
            false => "NEW: ServiceAccount tokens of the Karmada stop working (--service-account-key-file)",
        };
        format!("\nKeys:\n  CA                  {authority}\n  ServiceAccount key  {signing}\n")
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(directory: &Path, certificate: &str, key: &str) -> ImportKeysArgs {
        ImportKeysArgs {
            ca_file: Some(directory.join(certificate)),
            ca_key_file: Some(directory.join(key)),
            service_account_key_file: Some(directory.join(key)),
            front_proxy_ca_file: None,
            front_proxy_ca_key_file: None,
        }
    }

    #[test]
    fn keys_must_belong_to_their_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let now = jiff::Timestamp::now();
        for name in ["a", "b"] {
            let key = PrivateKey::generate().unwrap();
            let authority = CertificateAuthority::self_signed_with_key(name, key, now).unwrap();
            std::fs::write(directory.path().join(format!("{name}.crt")), authority.certificate().to_pem()).unwrap();
            std::fs::write(directory.path().join(format!("{name}.key")), authority.key().to_pem()).unwrap();
        }
        let keys = args(directory.path(), "a.crt", "a.key").read().unwrap();
        let names: Vec<&str> = keys.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["pki/ca.crt", "pki/ca.key", "pki/sa.key"]);
        assert!(keys.report().contains("agents stay valid"), "{}", keys.report());
        for (certificate, key) in [("a.crt", "b.key"), ("a.key", "a.key"), ("missing", "a.key")] {
            assert!(args(directory.path(), certificate, key).read().is_err(), "{certificate} {key}");
        }
    }
}
