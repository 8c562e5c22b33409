//! Handshakes between our own client and server configurations, in memory.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use rustls_pki_types::CertificateDer;

use super::client::{ClientTls, ClientTlsOptions, ReloadableClientCert, ServerTrust, is_unknown_authority};
use super::client_trust::ClientTrust;
use super::server::{
    ClientCertificates, ProvidedCertificates, ReloadableCertResolver, ServingPair, TlsPolicy, server_config,
    server_config_under,
};
use crate::authority::{CertificateAuthority, CertificateRequest};
use crate::certificate::KeyedCertificate;

struct Peers {
    client: ClientConnection,
    server: ServerConnection,
}

fn handshake(tls: &ClientTls, host: &str, config: &Arc<ServerConfig>) -> Result<Peers, String> {
    let name = tls.server_name_for(host).map_err(|error| error.to_string())?;
    let mut client = ClientConnection::new(tls.config.clone(), name).map_err(|error| error.to_string())?;
    let mut server = ServerConnection::new(config.clone()).map_err(|error| error.to_string())?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).map_err(|error| error.to_string())?;
        server.read_tls(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
        server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).map_err(|error| error.to_string())?;
        client.read_tls(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
        client.process_new_packets().map_err(|error| format!("client: {error}"))?;
    }
    Ok(Peers { client, server })
}

fn now() -> Timestamp {
    Timestamp::now()
}

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::self_signed(name, now()).unwrap()
}

fn server_pair(authority: &CertificateAuthority) -> KeyedCertificate {
    let request = CertificateRequest::server(
        "api",
        &["localhost".into(), "api.test".into()],
        &["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
    );
    authority.issue(&request, now()).unwrap()
}

fn trusting(authority: &CertificateAuthority) -> ClientTlsOptions {
    ClientTlsOptions::trusting(ServerTrust::Bundle(authority.certificate().to_pem().into_bytes()))
}

fn asking_server(authority: &CertificateAuthority) -> (Arc<ReloadableCertResolver>, Arc<ServerConfig>) {
    let resolver = Arc::new(ReloadableCertResolver::new(&server_pair(authority)).unwrap());
    let config = server_config(resolver.clone(), ClientCertificates::Ask).unwrap();
    (resolver, Arc::new(config))
}

#[test]
fn names_and_addresses_in_the_certificate_are_reached_and_others_are_not() {
    let authority = authority("ca");
    let (_, config) = asking_server(&authority);
    let tls = ClientTls::build(trusting(&authority)).unwrap();
    for (host, reached) in
        [("localhost", true), ("127.0.0.1", true), ("[::1]", true), ("other.test", false), ("10.0.0.1", false)]
    {
        assert_eq!(handshake(&tls, host, &config).is_ok(), reached, "{host}");
    }
    let overridden =
        ClientTls::build(ClientTlsOptions { server_name: Some("api.test".into()), ..trusting(&authority) });
    assert!(handshake(&overridden.unwrap(), "10.0.0.1", &config).is_ok());
}

#[test]
fn http2_is_agreed_on_and_no_client_certificate_is_needed() {
    let authority = authority("ca");
    let (_, config) = asking_server(&authority);
    let peers = handshake(&ClientTls::build(trusting(&authority)).unwrap(), "localhost", &config).unwrap();
    assert_eq!(peers.server.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(peers.client.alpn_protocol(), Some(&b"h2"[..]));
    assert!(peers.server.peer_certificates().is_none());
}

#[test]
fn a_server_of_another_authority_is_accepted_only_without_verification() {
    let (_, config) = asking_server(&authority("theirs"));
    let strict = ClientTls::build(trusting(&authority("ours"))).unwrap();
    assert!(handshake(&strict, "localhost", &config).is_err());
    let careless = ClientTls::build(ClientTlsOptions::trusting(ServerTrust::Anyone)).unwrap();
    assert!(handshake(&careless, "any-host", &config).is_ok());
}

#[test]
fn a_client_certificate_names_its_user_and_groups() {
    let authority = authority("ca");
    let (_, config) = asking_server(&authority);
    let groups = ["system:masters".to_owned(), "admins".to_owned()];
    let admin = authority.issue(&CertificateRequest::client("admin", &groups), now()).unwrap();
    let identity = Some(Arc::new(ReloadableClientCert::new(&admin).unwrap()));
    let tls = ClientTls::build(ClientTlsOptions { identity, ..trusting(&authority) }).unwrap();
    let peers = handshake(&tls, "localhost", &config).unwrap();
    let chain = peers.server.peer_certificates().unwrap();
    let trust = ClientTrust::new(&[authority.certificate().clone()]).unwrap();
    let user = trust.verify(chain, now()).unwrap();
    assert_eq!((user.common_name.as_str(), user.organizations), ("admin", groups.to_vec()));
    assert_eq!(user.fingerprint_sha256, admin.certificate.fingerprint_sha256());
    let later = now() + jiff::SignedDuration::from_hours(24 * 400);
    assert!(trust.verify(chain, later).is_err(), "expired");
}

#[test]
fn an_unknown_client_certificate_is_rejected_after_the_handshake() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let stranger = theirs.issue(&CertificateRequest::client("admin", &[]), now()).unwrap();
    let identity = Some(Arc::new(ReloadableClientCert::new(&stranger).unwrap()));
    let tls = ClientTls::build(ClientTlsOptions { identity, ..trusting(&ours) }).unwrap();
    let trust = ClientTrust::new(&[ours.certificate().clone()]).unwrap();

    let (_, asking) = asking_server(&ours);
    let peers = handshake(&tls, "localhost", &asking).unwrap();
    let chain = peers.server.peer_certificates().unwrap();
    assert!(trust.verify(chain, now()).is_err());
    trust.replace(&[theirs.certificate().clone()]).unwrap();
    assert!(trust.verify(chain, now()).is_ok(), "the new authority counts without a restart");
}

#[test]
fn server_certificates_are_not_users() {
    let authority = authority("ca");
    let trust = ClientTrust::new(&[authority.certificate().clone()]).unwrap();
    let server = server_pair(&authority).certificate;
    assert!(trust.verify(&[CertificateDer::from(server.der().to_vec())], now()).is_err());
    assert!(trust.verify(&[], now()).is_err());
    assert!(ClientTrust::new(&[]).unwrap().verify(&[CertificateDer::from(server.der().to_vec())], now()).is_err());
}

#[test]
fn a_replaced_server_certificate_is_shown_to_the_next_connection() {
    let authority = authority("ca");
    let (resolver, config) = asking_server(&authority);
    let shown = || {
        let tls = ClientTls::build(trusting(&authority)).unwrap();
        let peers = handshake(&tls, "localhost", &config).unwrap();
        peers.client.peer_certificates().unwrap()[0].as_ref().to_vec()
    };
    let first = shown();
    let renewed = server_pair(&authority);
    resolver.replace(&renewed).unwrap();
    assert_ne!(first, shown());
    assert_eq!(renewed.certificate.der(), shown());
}

#[test]
fn a_replaced_client_certificate_is_used_for_the_next_connection() {
    let authority = authority("ca");
    let (_, config) = asking_server(&authority);
    let pair = |name: &str| authority.issue(&CertificateRequest::client(name, &[]), now()).unwrap();
    let shown = Arc::new(ReloadableClientCert::new(&pair("first")).unwrap());
    let options = ClientTlsOptions { identity: Some(shown.clone()), ..trusting(&authority) };
    let tls = ClientTls::build(options).unwrap();
    let trust = ClientTrust::new(&[authority.certificate().clone()]).unwrap();
    let user = || {
        let peers = handshake(&tls, "localhost", &config).unwrap();
        trust.verify(peers.server.peer_certificates().unwrap(), now()).unwrap().common_name
    };
    assert_eq!(user(), "first");
    shown.replace(&pair("second")).unwrap();
    assert_eq!(user(), "second");
}

#[test]
fn the_certificate_follows_the_requested_name() {
    let authority = authority("ca");
    let (resolver, config) = asking_server(&authority);
    let other = authority.issue(&CertificateRequest::server("o", &["*.other.test".into()], &[]), now()).unwrap();
    let pair = |pair: &KeyedCertificate| {
        ServingPair::from_pem(pair.certificate.to_pem().as_bytes(), pair.key.to_pem().as_bytes()).unwrap()
    };
    let by_name = vec![(vec!["*.other.test".to_owned()], pair(&other))];
    resolver.provide(&ProvidedCertificates { default: None, by_name: by_name.clone() }, "api.test");
    let tls = ClientTls::build(trusting(&authority)).unwrap();
    let check = |tls: &ClientTls, expected: &[(&str, bool)]| {
        for (host, reached) in expected {
            assert_eq!(handshake(tls, host, &config).is_ok(), *reached, "{host}");
        }
    };
    check(&tls, &[("a.other.test", true), ("api.test", true), ("a.b.other.test", false)]);
    let company = CertificateAuthority::self_signed("company", now()).unwrap();
    let given = CertificateRequest::server("c", &["plane.test".into(), "api.test".into(), "localhost".into()], &[]);
    let default = Some(pair(&company.issue(&given, now()).unwrap()));
    resolver.provide(&ProvidedCertificates { default, by_name }, "api.test");
    let company = ClientTls::build(trusting(&company)).unwrap();
    check(&company, &[("plane.test", true), ("localhost", true), ("api.test", false), ("a.other.test", false)]);
    check(&tls, &[("plane.test", false), ("localhost", false), ("api.test", true), ("a.other.test", true)]);
    resolver.provide(&ProvidedCertificates::default(), "api.test");
    // A client without sessions to resume.
    let fresh = ClientTls::build(trusting(&authority)).unwrap();
    check(&fresh, &[("localhost", true), ("a.other.test", false)]);
}

#[test]
fn versions_and_cipher_suites_are_restricted_by_name() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let offered = |policy: &TlsPolicy| {
        let resolver = asking_server(&authority("ca")).0;
        let config = server_config_under(policy, resolver, ClientCertificates::Ignore).unwrap();
        let suites = &config.crypto_provider().cipher_suites;
        suites.iter().map(|suite| suite.suite().as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(offered(&TlsPolicy::default()).len(), 9);
    let one = names(&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]);
    let kept = offered(&TlsPolicy::read("VersionTLS12", &one).unwrap());
    assert_eq!(kept.iter().filter(|name| name.starts_with("TLS13")).count(), 3, "{kept:?}");
    assert_eq!(kept.len(), 4);
    let both = names(&["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]);
    assert_eq!(offered(&TlsPolicy::read("VersionTLS12", &both).unwrap()).len(), 2);
    for (version, suites, problem) in [
        ("VersionTLS11", names(&[]), "must be VersionTLS12 or VersionTLS13"),
        ("1.3", names(&[]), "must be VersionTLS12 or VersionTLS13"),
        ("VersionTLS12", names(&["TLS_RSA_WITH_AES_128_CBC_SHA"]), "must be one of TLS_AES_256_GCM_SHA384"),
    ] {
        let error = TlsPolicy::read(version, &suites).expect_err("refused");
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_self_signed_server_that_is_its_own_bundle_is_accepted() {
    // A CA:TRUE certificate without names is rejected for its name, which shows that the pin is not blind trust.
    let own = authority("webhook");
    let pair = KeyedCertificate { certificate: own.certificate().clone(), key: own.key().clone() };
    let resolver = Arc::new(ReloadableCertResolver::new(&pair).unwrap());
    let config = Arc::new(server_config(resolver, ClientCertificates::Ignore).unwrap());
    let error = handshake(&ClientTls::build(trusting(&own)).unwrap(), "localhost", &config).err().unwrap();
    assert!(error.contains("not valid for"), "{error}");
}

/// The error with which a client that trusts `authority` refuses a server.
fn refusal(authority: &CertificateAuthority, host: &str, config: &Arc<ServerConfig>) -> rustls::Error {
    let tls = ClientTls::build(trusting(authority)).unwrap();
    let mut client = ClientConnection::new(tls.config.clone(), tls.server_name_for(host).unwrap()).unwrap();
    let mut server = ServerConnection::new(config.clone()).unwrap();
    loop {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        if let Err(error) = client.process_new_packets() {
            return error;
        }
        assert!(client.is_handshaking(), "the server is accepted");
    }
}

#[test]
fn servers_that_no_trusted_authority_signed_are_distinguished_from_other_refusals() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let own = KeyedCertificate { certificate: theirs.certificate().clone(), key: theirs.key().clone() };
    let resolver = Arc::new(ReloadableCertResolver::new(&own).unwrap());
    let self_signed = Arc::new(server_config(resolver, ClientCertificates::Ignore).unwrap());
    for (config, host, expected) in [
        (&asking_server(&theirs).1, "localhost", true),
        (&self_signed, "localhost", true),
        (&asking_server(&ours).1, "elsewhere.test", false),
    ] {
        let error = refusal(&ours, host, config);
        assert_eq!(is_unknown_authority(&error), expected, "{error}");
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let authority = authority("ca");
    let (one, two) = (server_pair(&authority), server_pair(&authority));
    let mixed = KeyedCertificate { certificate: one.certificate, key: two.key };
    assert!(ReloadableCertResolver::new(&mixed).is_err());
}

#[test]
fn an_empty_bundle_is_refused() {
    assert!(ClientTls::build(ClientTlsOptions::trusting(ServerTrust::Bundle(b"nothing".to_vec()))).is_err());
}
