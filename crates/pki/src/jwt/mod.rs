//! Signed tokens: ServiceAccount tokens are issued and verified here, tokens of OIDC issuers are verified.

pub mod detached;
pub mod jwks;
pub mod signer;
pub mod verifier;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature;

use crate::key::KeyKind;

/// The asymmetric JWS algorithms that can be allowed. Shared-secret algorithms and `none` are missing, so no
/// configuration can allow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// Everything that can be verified.
    pub const ALL: &[Algorithm] = &[
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];
    /// The algorithms of ServiceAccount tokens, here and in kube-apiserver.
    pub const SERVICE_ACCOUNT: &[Algorithm] = &[Algorithm::Rs256, Algorithm::Es256, Algorithm::Es384];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }

    /// The only kind of key the algorithm may be used with; checking it prevents algorithm confusion.
    pub fn key_kind(self) -> KeyKind {
        match self {
            Algorithm::Es256 => KeyKind::P256,
            Algorithm::Es384 => KeyKind::P384,
            Algorithm::EdDsa => KeyKind::Ed25519,
            _ => KeyKind::Rsa,
        }
    }

    /// The default algorithm of a key.
    pub fn for_key(kind: KeyKind) -> Self {
        match kind {
            KeyKind::P256 => Algorithm::Es256,
            KeyKind::P384 => Algorithm::Es384,
            KeyKind::Rsa => Algorithm::Rs256,
            KeyKind::Ed25519 => Algorithm::EdDsa,
        }
    }

    pub(crate) fn verification(self) -> &'static dyn signature::VerificationAlgorithm {
        match self {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Algorithm::EdDsa => &signature::ED25519,
        }
    }
}

pub(crate) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::keys_of_every_kind;
