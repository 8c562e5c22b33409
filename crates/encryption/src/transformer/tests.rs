//! Which keys are sealed with which provider, and what can be read.

use super::*;

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

fn encryption(entries: &[(&str, &str)]) -> Encryption {
    let mut text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n".to_owned();
    for (resources, providers) in entries {
        text += &format!("- resources: [{resources}]\n  providers: [{providers}]\n");
    }
    Encryption::new(&EncryptionConfiguration::parse(&text).expect("valid")).expect("built")
}

fn keys(provider: &str, names: &str) -> String {
    let keys: Vec<String> = names.split(' ').map(|name| format!("{{name: {name}, secret: {KEY}}}")).collect();
    format!("{{{provider}: {{keys: [{}]}}}}", keys.join(","))
}

fn sealing(encryption: &Encryption, key: &str, value: &'static str) -> String {
    Sealing::of(&encryption.seal(key, Bytes::from_static(value.as_bytes())).expect("sealed")).to_string()
}

#[test]
fn the_most_specific_rule_seals() {
    let encryption = encryption(&[
        ("secrets", &keys("secretbox", "a")),
        ("deployments.apps", &keys("aescbc", "b")),
        ("'*.apps'", &keys("aesgcm", "c")),
        ("'*.'", &keys("aesgcm", "d")),
        ("'*.*'", &keys("aesgcm", "e")),
    ]);
    let check = |key: &str, expected: &str| assert_eq!(sealing(&encryption, key, "{}"), expected, "{key}");
    check("/core/secrets/ns/a", "secretbox:v1:a");
    check("/apps/deployments/ns/a", "aescbc:v1:b");
    check("/apps/statefulsets/ns/a", "aesgcm:v1:c");
    check("/core/configmaps/ns/a", "aesgcm:v1:d");
    check("/batch/jobs/ns/a", "aesgcm:v1:e");
    check("/work.karmada.io/works/ns/a", "aesgcm:v1:e");
    check("/-flotilla/keys", "secretbox:v1:a");
    check("/flotilla.store/format", "identity");
}

#[test]
fn works_that_carry_a_secret_are_sealed_as_secrets_are() {
    let encryption = encryption(&[("secrets", &format!("{}, {{identity: {{}}}}", keys("aesgcm", "a")))]);
    let check = |key: &str, value: &'static str, expected: &str| {
        assert_eq!(sealing(&encryption, key, value), expected, "{key} {value}");
        let stored = encryption.seal(key, Bytes::from_static(value.as_bytes())).expect("sealed");
        let opened = encryption.open_now(key, &stored).expect("local").expect("opened");
        assert_eq!(opened, value.as_bytes());
        assert!(!encryption.is_stale(key, &stored), "{key}");
        let is_sealed = expected != "identity";
        assert_eq!(encryption.is_stale(key, &Bytes::from_static(value.as_bytes())), is_sealed, "{key}");
    };
    check("/work.karmada.io/works/ns/a", r#"{"spec":{"manifests":[{"kind":"Secret"}]}}"#, "aesgcm:v1:a");
    check("/work.karmada.io/works/ns/a", r#"{"spec":{"manifests":[{"kind":"Deployment"}]}}"#, "identity");
    check("/core/configmaps/ns/a", r#"{"kind":"Secret"}"#, "identity");
    check("/core/secrets/ns/a", "{}", "aesgcm:v1:a");
}

#[test]
fn every_key_of_the_list_opens_and_only_the_first_is_current() {
    let both = encryption(&[("secrets", &format!("{}, {}", keys("aesgcm", "new old"), keys("aescbc", "older")))]);
    let key = "/core/secrets/ns/a";
    for (provider, name, is_stale) in [("aesgcm", "new", false), ("aesgcm", "old", true), ("aescbc", "older", true)] {
        let one = encryption(&[("secrets", &keys(provider, name))]);
        let stored = one.seal(key, Bytes::from_static(b"{}")).expect("sealed");
        assert_eq!(both.open_now(key, &stored).expect("local").expect("opened"), "{}", "{name}");
        assert_eq!(both.is_stale(key, &stored), is_stale, "{name}");
    }
}

#[test]
fn values_without_their_key_are_refused_with_the_reason() {
    let encryption = encryption(&[("secrets", &keys("aesgcm", "a"))]);
    let check = |key: &str, stored: &'static [u8], expected: &str| {
        let error = encryption.open_now(key, &Bytes::from_static(stored)).expect("local").expect_err("refused");
        assert_eq!(error.to_string(), format!("the value of {key} cannot be decrypted: {expected}"));
    };
    let secret = "/core/secrets/ns/a";
    check(
        secret,
        b"k8s:enc:aesgcm:v1:b:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "it is sealed with aesgcm:v1:b, which the encryption configuration does not have",
    );
    check(secret, b"{}", "it is not encrypted, and its providers do not include identity");
    check(secret, b"k8s:enc:aesgcm:v1:a:x", "the value is shorter than its header");
    check(
        secret,
        b"k8s:enc:aesgcm:v1:a:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "the value does not match the key: it was changed, moved, or sealed with another key of this name",
    );
    check(
        "/core/configmaps/ns/a",
        b"k8s:enc:aesgcm:v1:a:xxx",
        "it is sealed with aesgcm:v1:a, which the encryption configuration does not have",
    );
    assert!(encryption.is_plain("/core/configmaps/ns/a", &Bytes::from_static(b"{}")));
    // A value moved to another key is not accepted.
    let stored = encryption.seal(secret, Bytes::from_static(b"{}")).expect("sealed");
    assert!(encryption.open_now("/core/secrets/ns/b", &stored).expect("local").is_err());
}

#[test]
fn identity_first_stores_plain_and_reads_what_was_sealed() {
    let sealed = encryption(&[("secrets", &keys("secretbox", "a"))]);
    let plain = encryption(&[("secrets", &format!("{{identity: {{}}}}, {}", keys("secretbox", "a")))]);
    let key = "/core/secrets/ns/a";
    let stored = sealed.seal(key, Bytes::from_static(b"{}")).expect("sealed");
    assert_eq!(plain.open_now(key, &stored).expect("local").expect("opened"), "{}");
    assert!(plain.is_stale(key, &stored) && !plain.is_stale(key, &Bytes::from_static(b"{}")));
    assert_eq!(sealing(&plain, key, "{}"), "identity");
}

#[tokio::test]
async fn values_of_a_kube_apiserver_are_opened_by_their_whole_key() {
    let theirs = encryption(&[("secrets", &keys("aesgcm", "a")), ("configmaps", &keys("secretbox", "b"))]);
    let value = Bytes::from_static(b"{}");
    let sealed = theirs.seal("/core/secrets/ns/x", value.clone()).expect("sealed");
    let boxed = theirs.seal("/core/configmaps/ns/x", value.clone()).expect("sealed");
    let check = async |encryption: &Encryption, path: &str, stored: &Bytes, expected: Option<&Bytes>| {
        let opened = encryption.open_foreign(path, stored.clone()).await;
        assert_eq!(opened.as_ref().ok(), expected, "{path} {opened:?}");
    };
    check(&theirs, "/registry/core/secrets/ns/x", &sealed, Some(&value)).await;
    check(&theirs, "/anywhere", &boxed, Some(&value)).await;
    check(&theirs, "/registry/secrets/ns/x", &value, Some(&value)).await;
    // The key is authenticated, and other keys do not open it.
    check(&theirs, "/registry/secrets/ns/x", &sealed, None).await;
    let others = encryption(&[("secrets", &keys("aesgcm", "c"))]);
    check(&others, "/registry/core/secrets/ns/x", &sealed, None).await;
}
