//! Encryption of small records with a key that all replicas of a control plane derive from a shared private key.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::PkiError;

/// Seals and opens records. A record is bound to a label and cannot be opened under another one.
pub struct SealingKey {
    key: LessSafeKey,
}

impl SealingKey {
    /// Derives the key for one purpose; other purposes get other keys of the same secret.
    pub fn derive(secret: &[u8], purpose: &str) -> Self {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), purpose.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, derived.as_ref()).expect("a SHA-256 MAC has the length of the key");
        Self { key: LessSafeKey::new(key) }
    }

    pub fn seal(&self, label: &str, plain: &[u8]) -> Result<Vec<u8>, PkiError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| PkiError::Randomness)?;
        let mut sealed = plain.to_vec();
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(sealing, Aad::from(label.as_bytes()), &mut sealed)
            .map_err(|_| PkiError::Randomness)?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// `None` if the record was not sealed by this key under this label.
    pub fn open(&self, label: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut plain = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(label.as_bytes()), &mut plain).ok()?;
        Some(opened.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_with_its_key_and_label_only() {
        let key = SealingKey::derive(b"secret", "a");
        let sealed = key.seal("one", b"text").expect("sealed");
        assert_eq!(key.open("one", &sealed).as_deref(), Some(&b"text"[..]));
        assert_ne!(key.seal("one", b"text").expect("sealed"), sealed, "every record has its own nonce");
        assert!(key.open("two", &sealed).is_none());
        assert!(SealingKey::derive(b"secret", "b").open("one", &sealed).is_none());
        assert!(SealingKey::derive(b"other", "a").open("one", &sealed).is_none());
        let mut changed = sealed.clone();
        *changed.last_mut().expect("not empty") ^= 1;
        assert!(key.open("one", &changed).is_none());
        for length in 0..sealed.len() {
            assert!(key.open("one", &sealed[..length]).is_none(), "{length}");
        }
    }
}
