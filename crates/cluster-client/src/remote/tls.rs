//! TLS for a Kubernetes client: trusted roots, and a replaceable client certificate.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use pki::tls::client::{AnyoneVerifier, system_bundle};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the certificates to trust")]
    ReadRoots(#[source] pki::error::PkiError),
    #[error("the certificate authority data contains no certificate")]
    NoRoots,
    #[error("not a usable certificate authority")]
    Roots(#[source] Error),
    #[error("no TLS configuration can be made")]
    Configure(#[source] Error),
    #[error("the client certificate is not readable PEM: {0}")]
    ClientPem(String),
    #[error("the client certificate and its key do not match")]
    ClientKey(#[source] Error),
}

/// The servers a client trusts.
pub enum Trust {
    System,
    Roots(Vec<u8>),
    Anyone,
}

/// The current client certificate. New connections present the newest.
#[derive(Default)]
pub struct ClientIdentity {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl ClientIdentity {
    pub fn set(&self, certificate_pem: &[u8], key_pem: &[u8]) -> Result<(), TlsError> {
        let unreadable = |e: rustls_pki_types::pem::Error| TlsError::ClientPem(e.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate_pem).collect();
        let chain = chain.map_err(unreadable)?;
        if chain.is_empty() {
            return Err(TlsError::ClientPem("no certificate in it".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(unreadable)?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::ClientKey)?;
        *self.current.write() = Some(Arc::new(certified));
        Ok(())
    }
}

impl ResolvesClientCert for ClientIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current.read().clone()
    }

    fn has_certs(&self) -> bool {
        self.current.read().is_some()
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientIdentity {{ has_certs: {} }}", self.has_certs())
    }
}

pub fn client_config(trust: Trust, identity: Arc<ClientIdentity>) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Configure)?;
    let builder = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyoneVerifier::default())),
        Trust::System => builder.with_root_certificates(system_roots()?),
        Trust::Roots(pem) => builder.with_root_certificates(read_roots(&pem)?),
    };
    let mut config = builder.with_client_cert_resolver(identity);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would keep its original certificate.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn read_roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| TlsError::NoRoots)?;
        roots.add(certificate).map_err(TlsError::Roots)?;
    }
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}

/// A system's store may contain unreadable certificates; those are skipped.
fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let pem = system_bundle().map_err(TlsError::ReadRoots)?.unwrap_or_default();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    Ok(roots)
}
