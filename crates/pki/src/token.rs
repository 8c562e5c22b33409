//! Shared secrets: generated randomly, compared in constant time, never printed.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::PkiError;

/// A token or password. `Debug` hides it and there is no `Display`; [`Secret::expose`] marks each use.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(redacted)")
    }
}

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares a candidate with this secret in constant time.
    pub fn matches(&self, candidate: &str) -> bool {
        constant_time_eq(self.0.as_bytes(), candidate.as_bytes())
    }
}

/// Returns the SHA-256 of a token in hexadecimal, to store instead of the token.
pub fn hash(token: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    HEXLOWER.encode(digest.as_ref())
}

/// Returns the HMAC-SHA256 of a message in hexadecimal.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    HEXLOWER.encode(hmac::sign(&key, message).as_ref())
}

/// Compares two byte strings without revealing by its duration where, or in which length, they differ.
pub fn constant_time_eq(expected: &[u8], candidate: &[u8]) -> bool {
    // Comparing MACs under a fixed key of equal length makes ring's constant-time check independent of the inputs.
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"pki constant time comparison");
    hmac::verify(&key, candidate, hmac::sign(&key, expected).as_ref()).is_ok()
}

/// A bootstrap token, `id.secret` in Kubernetes' format: 6 and 16 characters of a-z and 0-9.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    pub id: String,
    pub secret: Secret,
}

impl BootstrapToken {
    pub const ID_LEN: usize = 6;
    pub const SECRET_LEN: usize = 16;

    pub fn generate() -> Result<Self, PkiError> {
        Ok(Self { id: random_lowercase(Self::ID_LEN)?, secret: Secret(random_lowercase(Self::SECRET_LEN)?) })
    }

    /// Returns `None` if the text is not a bootstrap token.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let fits = |part: &str, length| part.len() == length && part.bytes().all(|byte| ALPHABET.contains(&byte));
        let valid = fits(id, Self::ID_LEN) && fits(secret, Self::SECRET_LEN);
        valid.then(|| Self { id: id.to_owned(), secret: Secret::new(secret) })
    }

    /// The whole token, to show to the user.
    pub fn expose(&self) -> String {
        format!("{}.{}", self.id, self.secret.0)
    }
}

const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Uniformly random characters of a-z and 0-9.
pub fn random_lowercase(length: usize) -> Result<String, PkiError> {
    // Bytes at or above the largest multiple of 36 would make the first characters likelier; they are drawn again.
    const FAIR: u8 = 252;
    let random = SystemRandom::new();
    let mut out = String::with_capacity(length);
    while out.len() < length {
        let mut bytes = [0; 32];
        random.fill(&mut bytes).map_err(|_| PkiError::Randomness)?;
        let fair = bytes.iter().filter(|byte| **byte < FAIR);
        out.extend(fair.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).take(length - out.len()));
    }
    Ok(out)
}

/// 256 random bits as text that fits headers and URLs.
pub fn random_bearer_token() -> Result<Secret, PkiError> {
    use base64::Engine;
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| PkiError::Randomness)?;
    Ok(Secret(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print_themselves() {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
        assert_eq!(format!("{token:?}"), "BootstrapToken { id: \"abcdef\", secret: Secret(redacted) }");
    }

    #[test]
    fn only_well_formed_bootstrap_tokens_parse() {
        for bad in ["", ".", "abcdef", "abcdef.0123456789abcde", "Abcdef.0123456789abcdef", "abcdef.0123456789abcdef.x"]
        {
            assert_eq!(BootstrapToken::parse(bad), None, "{bad}");
        }
        let made = BootstrapToken::generate().unwrap();
        assert_eq!(BootstrapToken::parse(&made.expose()), Some(made));
    }

    #[test]
    fn comparison_sees_content_and_length() {
        let secret = Secret::new("s3cret");
        for (candidate, same) in
            [("s3cret", true), ("s3creT", false), ("s3cre", false), ("", false), ("s3cret\0", false)]
        {
            assert_eq!(secret.matches(candidate), same, "{candidate:?}");
        }
    }

    #[test]
    fn generated_secrets_differ() {
        assert_ne!(random_lowercase(16).unwrap(), random_lowercase(16).unwrap());
        assert!(!random_bearer_token().unwrap().matches(random_bearer_token().unwrap().expose()));
    }
}
