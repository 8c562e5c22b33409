//! Verifies tokens: algorithm, key, signature and times. Issuer and audience are up to the caller.

use std::time::Duration;

use jiff::Timestamp;
use ring::signature::UnparsedPublicKey;
use serde_json::{Map, Value};

use crate::jwt::jwks::VerificationKey;
use crate::jwt::{Algorithm, from_base64url};

/// Tokens arrive in a header; anything larger is not a token.
pub const TOKEN_LEN_MAX: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("not a signed token: {0}")]
    Malformed(&'static str),
    #[error("the token is signed with {0:?}, which is not allowed")]
    AlgorithmRefused(String),
    /// The keys may have been rotated: fetch them again before giving up.
    #[error("no known key matches the token")]
    UnknownKey,
    #[error("the signature of the token does not verify")]
    BadSignature,
    #[error("the token expired at {0}")]
    Expired(Timestamp),
    #[error("the token is not valid before {0}")]
    NotYetValid(Timestamp),
    #[error("the token was issued in the future, at {0}")]
    IssuedInFuture(Timestamp),
    #[error("the token has no expiry")]
    NoExpiry,
}

/// Rules for the times in a token.
#[derive(Debug, Clone, Copy)]
pub struct TimeRules {
    /// Allowed clock difference.
    pub leeway: Duration,
    /// Tokens of ServiceAccount secrets never expire; all others must.
    pub requires_expiry: bool,
}

#[derive(Debug, Clone)]
pub struct VerifiedToken {
    pub claims: Map<String, Value>,
    /// The `kid` of the header.
    pub key_id: Option<String>,
}

#[derive(Debug, Clone)]
pub struct JwtVerifier {
    keys: Vec<VerificationKey>,
    allowed: Vec<Algorithm>,
    times: TimeRules,
}

impl JwtVerifier {
    pub fn new(keys: Vec<VerificationKey>, allowed: &[Algorithm], times: TimeRules) -> Self {
        Self { keys, allowed: allowed.to_vec(), times }
    }

    pub fn verify(&self, token: &str, now: Timestamp) -> Result<VerifiedToken, JwtError> {
        let parts = TokenParts::split(token)?;
        let header = parts.header()?;
        let (algorithm, key_id) = self.read_header(&header)?;
        let signature = from_base64url(parts.signature).ok_or(JwtError::Malformed("signature"))?;
        let mut candidates = self.keys.iter().filter(|key| fits(key, algorithm, key_id.as_deref())).peekable();
        if candidates.peek().is_none() {
            return Err(JwtError::UnknownKey);
        }
        let verifies = |key: &VerificationKey| {
            let key = UnparsedPublicKey::new(algorithm.verification(), key.key.bits());
            key.verify(parts.signed.as_bytes(), &signature).is_ok()
        };
        if !candidates.any(verifies) {
            return Err(JwtError::BadSignature);
        }
        let claims = parts.claims()?;
        self.check_times(&claims, now)?;
        Ok(VerifiedToken { claims, key_id })
    }

    fn read_header(&self, header: &Map<String, Value>) -> Result<(Algorithm, Option<String>), JwtError> {
        // A critical header changes the meaning of the rest; none is supported.
        if header.contains_key("crit") {
            return Err(JwtError::Malformed("critical header"));
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or(JwtError::Malformed("algorithm"))?;
        let algorithm = Algorithm::from_name(name).filter(|algorithm| self.allowed.contains(algorithm));
        let algorithm = algorithm.ok_or_else(|| JwtError::AlgorithmRefused(name.chars().take(16).collect()))?;
        match header.get("kid") {
            None => Ok((algorithm, None)),
            Some(Value::String(id)) => Ok((algorithm, Some(id.clone()).filter(|id| !id.is_empty()))),
            Some(_) => Err(JwtError::Malformed("key id")),
        }
    }

    fn check_times(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<(), JwtError> {
        let leeway = i64::try_from(self.times.leeway.as_secs()).unwrap_or(i64::MAX);
        let now = now.as_second();
        match moment(claims, "exp")? {
            Some(at) if now.saturating_sub(leeway) > at.as_second() => return Err(JwtError::Expired(at)),
            None if self.times.requires_expiry => return Err(JwtError::NoExpiry),
            _ => {}
        }
        let latest = now.saturating_add(leeway);
        match moment(claims, "nbf")? {
            Some(at) if latest < at.as_second() => return Err(JwtError::NotYetValid(at)),
            _ => {}
        }
        match moment(claims, "iat")? {
            Some(at) if latest < at.as_second() => Err(JwtError::IssuedInFuture(at)),
            _ => Ok(()),
        }
    }
}

fn fits(key: &VerificationKey, algorithm: Algorithm, key_id: Option<&str>) -> bool {
    let id_fits = match (key_id, &key.key_id) {
        (Some(wanted), Some(id)) => wanted == id,
        _ => true,
    };
    id_fits && key.key.kind() == algorithm.key_kind() && key.algorithm.is_none_or(|only| only == algorithm)
}

/// The unverified issuer of a token, only to choose its verifier.
pub fn peek_issuer(token: &str) -> Option<String> {
    let claims = TokenParts::split(token).ok()?.claims().ok()?;
    claims.get("iss").and_then(Value::as_str).map(str::to_owned)
}

struct TokenParts<'a> {
    header: &'a str,
    payload: &'a str,
    signature: &'a str,
    signed: &'a str,
}

impl<'a> TokenParts<'a> {
    fn split(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > TOKEN_LEN_MAX {
            return Err(JwtError::Malformed("too long"));
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed("parts"))?;
        let (header, payload) = signed.split_once('.').ok_or(JwtError::Malformed("parts"))?;
        if payload.contains('.') {
            return Err(JwtError::Malformed("parts"));
        }
        Ok(Self { header, payload, signature, signed })
    }

    fn header(&self) -> Result<Map<String, Value>, JwtError> {
        json_object(self.header).ok_or(JwtError::Malformed("header"))
    }

    fn claims(&self) -> Result<Map<String, Value>, JwtError> {
        json_object(self.payload).ok_or(JwtError::Malformed("claims"))
    }
}

fn json_object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&from_base64url(part)?).ok()
}

/// A NumericDate: seconds, possibly with a fraction. `null` counts as absent.
fn moment(claims: &Map<String, Value>, name: &'static str) -> Result<Option<Timestamp>, JwtError> {
    let value = match claims.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let seconds = value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64));
    let seconds = seconds.ok_or(JwtError::Malformed(name))?;
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Ok(Some(Timestamp::from_second(seconds).unwrap_or(limit)))
}
