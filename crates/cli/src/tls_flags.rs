//! Flags of server certificates, TLS versions and cipher suites.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api_host::{PairFiles, TlsOptions};
use clap::Args;
use pki::tls::server::TlsPolicy;

#[derive(Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate for clients, followed by its intermediates (PEM) [default: one signed by the server's own CA]. The file
    /// may change while the server runs.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Private key of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Certificate and key for clients that request one of the names (SNI) [default names: those of the certificate];
    /// can be repeated.
    #[arg(long, value_name = "CERT,KEY[:NAME,...]")]
    tls_sni_cert_key: Vec<String>,
    /// Minimum TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, default_value = "VersionTLS12", value_name = "VERSION")]
    tls_min_version: String,
    /// Comma-separated cipher suites to allow; suites of TLS 1.3 are restricted only if some are named [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    tls_cipher_suites: Vec<String>,
}

impl TlsArgs {
    pub fn read(&self) -> anyhow::Result<TlsOptions> {
        let default = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some(PairFiles { certificate: certificate.clone(), key: key.clone() }),
            _ => None,
        };
        let by_name = self.tls_sni_cert_key.iter().map(|text| read_named_pair(text)).collect::<Result<_, _>>()?;
        let policy = TlsPolicy::read(&self.tls_min_version, &self.tls_cipher_suites)
            .map_err(anyhow::Error::msg)
            .context("--tls-min-version and --tls-cipher-suites")?;
        Ok(TlsOptions { default, by_name, policy })
    }
}

/// Reads `CERT,KEY` or `CERT,KEY:NAME,...`.
fn read_named_pair(text: &str) -> anyhow::Result<(PairFiles, Vec<String>)> {
    let (files, names) = text.split_once(':').map_or((text, None), |(files, names)| (files, Some(names)));
    let names: Vec<String> = names.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
    match files.split(',').collect::<Vec<_>>()[..] {
        [certificate, key] if !certificate.is_empty() && !key.is_empty() && names.iter().all(|name| is_name(name)) => {
            Ok((PairFiles { certificate: certificate.into(), key: key.into() }, names))
        }
        _ => bail!("--tls-sni-cert-key {text:?} must be CERT,KEY or CERT,KEY:NAME,... with DNS names"),
    }
}

/// A DNS name; the first label may be `*`.
fn is_name(name: &str) -> bool {
    object::names::dns1123_subdomain(name.strip_prefix("*.").unwrap_or(name)).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_by_name_are_two_files_and_names() {
        let check = |text: &str, expected: Option<(&str, &str, &[&str])>| {
            let found = read_named_pair(text).ok().map(|(files, names)| (files.certificate, files.key, names));
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let expected = expected.map(|(cert, key, of)| (PathBuf::from(cert), PathBuf::from(key), names(of)));
            assert_eq!(found, expected, "{text}");
        };
        check("c.crt,c.key", Some(("c.crt", "c.key", &[])));
        check("c.crt,c.key:a.test,*.b.test", Some(("c.crt", "c.key", &["a.test", "*.b.test"])));
        for wrong in ["", "c.crt", "c.crt,", ",c.key", "a,b,c", "c.crt,c.key:", "c.crt,c.key:A b", "c.crt,c.key:*"] {
            check(wrong, None);
        }
    }
}
