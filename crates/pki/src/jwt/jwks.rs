//! Key sets as JSON: published by our OIDC endpoint and by other issuers.

use serde_json::{Value, json};

use crate::der::{self, Reader, tag};
use crate::error::PkiError;
use crate::jwt::{Algorithm, base64url, from_base64url};
use crate::key::{KeyKind, PublicKey};

/// A key that verifies tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationKey {
    /// Without one the key is tried for every token.
    pub key_id: Option<String>,
    /// Without one every algorithm that fits the kind of key is accepted.
    pub algorithm: Option<Algorithm>,
    pub key: PublicKey,
}

impl VerificationKey {
    /// A key with the id Kubernetes derives from it.
    pub fn new(key: PublicKey) -> Self {
        Self { key_id: Some(key.key_id()), algorithm: Some(Algorithm::for_key(key.kind())), key }
    }
}

/// The JWKS document for these keys.
pub fn publish(keys: &[VerificationKey]) -> Result<Value, PkiError> {
    let keys = keys.iter().map(publish_key).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "keys": keys }))
}

fn publish_key(key: &VerificationKey) -> Result<Value, PkiError> {
    let bits = key.key.bits();
    let point = |curve: &str| {
        let (x, y) = bits.get(1..).unwrap_or_default().split_at(bits.len() / 2);
        json!({ "kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y) })
    };
    let mut jwk = match key.key.kind() {
        KeyKind::P256 => point("P-256"),
        KeyKind::P384 => point("P-384"),
        KeyKind::Ed25519 => json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(bits) }),
        KeyKind::Rsa => {
            let (modulus, exponent) = rsa_numbers(bits)?;
            json!({ "kty": "RSA", "n": base64url(modulus), "e": base64url(exponent) })
        }
    };
    jwk["use"] = "sig".into();
    if let Some(id) = &key.key_id {
        jwk["kid"] = id.as_str().into();
    }
    if let Some(algorithm) = key.algorithm {
        jwk["alg"] = algorithm.name().into();
    }
    Ok(jwk)
}

fn rsa_numbers(pkcs1: &[u8]) -> Result<(&[u8], &[u8]), PkiError> {
    let mut numbers = Reader::new(pkcs1, "RSA public key").read_sequence()?;
    let mut number = || numbers.read(tag::INTEGER).map(|bytes| bytes.strip_prefix(&[0]).unwrap_or(bytes));
    Ok((number()?, number()?))
}

/// The usable signing keys of a JWKS document. Keys of unknown kinds or algorithms are skipped, as issuers publish
/// those too; a known kind with invalid numbers is an error.
pub fn parse(document: &[u8]) -> Result<Vec<VerificationKey>, PkiError> {
    let malformed = || PkiError::Malformed { what: "JWKS document" };
    let document: Value = serde_json::from_slice(document).map_err(|_| malformed())?;
    let keys = document.get("keys").and_then(Value::as_array).ok_or_else(malformed)?;
    keys.iter().filter_map(|jwk| parse_key(jwk).transpose()).collect()
}

fn parse_key(jwk: &Value) -> Result<Option<VerificationKey>, PkiError> {
    let text = |field: &str| jwk.get(field).and_then(Value::as_str);
    let number = |field: &str| {
        text(field).and_then(from_base64url).ok_or(PkiError::Malformed { what: "key in the JWKS document" })
    };
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    let key = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => {
            let numbers = [der::unsigned_integer(&number("n")?), der::unsigned_integer(&number("e")?)];
            PublicKey::from_bits(KeyKind::Rsa, &der::sequence(&[&numbers[0], &numbers[1]]))
        }
        (Some("EC"), Some("P-256")) => ec_key(KeyKind::P256, 32, &number("x")?, &number("y")?)?,
        (Some("EC"), Some("P-384")) => ec_key(KeyKind::P384, 48, &number("x")?, &number("y")?)?,
        (Some("OKP"), Some("Ed25519")) => PublicKey::from_bits(KeyKind::Ed25519, &number("x")?),
        _ => return Ok(None),
    };
    let algorithm = match text("alg") {
        Some(name) => match Algorithm::from_name(name) {
            Some(algorithm) if algorithm.key_kind() == key.kind() => Some(algorithm),
            _ => return Ok(None),
        },
        None => None,
    };
    Ok(Some(VerificationKey { key_id: text("kid").map(str::to_owned), algorithm, key }))
}

fn ec_key(kind: KeyKind, width: usize, x: &[u8], y: &[u8]) -> Result<PublicKey, PkiError> {
    const UNCOMPRESSED: u8 = 4;
    if x.len() != width || y.len() != width {
        return Err(PkiError::Malformed { what: "key in the JWKS document" });
    }
    Ok(PublicKey::from_bits(kind, &[&[UNCOMPRESSED][..], x, y].concat()))
}
