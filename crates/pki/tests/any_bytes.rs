//! Parsers return a value or an error for any input, and never panic.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it skipped")]

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::certificate::Certificate;
use pki::csr::{Csr, create_csr};
use pki::identity::parse_client_identity;
use pki::jwt::Algorithm;
use pki::jwt::jwks::{self, VerificationKey};
use pki::jwt::signer::JwtSigner;
use pki::jwt::verifier::{JwtVerifier, TimeRules, peek_issuer};
use pki::key::{PrivateKey, PublicKey};
use pki::pem;
use pki::subject::{AlternativeNames, CertificateSubject};
use pki::tls::client::{ClientTls, ClientTlsOptions, ServerTrust};
use pki::token::BootstrapToken;
use proptest::prelude::*;

fn read_everything(bytes: &[u8]) {
    let _ = Certificate::from_der(bytes);
    let _ = parse_client_identity(bytes);
    let _ = Csr::from_der(bytes);
    let _ = PrivateKey::from_pkcs8(bytes);
    let _ = PublicKey::from_spki(bytes);
    let _ = pem::decode(bytes);
    let _ = jwks::parse(bytes);
    for label in
        ["CERTIFICATE", "CERTIFICATE REQUEST", "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "RSA PUBLIC KEY"]
    {
        let text = pem::encode(label, bytes);
        let _ = Certificate::bundle_from_pem(text.as_bytes());
        let _ = Csr::from_pem(text.as_bytes());
        let _ = PrivateKey::from_pem(text.as_bytes());
        if let Ok(keys) = PublicKey::all_from_pem(text.as_bytes()) {
            let _ = jwks::publish(&keys.into_iter().map(VerificationKey::new).collect::<Vec<_>>());
        }
        let _ = ClientTls::build(ClientTlsOptions::trusting(ServerTrust::Bundle(text.into_bytes())));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = peek_issuer(text);
        let _ = BootstrapToken::parse(text);
    }
}

/// Well-formed inputs to damage: random bytes alone rarely get past the first tag.
static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let now = Timestamp::now();
    let authority = CertificateAuthority::self_signed("ca", now).unwrap();
    let names = AlternativeNames {
        dns_names: vec!["a.test".into()],
        ips: vec!["::1".parse().unwrap()],
        ..AlternativeNames::default()
    };
    let leaf = authority.issue(&CertificateRequest::server("s", &names.dns_names, &names.ips), now).unwrap();
    let request = create_csr(&leaf.key, &CertificateSubject::new("ann", &["dev".into()]), &names).unwrap();
    let keys = jwks::publish(&[VerificationKey::new(leaf.key.public_key().clone())]).unwrap();
    vec![
        leaf.certificate.der().to_vec(),
        pem::decode_one(request.as_bytes(), pem::CERTIFICATE_REQUEST).unwrap(),
        leaf.key.pkcs8().to_vec(),
        leaf.key.public_key().spki().to_vec(),
        request.into_bytes(),
        keys.to_string().into_bytes(),
    ]
});

static SIGNER: LazyLock<(JwtVerifier, String)> = LazyLock::new(|| {
    let signer = JwtSigner::new(PrivateKey::generate().unwrap());
    let times = TimeRules { leeway: Duration::ZERO, requires_expiry: false };
    let keys = vec![VerificationKey::new(signer.public_key().clone())];
    let token = signer.sign(&serde_json::Map::from_iter([("sub".to_owned(), "ann".into())])).unwrap();
    (JwtVerifier::new(keys, Algorithm::ALL, times), token)
});

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn random_bytes_never_panic_a_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    #[test]
    fn damaged_inputs_never_panic_a_reader(
        sample in 0..6usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = SAMPLES[sample].clone();
        for (position, value) in damage {
            let position = position.index(bytes.len());
            bytes[position] = value;
        }
        read_everything(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        read_everything(&bytes);
    }

    #[test]
    fn a_damaged_token_is_never_accepted(position in any::<prop::sample::Index>(), value in "[ -~]") {
        let (verifier, token) = &*SIGNER;
        prop_assert!(verifier.verify(token, Timestamp::now()).is_ok());
        let position = position.index(token.len());
        let mut damaged = token.clone();
        damaged.replace_range(position..=position, &value);
        prop_assert_eq!(verifier.verify(&damaged, Timestamp::now()).is_ok(), damaged == *token);
        let _ = verifier.verify(&value, Timestamp::now());
    }
}
