//! Interoperability with the openssl program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it skipped")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::certificate::KeyedCertificate;
use pki::csr::{Csr, create_csr};
use pki::key::{KeyKind, PrivateKey, PublicKey};
use pki::subject::{AlternativeNames, CertificateSubject};
use pki::tls::client::{ClientTls, ClientTlsOptions, ServerTrust};
use pki::tls::server::{ClientCertificates, ReloadableCertResolver, server_config};
use pki::usage::CertificateUsage;

/// Returns `None` and prints a notice if openssl is not installed.
fn workshop() -> Option<tempfile::TempDir> {
    if Command::new("openssl").arg("version").output().is_err() {
        test_skip::skip("openssl is not installed");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

#[track_caller]
fn openssl(directory: &Path, arguments: &str) -> String {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "openssl {arguments}\n{out}\n{err}");
    format!("{out}{err}")
}

fn authority() -> CertificateAuthority {
    CertificateAuthority::self_signed("flotilla-ca", Timestamp::now()).unwrap()
}

#[test]
fn openssl_verifies_and_prints_issued_certificates() {
    let Some(place) = workshop() else { return };
    let directory = place.path();
    let authority = authority();
    let (names, ips) = (["api.test".to_owned()], ["127.0.0.1".parse().unwrap()]);
    let server = authority.issue(&CertificateRequest::server("api", &names, &ips), Timestamp::now()).unwrap();
    let groups = ["system:masters".to_owned(), "admins".to_owned()];
    let client = authority.issue(&CertificateRequest::client("ann", &groups), Timestamp::now()).unwrap();
    std::fs::write(directory.join("ca.crt"), authority.certificate().to_pem()).unwrap();
    std::fs::write(directory.join("server.crt"), server.certificate.to_pem()).unwrap();
    std::fs::write(directory.join("client.crt"), client.certificate.to_pem()).unwrap();
    std::fs::write(directory.join("client.key"), client.key.to_pem()).unwrap();

    let verify = "verify -x509_strict -CAfile ca.crt";
    openssl(directory, &format!("{verify} -purpose sslserver -verify_hostname api.test server.crt"));
    openssl(directory, &format!("{verify} -purpose sslserver -verify_ip 127.0.0.1 server.crt"));
    openssl(directory, &format!("{verify} -purpose sslclient client.crt"));
    let text = openssl(directory, "x509 -in client.crt -noout -subject -nameopt RFC2253,sep_comma_plus");
    assert!(text.contains("CN=ann,O=admins,O=system:masters"), "{text}");
    let text = openssl(directory, "x509 -in ca.crt -noout -text");
    for expected in ["CA:TRUE", "Certificate Sign, CRL Sign", "Subject Key Identifier"] {
        assert!(text.contains(expected), "{text}");
    }
    openssl(directory, "pkey -in client.key -check -noout");
}

#[test]
fn openssl_requests_with_any_key_type_are_granted() {
    let Some(place) = workshop() else { return };
    let directory = place.path();
    let authority = authority();
    std::fs::write(directory.join("ca.crt"), authority.certificate().to_pem()).unwrap();
    for new_key in
        ["rsa:2048", "ec -pkeyopt ec_paramgen_curve:prime256v1", "ec -pkeyopt ec_paramgen_curve:secp384r1", "ed25519"]
    {
        let subject = "-subj /C=DE/O=dev/O=ops/CN=ann -addext subjectAltName=DNS:a.test,IP:10.0.0.1,email:a@b.test";
        openssl(directory, &format!("req -new -nodes -newkey {new_key} -keyout key.pem -out req.csr {subject}"));
        let csr = Csr::from_pem(&std::fs::read(directory.join("req.csr")).unwrap()).unwrap();
        assert_eq!(csr.subject(), &CertificateSubject::new("ann", &["dev".into(), "ops".into()]), "{new_key}");
        assert_eq!(csr.alternative_names().emails, ["a@b.test"]);
        let day = Duration::from_secs(86_400);
        let certificate = authority.sign_csr(&csr, CertificateUsage::CLIENT, day, Timestamp::now()).unwrap();
        std::fs::write(directory.join("granted.crt"), certificate.to_pem()).unwrap();
        openssl(directory, "verify -CAfile ca.crt -purpose sslclient granted.crt");
        let text = openssl(directory, "x509 -in granted.crt -noout -subject");
        assert!(
            text.contains("C = DE, O = dev, O = ops, CN = ann") || text.contains("C=DE, O=dev, O=ops, CN=ann"),
            "{text}"
        );
        let key = PrivateKey::from_pem(&std::fs::read(directory.join("key.pem")).unwrap()).unwrap();
        assert!(certificate.belongs_to(&key), "{new_key}");
    }
}

#[test]
fn openssl_accepts_the_requests_we_make() {
    let Some(place) = workshop() else { return };
    let key = PrivateKey::generate().unwrap();
    let names = AlternativeNames { dns_names: vec!["a.test".into()], ..AlternativeNames::default() };
    for names in [names, AlternativeNames::default()] {
        let request = create_csr(&key, &CertificateSubject::new("ann", &["dev".into(), "ops".into()]), &names).unwrap();
        std::fs::write(place.path().join("req.csr"), request).unwrap();
        let text = openssl(place.path(), "req -in req.csr -verify -noout -text");
        assert!(text.contains("verify OK"), "{text}");
        assert_eq!(text.contains("DNS:a.test"), !names.is_empty(), "{text}");
    }
}

#[test]
fn keys_are_read_in_every_form_openssl_writes() {
    let Some(place) = workshop() else { return };
    let directory = place.path();
    let check = |arguments: &str, kind: KeyKind| {
        openssl(directory, arguments);
        let text = std::fs::read(directory.join("k.pem")).unwrap();
        let key = PrivateKey::from_pem(&text).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert_eq!(key.kind(), kind, "{arguments}");
        std::fs::write(directory.join("ours.pem"), key.to_pem()).unwrap();
        openssl(directory, "pkey -in ours.pem -pubout -out theirs.pub");
        let theirs = PublicKey::all_from_pem(&std::fs::read(directory.join("theirs.pub")).unwrap()).unwrap();
        assert_eq!(theirs, [key.public_key().clone()], "{arguments}");
        assert_eq!(PublicKey::all_from_pem(&text).unwrap(), theirs);
    };
    check("ecparam -name prime256v1 -genkey -out k.pem", KeyKind::P256);
    check("ecparam -name secp384r1 -genkey -noout -out k.pem", KeyKind::P384);
    check("genrsa -traditional -out k.pem 2048", KeyKind::Rsa);
    check("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out k.pem", KeyKind::Rsa);
    check("genpkey -algorithm ed25519 -out k.pem", KeyKind::Ed25519);
    openssl(directory, "ecparam -name secp521r1 -genkey -noout -out k.pem");
    let error = PrivateKey::from_pem(&std::fs::read(directory.join("k.pem")).unwrap()).unwrap_err().to_string();
    assert!(error.contains("only RSA, P-256, P-384 and Ed25519"), "{error}");
}

/// Webhooks are often set up with one self-signed certificate as both server certificate and caBundle.
#[test]
fn a_self_signed_server_certificate_can_be_its_own_bundle() {
    let Some(place) = workshop() else { return };
    let directory = place.path();
    let options = "-subj /CN=hook -addext subjectAltName=DNS:hook.test -days 2";
    openssl(directory, &format!("req -x509 -nodes -newkey rsa:2048 -keyout k.pem -out c.pem {options}"));
    let (certificate, key) =
        (std::fs::read(directory.join("c.pem")).unwrap(), std::fs::read(directory.join("k.pem")).unwrap());
    let pair = KeyedCertificate::from_pem(&certificate, &key).unwrap();
    let resolver = Arc::new(ReloadableCertResolver::new(&pair).unwrap());
    let server = Arc::new(server_config(resolver, ClientCertificates::Ignore).unwrap());
    let client = ClientTls::build(ClientTlsOptions::trusting(ServerTrust::Bundle(certificate))).unwrap();
    for (host, believed) in [("hook.test", true), ("other.test", false)] {
        let name = client.server_name_for(host).unwrap();
        let client = rustls::ClientConnection::new(client.config.clone(), name).unwrap();
        let server = rustls::ServerConnection::new(server.clone()).unwrap();
        assert_eq!(handshake(client, server).is_ok(), believed, "{host}");
    }
}

fn handshake(mut client: rustls::ClientConnection, mut server: rustls::ServerConnection) -> Result<(), rustls::Error> {
    while client.is_handshaking() || server.is_handshaking() {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        client.write_tls(&mut up).unwrap();
        server.read_tls(&mut up.as_slice()).unwrap();
        server.process_new_packets()?;
        server.write_tls(&mut down).unwrap();
        client.read_tls(&mut down.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}
