//! TLS server configuration: a replaceable certificate, and whether to request client certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::KeyedCertificate;
use crate::error::PkiError;
use crate::tls::client_trust::AskingVerifier;
use crate::tls::{certified_pair, provider};

/// The handling of client certificates. They are never required: most callers use tokens.
pub enum ClientCertificates {
    /// Do not request one.
    Ignore,
    /// Request one, check only that the client holds the key, and let the caller verify the chain per connection with
    /// [`ClientTrust::verify`](crate::tls::client_trust::ClientTrust::verify). An unknown certificate then gets a 401
    /// as from kube-apiserver, not a TLS alert.
    Ask,
}

/// TLS 1.2 and up, HTTP/2 before HTTP/1.1.
pub fn server_config(
    resolver: Arc<dyn ResolvesServerCert>,
    client_certificates: ClientCertificates,
) -> Result<ServerConfig, PkiError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(PkiError::Tls)?;
    let builder = match client_certificates {
        ClientCertificates::Ignore => builder.with_no_client_auth(),
        ClientCertificates::Ask => builder.with_client_cert_verifier(Arc::new(AskingVerifier::default())),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The server certificate, replaceable without touching open connections or the listener.
#[derive(Debug)]
pub struct ReloadableCertResolver {
    shown: ArcSwap<Shown>,
}

#[derive(Debug, Clone)]
struct Shown {
    default: Arc<CertifiedKey>,
    by_name: BTreeMap<String, Arc<CertifiedKey>>,
}

impl ReloadableCertResolver {
    pub fn new(default: &KeyedCertificate) -> Result<Self, PkiError> {
        let shown = Shown { default: certified_pair(default)?, by_name: BTreeMap::new() };
        Ok(Self { shown: ArcSwap::from_pointee(shown) })
    }

    /// Replaces the certificate for new connections.
    pub fn replace(&self, default: &KeyedCertificate) -> Result<(), PkiError> {
        let default = certified_pair(default)?;
        self.shown.rcu(|shown| Shown { default: default.clone(), by_name: shown.by_name.clone() });
        Ok(())
    }

    /// Another certificate for clients that request one of `names` (SNI); `*.example.org` covers one label.
    pub fn replace_for_names(&self, names: &[String], pair: &KeyedCertificate) -> Result<(), PkiError> {
        let certified = certified_pair(pair)?;
        self.shown.rcu(|shown| {
            let mut shown = Shown::clone(shown);
            for name in names {
                shown.by_name.insert(name.to_ascii_lowercase(), certified.clone());
            }
            shown
        });
        Ok(())
    }

    fn pick(&self, server_name: Option<&str>) -> Arc<CertifiedKey> {
        let shown = self.shown.load();
        let Some(name) = server_name.map(str::to_ascii_lowercase) else { return shown.default.clone() };
        let wildcard = || name.split_once('.').and_then(|(_, parent)| shown.by_name.get(&format!("*.{parent}")));
        shown.by_name.get(&name).or_else(wildcard).unwrap_or(&shown.default).clone()
    }
}

impl ResolvesServerCert for ReloadableCertResolver {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pick(client_hello.server_name()))
    }
}
