//! Checks that the peer of a TLS handshake holds the key of its certificate.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::CertificateDer;

use super::provider;

/// The signature checks of verifiers that accept any certificate.
#[derive(Debug)]
pub(super) struct HandshakeSignatures {
    provider: Arc<CryptoProvider>,
}

impl Default for HandshakeSignatures {
    fn default() -> Self {
        Self { provider: provider() }
    }
}

impl HandshakeSignatures {
    pub(super) fn tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    pub(super) fn tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    pub(super) fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
