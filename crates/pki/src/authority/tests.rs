//! Contents of issued certificates, and granted and refused signing requests.

use jiff::SignedDuration;

use super::*;
use crate::csr::create_csr;
use crate::identity::parse_client_identity;
use crate::pem;

fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

fn authority() -> CertificateAuthority {
    CertificateAuthority::self_signed("flotilla-ca", now()).unwrap()
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn an_authority_lives_ten_years_and_signs_itself() {
    let authority = authority();
    let certificate = authority.certificate();
    assert!(certificate.is_ca() && certificate.is_self_issued() && certificate.is_signed_by(certificate));
    assert_eq!(certificate.not_before(), now() - SignedDuration::from_mins(5));
    assert_eq!(certificate.not_after(), now() + SignedDuration::from_hours(24 * 3650));
    let reloaded =
        CertificateAuthority::from_pem(certificate.to_pem().as_bytes(), authority.key().to_pem().as_bytes()).unwrap();
    assert_eq!(reloaded.certificate(), certificate);
}

#[test]
fn a_leaf_contains_the_requested_names_in_order() {
    let authority = authority();
    let request = CertificateRequest {
        organizations: texts(&["z-group", "a-group", "z-group", "größe"]),
        dns_names: texts(&["a.test", "*.b.test"]),
        ips: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        ..CertificateRequest::client("user:ann", &[])
    };
    let leaf = authority.issue(&request, now()).unwrap();
    let certificate = Certificate::from_pem(leaf.certificate.to_pem().as_bytes()).unwrap();
    assert_eq!(certificate.subject().common_name, "user:ann");
    assert_eq!(certificate.subject().organizations, request.organizations);
    assert_eq!(certificate.alternative_names().dns_names, request.dns_names);
    assert_eq!(certificate.alternative_names().ips, request.ips);
    assert!(certificate.is_signed_by(authority.certificate()) && !certificate.is_ca());
    assert!(certificate.belongs_to(&leaf.key));
    assert!(!certificate.is_signed_by(CertificateAuthority::self_signed("flotilla-ca", now()).unwrap().certificate()));
}

#[test]
fn no_certificate_outlives_its_authority() {
    let authority = authority();
    let end = authority.certificate().not_after();
    let late = end - SignedDuration::from_hours(1);
    let leaf = authority.issue(&CertificateRequest::client("a", &[]), late).unwrap();
    assert_eq!(leaf.certificate.not_after(), end);
    let forever = CertificateRequest { duration: Duration::MAX, ..CertificateRequest::client("a", &[]) };
    assert_eq!(authority.issue(&forever, now()).unwrap().certificate.not_after(), end);
    let error = authority.issue(&forever, end).unwrap_err();
    assert!(matches!(error, PkiError::AuthorityExpired { .. }), "{error}");
}

#[test]
fn leaves_are_not_authorities() {
    let leaf = authority().issue(&CertificateRequest::client("a", &[]), now()).unwrap();
    let error = CertificateAuthority::new(leaf.certificate, leaf.key).unwrap_err();
    assert!(matches!(error, PkiError::NotAnAuthority), "{error}");
    let error = CertificateAuthority::new(authority().certificate().clone(), authority().key().clone()).unwrap_err();
    assert!(matches!(error, PkiError::KeyMismatch), "{error}");
}

#[test]
fn a_name_that_is_not_ascii_is_refused_as_alternative_name() {
    for bad in ["größe.test", "", "a\nb"] {
        let request = CertificateRequest::server("s", &texts(&[bad]), &[]);
        assert!(authority().issue(&request, now()).is_err(), "{bad:?}");
    }
}

#[test]
fn a_granted_request_keeps_subject_and_names() {
    let authority = authority();
    for key in crate::jwt::keys_of_every_kind() {
        let subject = CertificateSubject {
            uids: texts(&["u-1"]),
            ..CertificateSubject::new("system:node:a", &texts(&["system:nodes", "extra"]))
        };
        let names = AlternativeNames {
            dns_names: texts(&["a.test"]),
            ips: vec!["10.0.0.1".parse().unwrap()],
            emails: texts(&["a@b.test"]),
            uris: texts(&["spiffe://x/y"]),
        };
        let csr = Csr::from_pem(create_csr(&key, &subject, &names).unwrap().as_bytes()).unwrap();
        assert_eq!((csr.subject(), csr.alternative_names()), (&subject, &names));
        let hour = Duration::from_secs(3600);
        let certificate = authority.sign_csr(&csr, CertificateUsage::CLIENT, hour, now()).unwrap();
        assert_eq!((certificate.subject(), certificate.alternative_names()), (&subject, &names));
        assert!(certificate.belongs_to(&key) && certificate.is_signed_by(authority.certificate()));
        assert_eq!(certificate.not_after(), now() + SignedDuration::from_hours(1));
        let user = parse_client_identity(certificate.der()).unwrap();
        assert_eq!((user.uid.as_deref(), user.organizations), (Some("u-1"), subject.organizations));
    }
}

#[test]
fn two_uids_make_no_user() {
    let key = PrivateKey::generate().unwrap();
    let subject = CertificateSubject { uids: texts(&["a", "b"]), ..CertificateSubject::new("ann", &[]) };
    let csr = Csr::from_pem(create_csr(&key, &subject, &AlternativeNames::default()).unwrap().as_bytes()).unwrap();
    let certificate = authority().sign_csr(&csr, CertificateUsage::CLIENT, DAY, now()).unwrap();
    assert!(parse_client_identity(certificate.der()).is_err());
}

#[test]
fn authorities_with_any_kind_of_key_can_sign() {
    for key in crate::jwt::keys_of_every_kind() {
        let authority = CertificateAuthority::self_signed_with_key("ca", key, now()).unwrap();
        let leaf = authority.issue(&CertificateRequest::client("a", &[]), now()).unwrap();
        assert!(leaf.certificate.is_signed_by(authority.certificate()), "{:?}", authority.key());
    }
}

#[test]
fn a_request_changed_in_any_signed_byte_or_in_its_signature_is_refused() {
    let key = PrivateKey::generate().unwrap();
    let names = AlternativeNames { dns_names: texts(&["a.test"]), ..AlternativeNames::default() };
    let request = create_csr(&key, &CertificateSubject::new("ann", &texts(&["dev"])), &names).unwrap();
    let good = pem::decode_one(request.as_bytes(), pem::CERTIFICATE_REQUEST).unwrap();
    // Between the two is only the algorithm identifier, which the signature does not cover.
    let algorithm = key.signature_algorithm_der();
    let signed_end = good.windows(algorithm.len()).position(|window| window == algorithm).unwrap();
    let signature_start = good.len() - 64;
    for position in (0..signed_end).chain(signature_start..good.len()) {
        let mut changed = good.clone();
        changed[position] ^= 1;
        assert!(Csr::from_der(&changed).is_err(), "byte {position}");
    }
    let mut longer = good;
    longer.push(0);
    assert!(Csr::from_der(&longer).is_err());
}

#[test]
fn only_a_certificate_request_block_is_read_as_one() {
    let certificate = authority().certificate().to_pem();
    for text in ["", "hello", certificate.as_str()] {
        let error = Csr::from_pem(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "no PEM block of type CERTIFICATE REQUEST found");
    }
}

#[test]
fn usages_have_the_names_kubernetes_uses() {
    for (name, known) in [("client auth", true), ("digital signature", true), ("s/mime", true), ("Client Auth", false)]
    {
        assert_eq!(CertificateUsage::from_kubernetes(name).is_ok(), known, "{name}");
    }
}

#[test]
fn keys_never_print_their_content() {
    let authority = authority();
    assert_eq!(format!("{:?}", authority.key()), "PrivateKey(P256, redacted)");
    assert!(!format!("{authority:?}").contains("BEGIN"));
}
