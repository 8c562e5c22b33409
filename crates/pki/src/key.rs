//! Private and public keys: P-256 keys are generated here; RSA, P-384 and Ed25519 keys can be imported.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RsaEncoding, RsaKeyPair,
};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::der::{self, Reader, tag};
use crate::error::PkiError;
use crate::pem;

const EC_PUBLIC_KEY: &[u64] = &[1, 2, 840, 10045, 2, 1];
const CURVE_P256: &[u64] = &[1, 2, 840, 10045, 3, 1, 7];
const CURVE_P384: &[u64] = &[1, 3, 132, 0, 34];
const RSA_ENCRYPTION: &[u64] = &[1, 2, 840, 113549, 1, 1, 1];
const ED25519: &[u64] = &[1, 3, 101, 112];
const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const ECDSA_WITH_SHA384: &[u64] = &[1, 2, 840, 10045, 4, 3, 3];
const RSA_WITH_SHA256: &[u64] = &[1, 2, 840, 113549, 1, 1, 11];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    P256,
    P384,
    Rsa,
    Ed25519,
}

impl KeyKind {
    fn algorithm_der(self) -> Vec<u8> {
        match self {
            KeyKind::P256 => der::sequence(&[&der::oid(EC_PUBLIC_KEY), &der::oid(CURVE_P256)]),
            KeyKind::P384 => der::sequence(&[&der::oid(EC_PUBLIC_KEY), &der::oid(CURVE_P384)]),
            KeyKind::Rsa => der::sequence(&[&der::oid(RSA_ENCRYPTION), &der::null()]),
            KeyKind::Ed25519 => der::sequence(&[&der::oid(ED25519)]),
        }
    }

    fn from_oids(algorithm: &[u8], curve: Option<&[u8]>) -> Result<Self, PkiError> {
        let is = |found: &[u8], arcs: &[u64]| found == der::oid_content(arcs);
        if is(algorithm, RSA_ENCRYPTION) {
            return Ok(KeyKind::Rsa);
        }
        if is(algorithm, ED25519) {
            return Ok(KeyKind::Ed25519);
        }
        match curve {
            Some(curve) if is(algorithm, EC_PUBLIC_KEY) && is(curve, CURVE_P256) => Ok(KeyKind::P256),
            Some(curve) if is(algorithm, EC_PUBLIC_KEY) && is(curve, CURVE_P384) => Ok(KeyKind::P384),
            _ => Err(PkiError::UnsupportedKey { reason: "only RSA, P-256, P-384 and Ed25519 keys can be used".into() }),
        }
    }
}

/// A signing key. Cheap to clone; never prints its content.
#[derive(Clone)]
pub struct PrivateKey(Arc<Inner>);

struct Inner {
    pkcs8: Vec<u8>,
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PrivateKey({:?}, redacted)", self.0.public.kind)
    }
}

impl PrivateKey {
    /// A new P-256 key.
    pub fn generate() -> Result<Self, PkiError> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
            .map_err(|_| PkiError::Randomness)?;
        Self::from_pkcs8(pkcs8.as_ref())
    }

    /// The first private key of a PEM file, in PKCS#8, SEC1 or PKCS#1 form.
    pub fn from_pem(text: &[u8]) -> Result<Self, PkiError> {
        for block in pem::decode(text)? {
            match block.label.as_str() {
                pem::PRIVATE_KEY => return Self::from_pkcs8(&block.der),
                pem::EC_PRIVATE_KEY => return Self::from_pkcs8(&pkcs8_from_sec1(&block.der)?),
                pem::RSA_PRIVATE_KEY => return Self::from_pkcs8(&pkcs8(KeyKind::Rsa, &block.der)),
                _ => {}
            }
        }
        Err(PkiError::MissingPemBlock { expected: pem::PRIVATE_KEY })
    }

    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, PkiError> {
        let kind = pkcs8_kind(pkcs8)?;
        let rejected = |reason: ring::error::KeyRejected| PkiError::UnsupportedKey { reason: reason.to_string() };
        let random = SystemRandom::new();
        let ecdsa = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random).map_err(rejected);
        let pair = match kind {
            KeyKind::P256 => Pair::Ecdsa(ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING)?),
            KeyKind::P384 => Pair::Ecdsa(ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING)?),
            KeyKind::Rsa => Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(pkcs8).map_err(rejected)?)),
            KeyKind::Ed25519 => Pair::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map_err(rejected)?),
        };
        let public_bits = match &pair {
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
            Pair::Rsa(pair) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
        };
        let public = PublicKey::from_bits(kind, public_bits);
        Ok(Self(Arc::new(Inner { pkcs8: pkcs8.to_vec(), pair, public })))
    }

    /// The secret itself, for files and kubeconfigs.
    pub fn to_pem(&self) -> String {
        pem::encode(pem::PRIVATE_KEY, &self.0.pkcs8)
    }

    /// The secret itself, for TLS configurations.
    pub fn pkcs8(&self) -> &[u8] {
        &self.0.pkcs8
    }

    pub fn public_key(&self) -> &PublicKey {
        &self.0.public
    }

    pub fn kind(&self) -> KeyKind {
        self.0.public.kind
    }

    /// Signs as in X.509: with the digest that fits the key, ECDSA signatures in DER.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        match &self.0.pair {
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(|_| PkiError::Signing)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Rsa(_) => self.sign_rsa(&RSA_PKCS1_SHA256, message),
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }

    /// Signs with a chosen RSA padding; fails for other kinds of keys.
    pub(crate) fn sign_rsa(&self, encoding: &'static dyn RsaEncoding, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        let Pair::Rsa(pair) = &self.0.pair else { return Err(PkiError::Signing) };
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), message, &mut signature).map_err(|_| PkiError::Signing)?;
        Ok(signature)
    }

    /// The AlgorithmIdentifier of [`PrivateKey::sign`].
    pub(crate) fn signature_algorithm_der(&self) -> Vec<u8> {
        match self.kind() {
            KeyKind::P256 => der::sequence(&[&der::oid(ECDSA_WITH_SHA256)]),
            KeyKind::P384 => der::sequence(&[&der::oid(ECDSA_WITH_SHA384)]),
            KeyKind::Rsa => der::sequence(&[&der::oid(RSA_WITH_SHA256), &der::null()]),
            KeyKind::Ed25519 => der::sequence(&[&der::oid(ED25519)]),
        }
    }
}

fn pkcs8(kind: KeyKind, inner: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::unsigned_integer(&[0]), &kind.algorithm_der(), &der::octet_string(inner)])
}

fn pkcs8_kind(pkcs8: &[u8]) -> Result<KeyKind, PkiError> {
    let mut key = Reader::new(pkcs8, "PKCS#8 private key").read_sequence()?;
    key.read(tag::INTEGER)?;
    let mut algorithm = key.read_sequence()?;
    let oid = algorithm.read(tag::OID)?;
    let curve = match algorithm.peek_tag() {
        Some(tag::OID) => Some(algorithm.read(tag::OID)?),
        _ => None,
    };
    KeyKind::from_oids(oid, curve)
}

/// `openssl ecparam -genkey` writes SEC1; converted to PKCS#8, which everything else expects.
fn pkcs8_from_sec1(sec1: &[u8]) -> Result<Vec<u8>, PkiError> {
    let mut key = Reader::new(sec1, "EC private key").read_sequence()?;
    key.read(tag::INTEGER)?;
    let secret = key.read(tag::OCTET_STRING)?;
    let (mut curve, mut public) = (None, None);
    while !key.is_empty() {
        match key.read_any()? {
            (0xa0, parameters) => curve = Some(Reader::new(parameters, "EC private key").read(tag::OID)?),
            (0xa1, bits) => public = Some(bits),
            _ => return Err(key.malformed()),
        }
    }
    let kind = KeyKind::from_oids(&der::oid_content(EC_PUBLIC_KEY), curve)?;
    let public = public.ok_or_else(|| PkiError::UnsupportedKey {
        reason: "the EC private key does not carry its public key; convert it with `openssl pkcs8 -topk8 -nodes`"
            .into(),
    })?;
    let inner = der::sequence(&[&der::unsigned_integer(&[1]), &der::octet_string(secret), &der::explicit(1, public)]);
    Ok(pkcs8(kind, &inner))
}

/// A key to verify signatures with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    bits: Vec<u8>,
    spki: Vec<u8>,
}

impl PublicKey {
    /// `bits` as in the BIT STRING: an uncompressed point, a PKCS#1 RSAPublicKey or an Ed25519 key.
    pub(crate) fn from_bits(kind: KeyKind, bits: &[u8]) -> Self {
        let spki = der::sequence(&[&kind.algorithm_der(), &der::bit_string(bits)]);
        Self { kind, bits: bits.to_vec(), spki }
    }

    pub fn from_spki(spki: &[u8]) -> Result<Self, PkiError> {
        let (rest, parsed) =
            SubjectPublicKeyInfo::from_der(spki).map_err(|_| PkiError::Malformed { what: "public key" })?;
        if !rest.is_empty() {
            return Err(PkiError::Malformed { what: "public key" });
        }
        let curve = parsed.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
        let kind = KeyKind::from_oids(parsed.algorithm.algorithm.as_bytes(), curve.as_ref().map(|oid| oid.as_bytes()))?;
        Ok(Self { kind, bits: parsed.subject_public_key.data.to_vec(), spki: spki.to_vec() })
    }

    /// Every public key of a PEM file, including those of private keys and certificates.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, PkiError> {
        let mut keys = Vec::new();
        for block in pem::decode(text)? {
            match block.label.as_str() {
                pem::PUBLIC_KEY => keys.push(Self::from_spki(&block.der)?),
                pem::RSA_PUBLIC_KEY => keys.push(Self::from_bits(KeyKind::Rsa, &block.der)),
                pem::CERTIFICATE => {
                    keys.push(crate::certificate::Certificate::from_der(&block.der)?.public_key()?);
                }
                pem::PRIVATE_KEY => keys.push(PrivateKey::from_pkcs8(&block.der)?.public_key().clone()),
                pem::EC_PRIVATE_KEY => {
                    keys.push(PrivateKey::from_pkcs8(&pkcs8_from_sec1(&block.der)?)?.public_key().clone());
                }
                pem::RSA_PRIVATE_KEY => {
                    keys.push(PrivateKey::from_pkcs8(&pkcs8(KeyKind::Rsa, &block.der))?.public_key().clone());
                }
                _ => {}
            }
        }
        if keys.is_empty() {
            return Err(PkiError::MissingPemBlock { expected: pem::PUBLIC_KEY });
        }
        Ok(keys)
    }

    pub fn to_pem(&self) -> String {
        pem::encode(pem::PUBLIC_KEY, &self.spki)
    }

    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    pub(crate) fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// The `kid` Kubernetes derives from a signing key: its SPKI's SHA-256 in unpadded base64url.
    pub fn key_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, &self.spki))
    }

    /// The subject key identifier by RFC 7093 method 1: 160 bits of the SHA-256 of the key bits.
    pub(crate) fn subject_key_identifier(&self) -> Vec<u8> {
        ring::digest::digest(&ring::digest::SHA256, &self.bits).as_ref()[..20].to_vec()
    }
}
