//! Tables of valid, expired, forged and malformed tokens.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::detached::{detached_is_valid, detached_signature};
use super::jwks::{self, VerificationKey};
use super::signer::JwtSigner;
use super::verifier::{JwtError, JwtVerifier, TimeRules, peek_issuer};
use super::{Algorithm, base64url, from_base64url};
use crate::key::PrivateKey;
use crate::token::Secret;

const NOW: i64 = 1_900_000_000;
const STRICT: TimeRules = TimeRules { leeway: Duration::ZERO, requires_expiry: true };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn signer() -> JwtSigner {
    JwtSigner::new(PrivateKey::generate().unwrap())
}

fn claims(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn good_claims() -> Map<String, Value> {
    claims(json!({"iss": "us", "sub": "ann", "exp": NOW + 60, "nbf": NOW - 60, "iat": NOW - 60}))
}

fn verifier(signer: &JwtSigner, times: TimeRules) -> JwtVerifier {
    let keys = vec![VerificationKey::new(signer.public_key().clone())];
    JwtVerifier::new(keys, Algorithm::SERVICE_ACCOUNT, times)
}

/// A key of each kind that can sign; RSA keys come from the openssl program, if installed.
pub(crate) fn keys_of_every_kind() -> Vec<PrivateKey> {
    let random = ring::rand::SystemRandom::new();
    let p384 = ring::signature::EcdsaKeyPair::generate_pkcs8(&ring::signature::ECDSA_P384_SHA384_ASN1_SIGNING, &random);
    let ed25519 = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let mut keys = vec![
        PrivateKey::generate().unwrap(),
        PrivateKey::from_pkcs8(p384.unwrap().as_ref()).unwrap(),
        PrivateKey::from_pkcs8(ed25519.as_ref()).unwrap(),
    ];
    match std::process::Command::new("openssl").args(["genrsa", "2048"]).output() {
        Ok(output) if output.status.success() => keys.push(PrivateKey::from_pem(&output.stdout).unwrap()),
        _ => test_skip::skip("openssl is not installed, so no RSA key is tested"),
    }
    keys
}

#[test]
fn tokens_of_every_kind_of_key_verify_through_the_published_key_set() {
    for key in keys_of_every_kind() {
        let signer = JwtSigner::new(key);
        let document = jwks::publish(&[VerificationKey::new(signer.public_key().clone())]).unwrap();
        let keys = jwks::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(keys, [VerificationKey::new(signer.public_key().clone())], "{document}");
        let token = signer.sign(&good_claims()).unwrap();
        let verified = JwtVerifier::new(keys, Algorithm::ALL, STRICT).verify(&token, at(NOW)).unwrap();
        assert_eq!(verified.claims, good_claims());
        assert_eq!(verified.key_id.as_deref(), Some(signer.key_id()));
        assert_eq!(peek_issuer(&token).as_deref(), Some("us"));
    }
}

#[test]
fn times_are_judged_with_leeway() {
    let signer = signer();
    let check = |change: Value, leeway: u64, expected: Result<(), JwtError>| {
        let mut all = good_claims();
        all.extend(claims(change.clone()));
        let times = TimeRules { leeway: Duration::from_secs(leeway), requires_expiry: true };
        let found = verifier(&signer, times).verify(&signer.sign(&all).unwrap(), at(NOW)).map(drop);
        assert_eq!(found, expected, "{change}");
    };
    check(json!({}), 0, Ok(()));
    check(json!({"exp": NOW}), 0, Ok(()));
    check(json!({"exp": NOW - 1}), 0, Err(JwtError::Expired(at(NOW - 1))));
    check(json!({"exp": NOW - 10}), 10, Ok(()));
    check(json!({"exp": NOW as f64 + 0.5}), 0, Ok(()));
    check(json!({"nbf": NOW + 1}), 0, Err(JwtError::NotYetValid(at(NOW + 1))));
    check(json!({"nbf": NOW + 10}), 10, Ok(()));
    check(json!({"iat": NOW + 5}), 0, Err(JwtError::IssuedInFuture(at(NOW + 5))));
    check(json!({"exp": null}), 0, Err(JwtError::NoExpiry));
    check(json!({"exp": "soon"}), 0, Err(JwtError::Malformed("exp")));
    check(json!({"exp": 1e300}), 0, Ok(()));
    check(json!({"exp": -1e300}), 0, Err(JwtError::Expired(Timestamp::MIN)));
}

#[test]
fn a_token_without_expiry_passes_only_where_that_is_allowed() {
    let signer = signer();
    let token = signer.sign(&claims(json!({"sub": "legacy"}))).unwrap();
    assert_eq!(verifier(&signer, STRICT).verify(&token, at(NOW)).err(), Some(JwtError::NoExpiry));
    let lenient = TimeRules { requires_expiry: false, ..STRICT };
    assert!(verifier(&signer, lenient).verify(&token, at(NOW)).is_ok());
}

#[test]
fn forged_and_broken_tokens_are_refused() {
    let signer = signer();
    let token = signer.sign(&good_claims()).unwrap();
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let with_header = |header: Value| format!("{}.{payload}.{signature}", base64url(header.to_string()));
    let id = signer.key_id();
    let check = |token: &str, expected: JwtError| {
        assert_eq!(verifier(&signer, STRICT).verify(token, at(NOW)).err(), Some(expected), "{token}");
    };
    check(&with_header(json!({"alg": "none", "kid": id})), JwtError::AlgorithmRefused("none".into()));
    check(&with_header(json!({"alg": "RS512", "kid": id})), JwtError::AlgorithmRefused("RS512".into()));
    check(&with_header(json!({"alg": "RS256", "kid": id})), JwtError::UnknownKey);
    check(&with_header(json!({"alg": "ES256", "kid": "other"})), JwtError::UnknownKey);
    check(&with_header(json!({"alg": "ES256", "kid": 7})), JwtError::Malformed("key id"));
    check(&with_header(json!({"alg": "ES256", "kid": id, "x": 1})), JwtError::BadSignature);
    check(&with_header(json!({"alg": "ES256", "crit": ["b64"], "b64": false})), JwtError::Malformed("critical header"));
    check(&with_header(json!({"kid": id})), JwtError::Malformed("algorithm"));
    check(&with_header(json!([])), JwtError::Malformed("header"));

    // The public key as an HMAC secret: the classic algorithm confusion.
    let hs = base64url(json!({"alg": "HS256", "kid": id}).to_string());
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, signer.public_key().to_pem().as_bytes());
    let mac = ring::hmac::sign(&secret, format!("{hs}.{payload}").as_bytes());
    check(&format!("{hs}.{payload}.{}", base64url(mac)), JwtError::AlgorithmRefused("HS256".into()));

    let mut other = good_claims();
    other.insert("sub".into(), "root".into());
    let other = base64url(serde_json::to_vec(&other).unwrap());
    check(&format!("{header}.{other}.{signature}"), JwtError::BadSignature);
    check(&format!("{header}.{payload}."), JwtError::BadSignature);
    check(&format!("{header}.{payload}.{signature}="), JwtError::Malformed("signature"));
    check(&format!("{header}.{payload}.{signature}.x"), JwtError::Malformed("parts"));
    check(&format!("{header}.{payload}"), JwtError::Malformed("parts"));
    check("", JwtError::Malformed("parts"));
    check(&"a".repeat(70_000), JwtError::Malformed("too long"));
}

#[test]
fn a_token_without_key_id_is_tried_with_every_fitting_key() {
    let (one, two) = (signer(), signer());
    let token = two.sign(&good_claims()).unwrap();
    let keys = |with_ids: bool| -> Vec<VerificationKey> {
        let strip = |key: VerificationKey| if with_ids { key } else { VerificationKey { key_id: None, ..key } };
        [&one, &two].map(|signer| strip(VerificationKey::new(signer.public_key().clone()))).to_vec()
    };
    for with_ids in [true, false] {
        assert!(JwtVerifier::new(keys(with_ids), Algorithm::ALL, STRICT).verify(&token, at(NOW)).is_ok());
    }
    let only_first = JwtVerifier::new(keys(true)[..1].to_vec(), Algorithm::ALL, STRICT);
    assert_eq!(only_first.verify(&token, at(NOW)).err(), Some(JwtError::UnknownKey));
    let nameless_first = JwtVerifier::new(keys(false)[..1].to_vec(), Algorithm::ALL, STRICT);
    assert_eq!(nameless_first.verify(&token, at(NOW)).err(), Some(JwtError::BadSignature));
}

#[test]
fn foreign_key_sets_are_parsed_and_unknown_keys_skipped() {
    let good = |field: &str, value: &str| {
        let x = base64url([1; 32]);
        let mut jwk = json!({"kty": "EC", "crv": "P-256", "x": x, "y": x});
        jwk[field] = value.into();
        jwk
    };
    let check = |key: Value, expected: Option<usize>| {
        let found = jwks::parse(json!({ "keys": [key] }).to_string().as_bytes());
        assert_eq!(found.ok().map(|keys| keys.len()), expected, "{key}");
    };
    check(good("kid", "a"), Some(1));
    check(good("use", "enc"), Some(0));
    check(good("alg", "RS256"), Some(0));
    check(good("crv", "P-521"), Some(0));
    check(good("kty", "oct"), Some(0));
    check(good("x", "AAAA"), None);
    check(good("x", "!"), None);
    check(json!({"kty": "RSA", "n": "AQAB"}), None);
    check(json!(7), Some(0));
    for broken in ["", "{}", "[]", "{\"keys\": {}}"] {
        assert!(jwks::parse(broken.as_bytes()).is_err(), "{broken}");
    }
}

/// The values of Kubernetes' own test (cluster-bootstrap 0.36, token/jws/jws_test.go).
#[test]
fn detached_signatures_equal_those_of_kubernetes() {
    let content = b"Hello from the other side. I must have called a thousand times.";
    let secret = Secret::new("my voice is my passcode");
    let signature = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8";
    assert_eq!(detached_signature(content, "joshua", &secret), signature);
    assert!(detached_is_valid(signature, content, "joshua", &secret));
    assert!(!detached_is_valid(signature, content, "joshua", &Secret::new("other")));
    assert!(!detached_is_valid(&format!("{signature}foo"), content, "joshua", &secret));
    let empty = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk";
    assert_eq!(detached_signature(b"", "joshua", &secret), empty);
    assert_eq!(
        from_base64url("eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9").unwrap(),
        br#"{"alg":"HS256","kid":"joshua"}"#
    );
}
