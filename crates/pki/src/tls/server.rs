//! TLS server configuration: a replaceable certificate, and whether to request client certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ProtocolVersion, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::certificate::{Certificate, KeyedCertificate};
use crate::error::PkiError;
use crate::key::PrivateKey;
use crate::pem;
use crate::tls::client_trust::AskingVerifier;
use crate::tls::{certified_key, certified_pair, provider};

/// The handling of client certificates. They are never required: most callers use tokens.
pub enum ClientCertificates {
    /// Do not request one.
    Ignore,
    /// Request one, check only that the client holds the key, and let the caller verify the chain per connection with
    /// [`ClientTrust::verify`](crate::tls::client_trust::ClientTrust::verify). An unknown certificate then gets a 401
    /// as from kube-apiserver, not a TLS alert.
    Ask,
}

/// Protocol versions and cipher suites of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPolicy {
    min: TlsVersion,
    /// Names in the notation of the TLS registry; empty allows all.
    suites: Vec<String>,
}

/// A protocol version, with the name that kube-apiserver's flag has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

impl Default for TlsPolicy {
    fn default() -> Self {
        Self { min: TlsVersion::Tls12, suites: Vec::new() }
    }
}

impl TlsPolicy {
    /// Reads the names that kube-apiserver's flags have; the error says which are known. As in Go, suites of TLS 1.3
    /// are restricted only when some are named.
    pub fn read(min: &str, suites: &[String]) -> Result<Self, String> {
        let min = match min {
            "VersionTLS12" => TlsVersion::Tls12,
            "VersionTLS13" => TlsVersion::Tls13,
            other => return Err(format!("the TLS version {other:?} must be VersionTLS12 or VersionTLS13")),
        };
        let known: Vec<String> = provider().cipher_suites.iter().map(suite_name).collect();
        if let Some(unknown) = suites.iter().find(|suite| !known.contains(suite)) {
            return Err(format!("the cipher suite {unknown:?} must be one of {}", known.join(", ")));
        }
        Ok(Self { min, suites: suites.to_vec() })
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = CryptoProvider::clone(&provider());
        let is_tls13 = |suite: &SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_3;
        let is_named = |suite: &SupportedCipherSuite| self.suites.contains(&suite_name(suite));
        let names_tls13 = provider.cipher_suites.iter().any(|suite| is_tls13(suite) && is_named(suite));
        if !self.suites.is_empty() {
            provider.cipher_suites.retain(|suite| is_named(suite) || (is_tls13(suite) && !names_tls13));
        }
        Arc::new(provider)
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        match self.min {
            TlsVersion::Tls12 => rustls::ALL_VERSIONS.to_vec(),
            TlsVersion::Tls13 => vec![&rustls::version::TLS13],
        }
    }
}

/// The name in the TLS registry; the library shortens those of TLS 1.3.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_")
}

/// TLS 1.2 and up, HTTP/2 before HTTP/1.1.
pub fn server_config(
    resolver: Arc<dyn ResolvesServerCert>,
    client_certificates: ClientCertificates,
) -> Result<ServerConfig, PkiError> {
    server_config_under(&TlsPolicy::default(), resolver, client_certificates)
}

/// HTTP/2 before HTTP/1.1, with these versions and cipher suites.
pub fn server_config_under(
    policy: &TlsPolicy,
    resolver: Arc<dyn ResolvesServerCert>,
    client_certificates: ClientCertificates,
) -> Result<ServerConfig, PkiError> {
    let builder = ServerConfig::builder_with_provider(policy.provider()).with_protocol_versions(&policy.versions());
    let builder = builder.map_err(PkiError::Tls)?;
    let builder = match client_certificates {
        ClientCertificates::Ignore => builder.with_no_client_auth(),
        ClientCertificates::Ask => builder.with_client_cert_verifier(Arc::new(AskingVerifier::default())),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A certificate with its intermediates and its key.
#[derive(Clone, Debug)]
pub struct ServingPair {
    certified: Arc<CertifiedKey>,
    names: Vec<String>,
}

impl ServingPair {
    /// Reads PEM: the certificate first, then its intermediates.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PkiError> {
        let chain = Certificate::bundle_from_pem(chain)?;
        let leaf = chain.first().ok_or(PkiError::MissingPemBlock { expected: pem::CERTIFICATE })?;
        let names = leaf.alternative_names().dns_names.clone();
        Ok(Self { certified: certified_key(&chain, &PrivateKey::from_pem(key)?)?, names })
    }

    /// The DNS names of the certificate.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Certificates that the operator provides, besides the server's own.
#[derive(Clone, Debug, Default)]
pub struct ProvidedCertificates {
    /// For clients that request no name, or one that no other certificate is for.
    pub default: Option<ServingPair>,
    /// For clients that request one of the names (SNI); `*.example.org` covers one label.
    pub by_name: Vec<(Vec<String>, ServingPair)>,
}

/// The server certificate, replaceable without touching open connections or the listener.
#[derive(Debug)]
pub struct ReloadableCertResolver {
    shown: ArcSwap<Shown>,
}

#[derive(Debug, Clone)]
struct Shown {
    own: Arc<CertifiedKey>,
    own_names: Vec<String>,
    default: Option<Arc<CertifiedKey>>,
    by_name: BTreeMap<String, Arc<CertifiedKey>>,
}

impl ReloadableCertResolver {
    pub fn new(own: &KeyedCertificate) -> Result<Self, PkiError> {
        let own_names = own.certificate.alternative_names().dns_names.clone();
        let shown = Shown { own: certified_pair(own)?, own_names, default: None, by_name: BTreeMap::new() };
        Ok(Self { shown: ArcSwap::from_pointee(shown) })
    }

    /// Replaces the server's own certificate for new connections.
    pub fn replace(&self, own: &KeyedCertificate) -> Result<(), PkiError> {
        let certified = certified_pair(own)?;
        let own_names = &own.certificate.alternative_names().dns_names;
        self.shown.rcu(|shown| Shown { own: certified.clone(), own_names: own_names.clone(), ..Shown::clone(shown) });
        Ok(())
    }

    /// Replaces the provided certificates for new connections. Clients that request `reserved`, or a name of the
    /// server's own certificate that no provided one has, still get the server's own.
    pub fn provide(&self, provided: &ProvidedCertificates, reserved: &str) {
        let mut by_name = BTreeMap::new();
        let defaults = provided.default.iter().map(|pair| (&pair.names, pair));
        for (names, pair) in defaults.chain(provided.by_name.iter().map(|(names, pair)| (names, pair))) {
            by_name.extend(names.iter().map(|name| (name.to_ascii_lowercase(), pair.certified.clone())));
        }
        by_name.remove(reserved);
        let default = provided.default.as_ref().map(|pair| pair.certified.clone());
        self.shown.rcu(|shown| Shown { default: default.clone(), by_name: by_name.clone(), ..Shown::clone(shown) });
    }

    fn pick(&self, server_name: Option<&str>) -> Arc<CertifiedKey> {
        let shown = self.shown.load();
        let default = shown.default.as_ref().unwrap_or(&shown.own);
        let Some(name) = server_name.map(str::to_ascii_lowercase) else { return default.clone() };
        let parent = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let wildcard = || parent.as_ref().and_then(|parent| shown.by_name.get(parent));
        let is_own = |name: &String| shown.own_names.contains(name);
        let own = || (is_own(&name) || parent.as_ref().is_some_and(is_own)).then_some(&shown.own);
        shown.by_name.get(&name).or_else(wildcard).or_else(own).unwrap_or(default).clone()
    }
}

impl ResolvesServerCert for ReloadableCertResolver {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pick(client_hello.server_name()))
    }
}
