//! Projected volumes: several sources in one directory, without path conflicts.

use std::collections::BTreeSet;

use object::names;

use super::super::fields::{ANNOTATIONS_BYTES_MAX, Field};
use super::volume_sources::{validate_downward_file, validate_key_to_path, validate_mode};

const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

pub fn validate(volume: Field<'_>) {
    validate_mode(volume.field("defaultMode"));
    let mut paths = Paths { volume, taken: BTreeSet::new() };
    for source in volume.field("sources").items() {
        validate_source(volume, source, &mut paths);
    }
}

struct Paths<'a> {
    volume: Field<'a>,
    taken: BTreeSet<&'a str>,
}

impl<'a> Paths<'a> {
    /// `owner` is the name in the message.
    fn take(&mut self, path: &'a str, owner: &str) {
        if !path.is_empty() && !self.taken.insert(path) {
            self.volume.invalid_as(owner, "conflicting duplicate paths");
        }
    }
}

fn validate_source<'a>(volume: Field<'a>, source: Field<'a>, paths: &mut Paths<'a>) {
    let mut count = 0;
    for name in ["secret", "configMap"] {
        let files = source.field(name);
        if files.is_set() {
            count += 1;
            files.field("name").require();
            for item in files.field("items").items() {
                validate_key_to_path(item);
                paths.take(item.field("path").text(), files.field("name").text());
            }
        }
    }
    let downward = source.field("downwardAPI");
    if downward.is_set() {
        count += 1;
        for file in downward.field("items").items() {
            validate_downward_file(downward, file);
            paths.take(file.field("path").text(), file.field("path").text());
        }
    }
    let token = source.field("serviceAccountToken");
    if token.is_set() {
        count += 1;
        validate_token(volume, token);
    }
    let bundle = source.field("clusterTrustBundle");
    if bundle.is_set() {
        count += 1;
        validate_trust_bundle(bundle);
        bundle.field("path").require();
        bundle.field("path").local_path();
        paths.take(bundle.field("path").text(), bundle.field("path").text());
    }
    let certificate = source.field("podCertificate");
    if certificate.is_set() {
        count += 1;
        validate_certificate(certificate, paths);
    }
    if count > 1 {
        source.forbidden("may not specify more than 1 volume type per source");
    }
}

fn validate_token<'a>(volume: Field<'a>, token: Field<'a>) {
    let expiry = token.field("expirationSeconds");
    if expiry.int_or(0) < 600 {
        expiry.invalid_as(expiry.int_or(0), "may not specify a duration less than 10 minutes");
    }
    if expiry.int_or(0) > 1 << 32 {
        expiry.invalid("may not specify a duration larger than 2^32 seconds");
    }
    // The path is reported at the volume.
    let path = volume.field("path").with(token.field("path").value());
    if path.require() {
        path.local_path();
    }
}

fn validate_trust_bundle(bundle: Field<'_>) {
    let (name, signer, selector) = (bundle.field("name"), bundle.field("signerName"), bundle.field("labelSelector"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => bundle.invalid("only one of name and signerName may be used"),
        (true, false) => {
            name.require_because("must be a valid object name");
            let object_name = name.text().rsplit(':').next().unwrap_or_default();
            for problem in names::dns1123_subdomain(object_name) {
                name.invalid(format!("not a valid clustertrustbundlename: {problem}"));
            }
            if selector.is_set() {
                selector.invalid("labelSelector must be unset if name is specified");
            }
        }
        (false, true) => {
            signer.require_because("must be a valid signer name");
            validate_signer_name(signer);
            selector.label_selector();
        }
        (false, false) => bundle.required("either name or signerName must be specified"),
    }
}

/// `domain/path`, as for certificate signers.
fn validate_signer_name(signer: Field<'_>) {
    let text = signer.text();
    if text.is_empty() {
        return signer.required("");
    }
    let Some((domain, path)) = text.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        return signer.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'");
    };
    for problem in names::dns1123_subdomain(domain) {
        signer.invalid(format!("validating label {}: {problem}", object::field::go_quote(domain)));
    }
    for problem in names::dns1123_subdomain(path) {
        signer.invalid(format!("validating label {}: {problem}", object::field::go_quote(path)));
    }
    if !domain.contains('.') {
        signer.invalid("should be a domain with at least two segments separated by dots");
    }
}

fn validate_certificate<'a>(certificate: Field<'a>, paths: &mut Paths<'a>) {
    let signer = certificate.field("signerName");
    validate_signer_name(signer);
    validate_user_annotations(certificate.field("userAnnotations"));
    certificate.field("keyType").one_of(&KEY_TYPES);
    let expiry = certificate.field("maxExpirationSeconds");
    let domain = signer.text().split('/').next().unwrap_or_default();
    let seconds_max = if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") { 86_400 } else { 7_862_400 };
    if expiry.int().is_some_and(|s| s < 3600) {
        expiry.invalid("if provided, maxExpirationSeconds must be >= 3600");
    }
    if expiry.int().is_some_and(|s| s > seconds_max) {
        expiry.invalid(format!("if provided, maxExpirationSeconds must be <= {seconds_max}"));
    }
    let mut count = 0;
    for name in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = certificate.field(name);
        if !path.is_empty() {
            count += 1;
            path.local_path();
            paths.take(path.text(), path.text());
        }
    }
    if count == 0 {
        certificate.required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

fn validate_user_annotations(annotations: Field<'_>) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.len();
        let key = key.to_lowercase();
        let problems = names::qualified_name(&key);
        if problems.is_empty() && !key.contains('/') {
            annotations.invalid_as(key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
        } else {
            annotations.problems_as(&key, problems);
        }
    }
    if size > ANNOTATIONS_BYTES_MAX {
        annotations.too_long(ANNOTATIONS_BYTES_MAX);
    }
}
