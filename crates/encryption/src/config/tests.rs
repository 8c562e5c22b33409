//! Configurations that are accepted and refused, with the messages of kube-apiserver.

use super::*;

const KEY_32: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// A configuration with one entry.
fn entry(resources: &str, providers: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: {resources}\n  providers: {providers}\n"
    )
}

#[track_caller]
fn check(text: &str, expected: &str) {
    match EncryptionConfiguration::parse(text) {
        Ok(_) => assert_eq!(expected, "", "accepted:\n{text}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[test]
fn providers_and_keys_are_validated() {
    let with = |providers: &str| entry("[secrets]", providers);
    let key = format!("[{{name: a, secret: {KEY_32}}}]");
    for provider in ["aescbc", "aesgcm", "secretbox"] {
        check(&with(&format!("[{{{provider}: {{keys: {key}}}}}, {{identity: {{}}}}]")), "");
    }
    let at = "resources[0].providers[0]";
    check(&with("[{aescbc: {keys: []}}]"), &format!("{at}.aescbc.keys: Required value: at least one keys is required"));
    check(
        &with("[{aesgcm: {keys: [{secret: c2hvcnQ=}]}}]"),
        &format!(
            "[{at}.aesgcm.keys[0].name: Required value: name is a mandatory field for a key, {at}.aesgcm.keys[0].secret: \
             Invalid value: \"REDACTED\": secret is not of the expected length, got 5, expected one of [16 24 32]]"
        ),
    );
    check(
        &with("[{secretbox: {keys: [{name: a, secret: '%%%'}]}}]"),
        &format!("{at}.secretbox.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded"),
    );
    check(
        &with("[{secretbox: {keys: [{name: a, secret: MDEyMzQ1Njc4OTAxMjM0NQ==}]}}]"),
        &format!(
            "{at}.secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 16, expected \
             one of [32]"
        ),
    );
    check(
        &with("[{}]"),
        &format!(
            "{at}: Invalid value: {{}}: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, \
             Secretbox, Identity"
        ),
    );
    check(
        &with(&format!("[{{aescbc: {{keys: {key}}}, identity: {{}}}}]")),
        &format!(
            "{at}: Invalid value: [\"aescbc\",\"identity\"]: more than one provider specified in a single element, should split \
             into different list elements"
        ),
    );
    check(&with("[]"), "resources[0].providers: Required value: at least one resources[0].providers is required");
}

#[test]
fn resources_are_validated() {
    let with = |resources: &str| entry(resources, "[{identity: {}}]");
    for resources in ["[secrets]", "['*.']", "['*.apps', secrets]", "['*.*']", "[configmaps, deployments.apps]"] {
        check(&with(resources), "");
    }
    let at = "resources[0].resources";
    check(&with("[]"), &format!("{at}: Required value: at least one {at} is required"));
    check(
        &with("['*']"),
        &format!(
            "{at}[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group or *.* to encrypt all \
             resources"
        ),
    );
    check(
        &with("[Secrets]"),
        &format!("{at}[0]: Invalid value: \"Secrets\": resource name should not contain capital letters"),
    );
    check(
        &with("[secrets.*]"),
        &format!("{at}[0]: Invalid value: \"secrets.*\": encrypting the same resource across groups is not supported"),
    );
    check(&with("[secrets, '*.']"), &format!("{at}: Invalid value: [\"secrets\",\"*.\"]: {OVERLAP}"));
    check(
        &with("[secrets, secrets]"),
        &format!(
            "{at}: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be specified multiple times"
        ),
    );
    check(&with("['*.*', pods]"), &format!("{at}: Invalid value: [\"*.*\",\"pods\"]: {OVERLAP}"));
    let two = with("['*.']") + "- resources: [secrets]\n  providers: [{identity: {}}]\n";
    check(&two, "resource \"secrets\" is masked by earlier rule \"*.\"");
    let two = with("[secrets]") + "- resources: ['*.*']\n  providers: [{identity: {}}]\n";
    check(&two, "");
}

#[test]
fn kms_providers_are_validated() {
    let with = |kms: &str| entry("[secrets]", &format!("[{{kms: {kms}}}]"));
    let at = "resources[0].providers[0].kms";
    check(&with("{apiVersion: v2, name: a, endpoint: 'unix:///a.sock'}"), "");
    check(&with("{apiVersion: v2, name: a, endpoint: 'unix:///a.sock', timeout: 1m30s}"), "");
    check(
        &with("{apiVersion: v2, name: 'a:b', endpoint: 'http://a', timeout: 0s, cachesize: 5}"),
        &format!(
            "[{at}.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':', {at}.timeout: Invalid value: \
             \"0s\": timeout should be a positive value, {at}.endpoint: Invalid value: \"http://a\": unsupported scheme \"http\" \
             for KMS provider, only unix is supported, {at}.cachesize: Invalid value: 5: cachesize is not supported in v2]"
        ),
    );
    check(
        &with("{name: a, endpoint: 'unix:///a.sock'}"),
        &format!(
            "{at}.apiVersion: Invalid value: \"v1\": unsupported apiVersion for KMS provider, only v2 is supported"
        ),
    );
}

#[test]
fn other_documents_and_unknown_fields_are_refused_without_showing_keys() {
    check("", "it is not a valid EncryptionConfiguration: it is empty");
    check(
        "apiVersion: v1\nkind: Secret\n",
        "it is not a valid EncryptionConfiguration: use kind EncryptionConfiguration of apiserver.config.k8s.io/v1, not Secret of v1",
    );
    let unknown = entry("[secrets]", &format!("[{{aescbc: {{keys: [{{name: a, secrett: {KEY_32}}}]}}}}]"));
    let error = EncryptionConfiguration::parse(&unknown).expect_err("unknown field").to_string();
    assert!(error.contains("secrett") && !error.contains("MDEy"), "{error}");
}

#[test]
fn a_configuration_survives_writing() {
    let text =
        entry("[secrets]", &format!("[{{secretbox: {{keys: [{{name: a, secret: {KEY_32}}}]}}}}, {{identity: {{}}}}]"));
    let config = EncryptionConfiguration::parse(&text).expect("valid");
    assert_eq!(EncryptionConfiguration::parse(&config.to_yaml().expect("written")).expect("valid"), config);
}
