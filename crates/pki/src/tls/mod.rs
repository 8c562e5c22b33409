//! TLS for clients and servers: certificates and authorities can be replaced while connections are served.

pub mod client;
pub mod client_trust;
pub mod server;
mod signatures;

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificate::{Certificate, KeyedCertificate};
use crate::error::PkiError;
use crate::key::PrivateKey;

/// Named explicitly everywhere: a process-wide default provider would be global state.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn certified_key(chain: &[Certificate], key: &PrivateKey) -> Result<Arc<CertifiedKey>, PkiError> {
    match chain.first() {
        Some(leaf) if leaf.belongs_to(key) => {}
        _ => return Err(PkiError::KeyMismatch),
    }
    let chain = chain.iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.pkcs8().to_vec()));
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(PkiError::Tls)?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

pub(crate) fn certified_pair(pair: &KeyedCertificate) -> Result<Arc<CertifiedKey>, PkiError> {
    certified_key(std::slice::from_ref(&pair.certificate), &pair.key)
}

pub(crate) fn root_store<'a>(authorities: impl IntoIterator<Item = &'a [u8]>) -> Result<RootCertStore, PkiError> {
    let mut store = RootCertStore::empty();
    let authorities = authorities.into_iter().map(|der| CertificateDer::from(der.to_vec()));
    // Bundles may contain unusable certificates; Go skips those too, and an empty result is an error.
    store.add_parsable_certificates(authorities);
    if store.is_empty() { Err(PkiError::EmptyBundle) } else { Ok(store) }
}

#[cfg(test)]
mod tests;
