//! The ciphers of Kubernetes' encryption at rest, byte for byte as kube-apiserver stores them.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

const CBC_IV_BYTES: usize = 16;
const GCM_NONCE_BYTES: usize = 12;
const SECRETBOX_NONCE_BYTES: usize = 24;
/// Random bytes in front of a value whose key is derived from a seed.
const INFO_BYTES: usize = 32;
pub const SEED_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CipherError {
    #[error("the key has {0} bytes")]
    KeyLength(usize),
    #[error("the value is shorter than its header")]
    TooShort,
    #[error("the value does not match the key: it was changed, moved, or sealed with another key of this name")]
    Mismatch,
    #[error("no random numbers are available")]
    NoRandomness,
}

/// A key with its cipher. `context` is the storage key of the value, which `AesGcm` and `Seed` authenticate.
pub enum Cipher {
    AesCbc(Vec<u8>),
    AesGcm(Box<GcmKey>),
    Secretbox(Box<XSalsa20Poly1305>),
    /// AES-GCM with a key for each value, derived from a seed.
    Seed(hkdf::Prk),
}

pub enum GcmKey {
    Aes128(AesGcm<Aes128, U12>),
    Aes192(AesGcm<Aes192, U12>),
    Aes256(AesGcm<Aes256, U12>),
}

impl Cipher {
    pub fn aes_cbc(key: &[u8]) -> Result<Self, CipherError> {
        match key.len() {
            16 | 24 | 32 => Ok(Self::AesCbc(key.to_vec())),
            length => Err(CipherError::KeyLength(length)),
        }
    }

    pub fn aes_gcm(key: &[u8]) -> Result<Self, CipherError> {
        Ok(Self::AesGcm(Box::new(GcmKey::new(key)?)))
    }

    pub fn secretbox(key: &[u8]) -> Result<Self, CipherError> {
        let cipher = XSalsa20Poly1305::new_from_slice(key).map_err(|_| CipherError::KeyLength(key.len()))?;
        Ok(Self::Secretbox(Box::new(cipher)))
    }

    pub fn seed(seed: &[u8]) -> Result<Self, CipherError> {
        if seed.len() < SEED_BYTES {
            return Err(CipherError::KeyLength(seed.len()));
        }
        Ok(Self::Seed(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, seed)))
    }

    /// Appends the sealed value to `out`.
    pub fn seal(&self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError> {
        match self {
            Self::AesCbc(key) => {
                let iv = append_random::<CBC_IV_BYTES>(out)?;
                out.extend_from_slice(&cbc_seal(key, &iv, plain)?);
            }
            Self::AesGcm(key) => {
                let nonce = append_random::<GCM_NONCE_BYTES>(out)?;
                out.extend_from_slice(&key.seal(&nonce, context, plain)?);
            }
            Self::Secretbox(cipher) => {
                let nonce = append_random::<SECRETBOX_NONCE_BYTES>(out)?;
                let sealed = cipher.encrypt(&nonce.into(), plain).map_err(|_| CipherError::Mismatch)?;
                out.extend_from_slice(&sealed);
            }
            Self::Seed(seed) => {
                let info = append_random::<INFO_BYTES>(out)?;
                let key = derive(seed, &info)?;
                let nonce = append_random::<GCM_NONCE_BYTES>(out)?;
                out.extend_from_slice(&key.seal(&nonce, context, plain)?);
            }
        }
        Ok(())
    }

    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherError> {
        match self {
            Self::AesCbc(key) => {
                let (iv, sealed) = split::<CBC_IV_BYTES>(sealed)?;
                cbc_open(key, iv, sealed)
            }
            Self::AesGcm(key) => {
                let (nonce, sealed) = split::<GCM_NONCE_BYTES>(sealed)?;
                key.open(nonce, context, sealed)
            }
            Self::Secretbox(cipher) => {
                let (nonce, sealed) = split::<SECRETBOX_NONCE_BYTES>(sealed)?;
                cipher.decrypt(&(*nonce).into(), sealed).map_err(|_| CipherError::Mismatch)
            }
            Self::Seed(seed) => {
                let (info, sealed) = split::<INFO_BYTES>(sealed)?;
                let (nonce, sealed) = split::<GCM_NONCE_BYTES>(sealed)?;
                derive(seed, info)?.open(nonce, context, sealed)
            }
        }
    }
}

/// Returns random bytes for a key, an identifier or a nonce.
pub fn random<const N: usize>() -> Result<[u8; N], CipherError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| CipherError::NoRandomness)?;
    Ok(bytes)
}

fn append_random<const N: usize>(out: &mut Vec<u8>) -> Result<[u8; N], CipherError> {
    let bytes = random()?;
    out.extend_from_slice(&bytes);
    Ok(bytes)
}

fn split<const N: usize>(sealed: &[u8]) -> Result<(&[u8; N], &[u8]), CipherError> {
    sealed.split_first_chunk().ok_or(CipherError::TooShort)
}

struct DerivedLength;

impl hkdf::KeyType for DerivedLength {
    fn len(&self) -> usize {
        32
    }
}

fn derive(seed: &hkdf::Prk, info: &[u8; INFO_BYTES]) -> Result<GcmKey, CipherError> {
    let mut key = [0; 32];
    let info = [&info[..]];
    let expanded = seed.expand(&info, DerivedLength).and_then(|derived| derived.fill(&mut key));
    expanded.map_err(|_| CipherError::KeyLength(key.len()))?;
    GcmKey::new(&key)
}

impl GcmKey {
    fn new(key: &[u8]) -> Result<Self, CipherError> {
        let wrong = |_| CipherError::KeyLength(key.len());
        Ok(match key.len() {
            16 => Self::Aes128(AesGcm::new_from_slice(key).map_err(wrong)?),
            24 => Self::Aes192(AesGcm::new_from_slice(key).map_err(wrong)?),
            32 => Self::Aes256(AesGcm::new_from_slice(key).map_err(wrong)?),
            length => return Err(CipherError::KeyLength(length)),
        })
    }

    fn seal(&self, nonce: &[u8; GCM_NONCE_BYTES], aad: &[u8], msg: &[u8]) -> Result<Vec<u8>, CipherError> {
        let nonce = &(*nonce).into();
        let sealed = match self {
            Self::Aes128(key) => key.encrypt(nonce, Payload { msg, aad }),
            Self::Aes192(key) => key.encrypt(nonce, Payload { msg, aad }),
            Self::Aes256(key) => key.encrypt(nonce, Payload { msg, aad }),
        };
        sealed.map_err(|_| CipherError::Mismatch)
    }

    fn open(&self, nonce: &[u8; GCM_NONCE_BYTES], aad: &[u8], msg: &[u8]) -> Result<Vec<u8>, CipherError> {
        let nonce = &(*nonce).into();
        let opened = match self {
            Self::Aes128(key) => key.decrypt(nonce, Payload { msg, aad }),
            Self::Aes192(key) => key.decrypt(nonce, Payload { msg, aad }),
            Self::Aes256(key) => key.decrypt(nonce, Payload { msg, aad }),
        };
        opened.map_err(|_| CipherError::Mismatch)
    }
}

fn cbc_seal(key: &[u8], iv: &[u8; CBC_IV_BYTES], plain: &[u8]) -> Result<Vec<u8>, CipherError> {
    let wrong = |_| CipherError::KeyLength(key.len());
    Ok(match key.len() {
        16 => cbc::Encryptor::<Aes128>::new_from_slices(key, iv).map_err(wrong)?.encrypt_padded_vec::<Pkcs7>(plain),
        24 => cbc::Encryptor::<Aes192>::new_from_slices(key, iv).map_err(wrong)?.encrypt_padded_vec::<Pkcs7>(plain),
        _ => cbc::Encryptor::<Aes256>::new_from_slices(key, iv).map_err(wrong)?.encrypt_padded_vec::<Pkcs7>(plain),
    })
}

fn cbc_open(key: &[u8], iv: &[u8; CBC_IV_BYTES], sealed: &[u8]) -> Result<Vec<u8>, CipherError> {
    let wrong = |_| CipherError::KeyLength(key.len());
    let opened = match key.len() {
        16 => cbc::Decryptor::<Aes128>::new_from_slices(key, iv).map_err(wrong)?.decrypt_padded_vec::<Pkcs7>(sealed),
        24 => cbc::Decryptor::<Aes192>::new_from_slices(key, iv).map_err(wrong)?.decrypt_padded_vec::<Pkcs7>(sealed),
        _ => cbc::Decryptor::<Aes256>::new_from_slices(key, iv).map_err(wrong)?.decrypt_padded_vec::<Pkcs7>(sealed),
    };
    opened.map_err(|_| CipherError::Mismatch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<(&'static str, Cipher)> {
        let key = |length: usize| (0..length as u8).collect::<Vec<u8>>();
        vec![
            ("cbc 16", Cipher::aes_cbc(&key(16)).expect("a key")),
            ("cbc 24", Cipher::aes_cbc(&key(24)).expect("a key")),
            ("cbc 32", Cipher::aes_cbc(&key(32)).expect("a key")),
            ("gcm 16", Cipher::aes_gcm(&key(16)).expect("a key")),
            ("gcm 24", Cipher::aes_gcm(&key(24)).expect("a key")),
            ("gcm 32", Cipher::aes_gcm(&key(32)).expect("a key")),
            ("secretbox", Cipher::secretbox(&key(32)).expect("a key")),
            ("seed", Cipher::seed(&key(32)).expect("a key")),
        ]
    }

    fn sealed(cipher: &Cipher, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        cipher.seal(b"/registry/a", plain, &mut out).expect("sealed");
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn values_round_trip_with_distinct_ciphertexts(plain in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (name, cipher) in all() {
                let (one, two) = (sealed(&cipher, &plain), sealed(&cipher, &plain));
                prop_assert_ne!(&one, &two, "{}", name);
                prop_assert_eq!(cipher.open(b"/registry/a", &one).expect("opened"), plain.clone(), "{}", name);
            }
        }

        #[test]
        fn no_input_opens_by_chance_or_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            for (name, cipher) in all().into_iter().filter(|(name, _)| !name.starts_with("cbc")) {
                prop_assert!(cipher.open(b"/registry/a", &bytes).is_err(), "{}", name);
            }
            for (_, cipher) in all() {
                let _ = cipher.open(b"/registry/a", &bytes);
            }
        }
    }

    #[test]
    fn a_changed_value_is_refused_and_a_moved_one_where_the_key_is_authenticated() {
        for (name, cipher) in all() {
            let mut value = sealed(&cipher, b"some plain text of a secret");
            let is_bound = matches!(cipher, Cipher::AesGcm(_) | Cipher::Seed(_));
            assert_eq!(cipher.open(b"/registry/b", &value).is_err(), is_bound, "{name}");
            let last = value.len() - 1;
            value[last] ^= 1;
            assert_ne!(
                cipher.open(b"/registry/a", &value).ok().as_deref(),
                Some(&b"some plain text of a secret"[..]),
                "{name}"
            );
            assert_eq!(cipher.open(b"/registry/a", &value[..5]), Err(CipherError::TooShort), "{name}");
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for length in [0, 15, 31, 33] {
            let key = vec![0; length];
            assert!(Cipher::aes_cbc(&key).is_err() && Cipher::aes_gcm(&key).is_err(), "{length}");
            assert!(Cipher::secretbox(&key).is_err(), "{length}");
        }
        assert!(Cipher::seed(&[0; 31]).is_err());
    }
}
