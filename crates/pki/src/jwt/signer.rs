//! Signs tokens with one key, under the key id Kubernetes would derive.

use serde_json::{Map, Value, json};

use crate::der::{Reader, tag};
use crate::error::PkiError;
use crate::jwt::{Algorithm, base64url};
use crate::key::{KeyKind, PrivateKey, PublicKey};

/// Signs claims: ES256 with the P-256 keys generated here, RS256 with an RSA key.
#[derive(Debug, Clone)]
pub struct JwtSigner {
    key: PrivateKey,
    key_id: String,
    algorithm: Algorithm,
}

impl JwtSigner {
    pub fn new(key: PrivateKey) -> Self {
        let (key_id, algorithm) = (key.public_key().key_id(), Algorithm::for_key(key.kind()));
        Self { key, key_id, algorithm }
    }

    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn public_key(&self) -> &PublicKey {
        self.key.public_key()
    }

    /// The compact form `header.claims.signature`.
    pub fn sign(&self, claims: &Map<String, Value>) -> Result<String, PkiError> {
        let header = json!({ "alg": self.algorithm.name(), "kid": self.key_id }).to_string();
        let payload = serde_json::to_vec(claims).map_err(|_| PkiError::Malformed { what: "claims" })?;
        let message = format!("{}.{}", base64url(header), base64url(payload));
        let signature = self.key.sign(message.as_bytes())?;
        let signature = match self.key.kind() {
            KeyKind::P256 => fixed_signature(&signature, 32)?,
            KeyKind::P384 => fixed_signature(&signature, 48)?,
            KeyKind::Rsa | KeyKind::Ed25519 => signature,
        };
        Ok(format!("{message}.{}", base64url(signature)))
    }
}

/// X.509 writes an ECDSA signature as two DER integers, JWS as two numbers of fixed width.
fn fixed_signature(der: &[u8], width: usize) -> Result<Vec<u8>, PkiError> {
    let mut numbers = Reader::new(der, "ECDSA signature").read_sequence()?;
    let mut out = Vec::with_capacity(2 * width);
    for _ in 0..2 {
        let number = numbers.read(tag::INTEGER)?;
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        let padding = width.checked_sub(number.len()).ok_or(PkiError::Signing)?;
        out.resize(out.len() + padding, 0);
        out.extend_from_slice(number);
    }
    Ok(out)
}
