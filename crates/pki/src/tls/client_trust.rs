//! Trust in client certificates: a replaceable set of authorities, checked during or after the handshake.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::certificate::Certificate;
use crate::error::PkiError;
use crate::identity::{ClientIdentity, parse_client_identity};
use crate::tls::signatures::HandshakeSignatures;
use crate::tls::{provider, root_store};

/// The authorities whose client certificates are trusted. Keep one per purpose: clients and the front proxy are
/// separate, and a certificate of one must not count for the other.
#[derive(Debug)]
pub struct ClientTrust {
    authorities: ArcSwap<Authorities>,
}

/// Without a verifier no client is trusted; a server without a client authority starts this way.
#[derive(Debug)]
struct Authorities(Option<Arc<dyn ClientCertVerifier>>);

#[derive(Debug, thiserror::Error)]
pub enum UntrustedClient {
    #[error("the client presented no certificate")]
    NoCertificate,
    #[error("no authority for client certificates is configured")]
    NoAuthority,
    #[error("the client certificate does not verify")]
    Chain(#[source] Error),
    #[error("the client certificate cannot be read")]
    CertificateSubject(#[source] PkiError),
}

impl ClientTrust {
    pub fn new(authorities: &[Certificate]) -> Result<Self, PkiError> {
        Ok(Self { authorities: ArcSwap::from_pointee(Authorities::new(authorities)?) })
    }

    /// Replaces the trusted authorities; connections verified before are not verified again.
    pub fn replace(&self, authorities: &[Certificate]) -> Result<(), PkiError> {
        self.authorities.store(Arc::new(Authorities::new(authorities)?));
        Ok(())
    }

    /// Verifies the peer's chain (its own certificate first) and returns its identity.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<ClientIdentity, UntrustedClient> {
        let (leaf, intermediates) = chain.split_first().ok_or(UntrustedClient::NoCertificate)?;
        let authorities = self.authorities.load();
        let verifier = authorities.0.as_ref().ok_or(UntrustedClient::NoAuthority)?;
        let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        let now = UnixTime::since_unix_epoch(since_epoch);
        verifier.verify_client_cert(leaf, intermediates, now).map_err(UntrustedClient::Chain)?;
        parse_client_identity(leaf).map_err(UntrustedClient::CertificateSubject)
    }
}

impl Authorities {
    fn new(authorities: &[Certificate]) -> Result<Self, PkiError> {
        if authorities.is_empty() {
            return Ok(Self(None));
        }
        let roots = root_store(authorities.iter().map(Certificate::der))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let verifier = verifier.map_err(|reason| PkiError::Tls(Error::General(reason.to_string())))?;
        Ok(Self(Some(verifier)))
    }
}

/// Requests a certificate and checks only that the client holds its key; its identity is verified per connection.
#[derive(Debug, Default)]
pub(crate) struct AskingVerifier {
    signatures: HandshakeSignatures,
}

impl ClientCertVerifier for AskingVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// No hints: they would go stale when the authorities change, and a Go client with a certificate of an authority
    /// missing from the list would send none.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
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
