//! TLS as a Kubernetes client needs it: whom to trust, and a client certificate that can change under way.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// Where systems keep the certificates they trust; the first that exists counts.
const SYSTEM_ROOTS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the certificates to trust")]
    ReadRoots(#[source] std::io::Error),
    #[error("no certificate to trust in what was given as the certificate authority")]
    NoRoots,
    #[error("not a usable certificate authority")]
    Roots(#[source] Error),
    #[error("no TLS configuration can be made")]
    Configure(#[source] Error),
    #[error("the client certificate is not readable PEM: {0}")]
    ClientPem(String),
    #[error("the client certificate and its key do not work together")]
    ClientKey(#[source] Error),
}

/// Whom a client trusts.
pub enum Trust {
    System,
    Roots(Vec<u8>),
    Anyone,
}

/// The client certificate in use. New connections present the newest.
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
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Configure)?;
    let builder = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyone { provider })),
        Trust::System => builder.with_root_certificates(system_roots()?),
        Trust::Roots(pem) => builder.with_root_certificates(read_roots(&pem)?),
    };
    let mut config = builder.with_client_cert_resolver(identity);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would go on with the certificate it began with.
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

/// A system's store may hold certificates we cannot read; those are left out, as others do.
fn system_roots() -> Result<RootCertStore, TlsError> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let mut paths = named.as_deref().into_iter().chain(SYSTEM_ROOTS.iter().copied());
    let mut roots = RootCertStore::empty();
    if let Some(path) = paths.find(|path| std::path::Path::new(path).exists()) {
        let pem = std::fs::read(path).map_err(TlsError::ReadRoots)?;
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    }
    Ok(roots)
}

/// `insecure-skip-tls-verify`: takes any certificate, but still checks that the peer holds its key.
#[derive(Debug)]
struct AcceptAnyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
