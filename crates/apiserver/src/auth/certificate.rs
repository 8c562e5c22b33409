//! Client certificates: verified once per certificate and minute, then recognised by their fingerprint.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use object::request::User;
use parking_lot::Mutex;
use pki::identity::ClientIdentity;
use pki::tls::client_trust::{ClientTrust, UntrustedClient};
use rustls_pki_types::CertificateDer;
use thiserror::Error;

use super::{CREDENTIAL_ID, with_authenticated_group};

/// After this a certificate is verified again, so that a change of the authorities takes effect.
const RECHECK_AFTER: Duration = Duration::from_secs(60);
/// Maximum number of cached certificates; beyond it the cache is cleared.
const KNOWN_MAX: usize = 10_000;

#[derive(Debug, Error)]
pub enum CertificateRefused {
    #[error(transparent)]
    Untrusted(#[from] UntrustedClient),
    #[error("the certificate names no user")]
    Nameless,
}

pub struct Certificates {
    trust: Arc<ClientTrust>,
    known: Mutex<HashMap<[u8; 32], Known>>,
}

struct Known {
    user: Arc<User>,
    not_after: Timestamp,
    verified: Instant,
}

impl Certificates {
    pub fn new(trust: Arc<ClientTrust>) -> Self {
        Self { trust, known: Mutex::default() }
    }

    /// The user the chain (the client's own certificate first) stands for.
    pub fn user(&self, chain: &[CertificateDer<'_>]) -> Result<Arc<User>, CertificateRefused> {
        let leaf = chain.first().ok_or(UntrustedClient::NoCertificate)?;
        let fingerprint = sha256(leaf);
        let now = Timestamp::now();
        if let Some(known) = self.known.lock().get(&fingerprint)
            && known.verified.elapsed() < RECHECK_AFTER
            && now <= known.not_after
        {
            return Ok(known.user.clone());
        }
        let verified = self.trust.verify(chain, now);
        let mut known = self.known.lock();
        known.remove(&fingerprint);
        let identity = verified?;
        let not_after = identity.not_after;
        let user = Arc::new(user_of(identity)?);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(fingerprint, Known { user: user.clone(), not_after, verified: Instant::now() });
        Ok(user)
    }
}

fn user_of(identity: ClientIdentity) -> Result<User, CertificateRefused> {
    if identity.common_name.is_empty() {
        return Err(CertificateRefused::Nameless);
    }
    let credential = format!("X509SHA256={}", identity.fingerprint_sha256);
    Ok(with_authenticated_group(User {
        name: identity.common_name,
        uid: identity.uid.unwrap_or_default(),
        groups: identity.organizations,
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![credential])]),
    }))
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
