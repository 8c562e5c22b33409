//! Bootstrap tokens against an API in memory: created, listed, deleted, with the permissions of their cluster.

use cluster_client::testing::MemoryApi;
use data_encoding::HEXLOWER;

use super::*;
use crate::NoProgress;
use crate::credentials::CLUSTER_ROLES;

fn now() -> Timestamp {
    "2026-11-15T00:00:00Z".parse().expect("a time")
}

#[tokio::test]
async fn a_token_is_created_listed_and_deleted() {
    let client = MemoryApi::default().client();
    let options = TokenOptions { description: "x".into(), ..TokenOptions::default() };
    let token = create_token(&client, &options, now()).await.expect("created");
    assert_eq!((token.id.len(), token.secret.len()), (6, 16));
    let listed = list_tokens(&client, &NoProgress).await.expect("listed");
    let [stored] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(stored.token, token);
    assert_eq!(stored.expires, "2026-11-16T00:00:00Z".parse().ok());
    assert_eq!(stored.usages, ["authentication", "signing"]);
    assert_eq!((stored.description.as_str(), stored.groups.as_str()), ("x", DEFAULT_GROUP));
    delete_token(&client, &token.id, &NoProgress).await.expect("deleted");
    assert!(delete_token(&client, &token.id, &NoProgress).await.is_err());
}

#[tokio::test]
async fn the_last_token_of_a_cluster_takes_its_permissions_along() {
    let client = MemoryApi::default().client();
    let options = TokenOptions { cluster: Some("m1".into()), ..TokenOptions::default() };
    let first = create_token(&client, &options, now()).await.expect("created");
    let second = create_token(&client, &options, now()).await.expect("created");
    let listed = list_tokens(&client, &NoProgress).await.expect("listed");
    assert!(listed.iter().all(|stored| stored.cluster.as_deref() == Some("m1")), "{listed:?}");
    for (token, is_left) in [(first, true), (second, false)] {
        delete_token(&client, &token.id, &NoProgress).await.expect("deleted");
        let role = ResourceRef::cluster(&CLUSTER_ROLES.gvr(), "system:karmada:m1:bootstrap");
        assert_eq!(client.find(role).await.expect("answers").is_some(), is_left);
    }
    let reserved = TokenOptions { cluster: Some("rbac-generator".into()), ..TokenOptions::default() };
    assert!(create_token(&client, &reserved, now()).await.is_err());
}

#[test]
fn invalid_options_are_rejected() {
    let usages = TokenOptions { usages: vec!["walking".into()], ..TokenOptions::default() };
    let groups = TokenOptions { groups: vec!["admins".into()], ..TokenOptions::default() };
    assert!(usages.check().is_err() && groups.check().is_err() && TokenOptions::default().check().is_ok());
}

#[test]
fn a_token_has_an_id_of_six_and_a_secret_of_sixteen_characters() {
    for text in ["abcdef", "abcde.0123456789abcdef", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcdef0", ""] {
        assert!(BootstrapToken::parse(text).is_err(), "{text}");
    }
    assert_eq!(parse_id("abcdef.0123456789abcdef").as_deref(), Some("abcdef"));
    assert_eq!(parse_id("abcdef").as_deref(), Some("abcdef"));
    assert_eq!(parse_id("abcdefg"), None);
    let token = BootstrapToken::parse("abcdef.0123456789abcdef").expect("a token");
    assert_eq!(format!("{token:?}"), "BootstrapToken(abcdef)", "the secret is not logged");
}

#[test]
fn the_pin_is_the_hash_of_the_public_key() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate");
    let pem = key.public_key_pem();
    let lines: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let digest = ring::digest::digest(&ring::digest::SHA256, &STANDARD.decode(lines).expect("base64"));
    let hex = HEXLOWER.encode(digest.as_ref());
    assert_eq!(key_pins(certificate.pem().as_bytes()).expect("pins"), [format!("sha256:{hex}")]);
    assert!(key_pins(b"nothing").is_err());
}
