//! TLS client configuration: trusted roots, client certificate and server name.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::certificate::{Certificate, KeyedCertificate};
use crate::error::PkiError;
use crate::key::PrivateKey;
use crate::pem;
use crate::tls::signatures::HandshakeSignatures;
use crate::tls::{certified_key, certified_pair, provider, root_store};

/// The servers a client trusts.
#[derive(Clone)]
pub enum ServerTrust {
    /// A PEM bundle; unusable certificates in it are skipped.
    Bundle(Vec<u8>),
    /// The operating system's trusted roots.
    System,
    /// Any server (`insecure-skip-tls-verify`): the connection is encrypted but not authenticated.
    Anyone,
}

/// Options of a TLS client; see [`ClientTls::build`].
pub struct ClientTlsOptions {
    pub trust: ServerTrust,
    pub identity: Option<Arc<ReloadableClientCert>>,
    /// `tls-server-name` of a kubeconfig: the name to request and verify instead of the host in the URL.
    pub server_name: Option<String>,
    pub alpn: Vec<Vec<u8>>,
}

impl ClientTlsOptions {
    /// HTTP/2 before HTTP/1.1, no client certificate, the URL's own host name.
    pub fn trusting(trust: ServerTrust) -> Self {
        Self { trust, identity: None, server_name: None, alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()] }
    }
}

/// A client configuration together with the server name.
#[derive(Clone, Debug)]
pub struct ClientTls {
    pub config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    pub fn build(options: ClientTlsOptions) -> Result<Self, PkiError> {
        let verifier: Arc<dyn ServerCertVerifier> = match options.trust {
            ServerTrust::Bundle(text) => Arc::new(BundleVerifier::new(&text)?),
            ServerTrust::System => Arc::new(BundleVerifier::new(&system_bundle()?.ok_or(PkiError::EmptyBundle)?)?),
            ServerTrust::Anyone => Arc::new(AnyoneVerifier::default()),
        };
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(PkiError::Tls)?.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match options.identity {
            Some(identity) => {
                let mut config = builder.with_client_cert_resolver(identity);
                // A resumed session keeps its original client certificate, which may have been replaced since.
                config.resumption = Resumption::disabled();
                config
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = options.alpn;
        let server_name = options.server_name.as_deref().map(parse_server_name).transpose()?;
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// The server name for a URL with this host.
    pub fn server_name_for(&self, host: &str) -> Result<ServerName<'static>, PkiError> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => parse_server_name(host),
        }
    }
}

/// A host as in a URL: IPv6 addresses may be in brackets.
fn parse_server_name(host: &str) -> Result<ServerName<'static>, PkiError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| PkiError::InvalidName { name: host.to_owned(), reason: "not a host name or address" })
}

/// The operating system's trusted roots as PEM, from the usual paths of Linux distributions and BSDs; `None` if there
/// are none. The first existing file is used, and must be readable.
pub fn system_bundle() -> Result<Option<Vec<u8>>, PkiError> {
    const PLACES: [&str; 5] = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/cert.pem",
    ];
    let chosen = std::env::var_os("SSL_CERT_FILE");
    let mut places = chosen.into_iter().map(PathBuf::from).chain(PLACES.iter().map(PathBuf::from));
    let Some(place) = places.find(|place| place.exists()) else { return Ok(None) };
    let read = std::fs::read(&place);
    read.map(Some).map_err(|error| PkiError::SystemBundle { path: place.display().to_string(), error })
}

/// Reports whether a server was refused because no trusted authority has signed its certificate. A self-signed certificate
/// that is an authority itself counts too, which webpki reports with an error of its own.
pub fn is_unknown_authority(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

/// The client certificate, replaceable while connections are open; empty sends none.
#[derive(Debug, Default)]
pub struct ReloadableClientCert {
    shown: ArcSwapOption<CertifiedKey>,
}

impl ReloadableClientCert {
    pub fn new(pair: &KeyedCertificate) -> Result<Self, PkiError> {
        Ok(Self { shown: ArcSwapOption::new(Some(certified_pair(pair)?)) })
    }

    /// From kubeconfig data: the certificate file may contain intermediates after the client's own certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PkiError> {
        let chain = Certificate::bundle_from_pem(chain)?;
        if chain.is_empty() {
            return Err(PkiError::MissingPemBlock { expected: pem::CERTIFICATE });
        }
        Ok(Self { shown: ArcSwapOption::new(Some(certified_key(&chain, &PrivateKey::from_pem(key)?)?)) })
    }

    pub fn replace(&self, pair: &KeyedCertificate) -> Result<(), PkiError> {
        self.shown.store(Some(certified_pair(pair)?));
        Ok(())
    }
}

impl ResolvesClientCert for ReloadableClientCert {
    fn resolve(&self, _root_hint_subjects: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.shown.load_full()
    }

    fn has_certs(&self) -> bool {
        self.shown.load().is_some()
    }
}

/// Verifies against a bundle, and accepts a server certificate that is itself in the bundle.
#[derive(Debug)]
struct BundleVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    bundle: Vec<Certificate>,
}

impl BundleVerifier {
    fn new(text: &[u8]) -> Result<Self, PkiError> {
        let blocks = pem::decode(text)?;
        let certificates = blocks.iter().filter(|block| block.label == pem::CERTIFICATE);
        let bundle: Vec<_> = certificates.filter_map(|block| Certificate::from_der(&block.der).ok()).collect();
        let roots = root_store(bundle.iter().map(Certificate::der))?;
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let webpki = webpki.map_err(|reason| PkiError::Tls(Error::General(reason.to_string())))?;
        Ok(Self { webpki, bundle })
    }

    /// Go trusts a pinned certificate, and so does every webhook or aggregated server whose self-signed certificate
    /// is its own caBundle; webpki rejects it for being an authority. Dates and name must still match.
    fn verify_pinned(
        &self,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
        refusal: Error,
    ) -> Result<ServerCertVerified, Error> {
        let Some(pinned) = self.bundle.iter().find(|certificate| certificate.der() == end_entity.as_ref()) else {
            return Err(refusal);
        };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < pinned.not_before().as_second() {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        if now > pinned.not_after().as_second() {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verdict.or_else(|refusal| self.verify_pinned(end_entity, server_name, now, refusal))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Accepts any certificate, but checks that the peer holds its key.
#[derive(Debug, Default)]
pub struct AnyoneVerifier {
    signatures: HandshakeSignatures,
}

impl ServerCertVerifier for AnyoneVerifier {
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
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}
