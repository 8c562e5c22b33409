//! Certificate signing requests: the server records the requester, and only subresources change one.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{FieldError, Object, names};
use serde_json::{Map, Value, json};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest};

use crate::strategies::defaults::show_empty;
use crate::strategies::fields::{Field, Report, same};
use crate::strategy::{Strategy, WriteContext};

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const EXPIRATION_SECONDS_MIN: i64 = 600;

/// Conditions that are either absent or true.
const FINAL_CONDITIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "CertificateSigningRequest" => Some(Arc::new(SigningRequest { approval: false })),
        _ => None,
    }
}

/// The rules of the `/approval` subresource: use its `prepare_status` and `validate_status` instead of those for
/// `/status`. Only there can Approved and Denied be set.
pub fn approval() -> Arc<dyn Strategy> {
    Arc::new(SigningRequest { approval: true })
}

struct SigningRequest {
    approval: bool,
}

impl Strategy for SigningRequest {
    fn default(&self, request: &mut Object) {
        show_empty(request, "status");
    }

    fn prepare_create(&self, request: &mut Object, ctx: &WriteContext) {
        for field in ["username", "uid", "groups", "extra"] {
            request.remove(&["spec", field]);
        }
        if !ctx.user.is_empty() {
            request.set(&["spec", "username"], ctx.user.as_str());
        }
        if !ctx.uid.is_empty() {
            request.set(&["spec", "uid"], ctx.uid.as_str());
        }
        if !ctx.groups.is_empty() {
            request.set(&["spec", "groups"], ctx.groups.clone());
        }
        if !ctx.extra.is_empty() {
            let extra: Map<String, Value> =
                ctx.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
            request.set(&["spec", "extra"], extra);
        }
        request.set(&["status"], json!({}));
    }

    fn validate_create(&self, request: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate(&report, request, None);
        report.finish()
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        keep(new, old, "spec");
        keep(new, old, "status");
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        validate_change(new, old, Allowed { approval: false, certificate: false })
    }

    fn prepare_status(&self, new: &mut Object, old: &Object, ctx: &WriteContext) {
        keep(new, old, "spec");
        if self.approval {
            stamp_conditions(new, old, ctx);
            let conditions = new.get(&["status", "conditions"]).cloned();
            keep(new, old, "status");
            match conditions {
                Some(conditions) => new.set(&["status", "conditions"], conditions),
                None => drop(new.remove(&["status", "conditions"])),
            }
            return;
        }
        preserve_conditions(new, old, "Approved");
        preserve_conditions(new, old, "Denied");
        stamp_conditions(new, old, ctx);
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        validate_change(new, old, Allowed { approval: self.approval, certificate: !self.approval })
    }

    /// Any name is valid.
    fn validate_name(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
}

/// The changes the current subresource allows.
struct Allowed {
    approval: bool,
    certificate: bool,
}

fn keep(new: &mut Object, old: &Object, field: &str) {
    match old.get(&[field]) {
        Some(value) => new.set(&[field], value.clone()),
        None => drop(new.remove(&[field])),
    }
}

fn conditions_of<'a>(request: &'a Object, ty: &str) -> Vec<&'a Value> {
    request.items(&["status", "conditions"]).iter().filter(|c| c["type"] == *ty).collect()
}

/// Restores the stored conditions of a type, unless some were added or removed: then validation reports it.
fn preserve_conditions(new: &mut Object, old: &Object, ty: &str) {
    let stored: Vec<Value> = conditions_of(old, ty).into_iter().cloned().collect();
    if conditions_of(new, ty).len() != stored.len() {
        return;
    }
    let mut conditions = new.items(&["status", "conditions"]).to_vec();
    let slots = conditions.iter_mut().filter(|c| c["type"] == *ty);
    slots.zip(stored).for_each(|(slot, stored)| *slot = stored);
    if !conditions.is_empty() {
        new.set(&["status", "conditions"], conditions);
    }
}

/// Sets missing times of conditions.
fn stamp_conditions(new: &mut Object, old: &Object, ctx: &WriteContext) {
    let now = object::time::format_seconds(ctx.now);
    let mut conditions = new.items(&["status", "conditions"]).to_vec();
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        let missing = |condition: &Map<String, Value>, key: &str| condition.get(key).is_none_or(Value::is_null);
        if missing(condition, "lastUpdateTime") {
            condition.insert("lastUpdateTime".into(), now.clone().into());
        }
        if missing(condition, "lastTransitionTime") {
            let stored = old.items(&["status", "conditions"]).iter().find(|stored| {
                stored.get("type") == condition.get("type") && stored.get("status") == condition.get("status")
            });
            let time = stored.and_then(|stored| stored["lastTransitionTime"].as_str()).unwrap_or(&now).to_owned();
            condition.insert("lastTransitionTime".into(), time.into());
        }
    }
    if !conditions.is_empty() {
        new.set(&["status", "conditions"], conditions);
    }
}

fn validate<'a>(report: &'a Report<'a>, request: &'a Object, old: Option<&Object>) {
    let spec = report.field(request, "spec");
    if let Err(problem) = check_request(spec.field("request").text()) {
        spec.field("request").invalid(problem);
    }
    validate_usages(spec.field("usages"), old);
    let signer = spec.field("signerName");
    let stored_signer = old.map(|old| old.str_at(&["spec", "signerName"])).unwrap_or_default();
    if signer.text() == LEGACY_SIGNER && stored_signer != LEGACY_SIGNER {
        signer.invalid("the legacy signerName is not allowed via this API version");
    } else {
        validate_signer_name(signer);
    }
    let expiration = spec.field("expirationSeconds");
    if expiration.int().is_some_and(|seconds| seconds < EXPIRATION_SECONDS_MIN) {
        expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)");
    }
    let status = report.field(request, "status");
    validate_conditions(status.field("conditions"), old);
    let certificate = status.field("certificate");
    let stored = old.map(|old| old.str_at(&["status", "certificate"]));
    let tolerated = stored.is_some_and(|stored| stored == certificate.text() || check_certificate(stored).is_err());
    if !tolerated && let Err(problem) = check_certificate(certificate.text()) {
        certificate.invalid_as("<certificate data>", problem);
    }
}

fn validate_usages(usages: Field<'_>, old: Option<&Object>) {
    usages.require();
    let stored: Vec<&str> =
        old.map(|o| o.items(&["spec", "usages"])).unwrap_or_default().iter().filter_map(Value::as_str).collect();
    // Existing errors of a stored request must not block status updates.
    if stored.iter().all(|usage| USAGES.contains(usage)) {
        usages.items().for_each(|usage| usage.one_of(USAGES));
    }
    if stored.iter().collect::<BTreeSet<_>>().len() == stored.len() {
        let mut seen = BTreeSet::new();
        usages.items().filter(|usage| !seen.insert(usage.text())).for_each(Field::duplicate);
    }
}

/// A signer name is `domain/path`, the domain with at least one dot.
pub(crate) fn validate_signer_name(signer: Field<'_>) {
    if !signer.require() {
        return;
    }
    let name = signer.text();
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        signer.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'");
        return;
    };
    if domain.len() > 253 {
        signer.too_long(253);
    }
    let problem_in = |part: &str, rule: fn(&str) -> Vec<String>| {
        let found =
            part.split('.').map(|label| (label.to_owned(), rule(label))).find(|(_, problems)| !problems.is_empty());
        if let Some((label, problems)) = found {
            let label = object::field::go_quote(&label);
            signer.problems_as(part, problems.iter().map(|p| format!("validating label {label}: {p}")).collect());
        }
    };
    problem_in(domain, names::dns1123_label);
    if !domain.contains('.') {
        signer.invalid_as(domain, "should be a domain with at least two segments separated by dots");
    }
    problem_in(path, names::dns1123_subdomain);
    if name.len() > 253 + 253 + 63 + 2 {
        signer.too_long(253 + 253 + 63 + 2);
    }
}

fn validate_conditions(conditions: Field<'_>, old: Option<&Object>) {
    let stored: Vec<&str> = old
        .map(|o| o.items(&["status", "conditions"]))
        .unwrap_or_default()
        .iter()
        .map(|c| c["type"].as_str().unwrap_or_default())
        .collect();
    let both_stored = stored.contains(&"Approved") && stored.contains(&"Denied");
    let repeated_stored = stored.iter().collect::<BTreeSet<_>>().len() != stored.len();
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let ty = condition.field("type");
        if !stored.contains(&"") {
            ty.require();
        }
        let allowed: &[&str] =
            if FINAL_CONDITIONS.contains(&ty.text()) { &["True"] } else { &["False", "True", "Unknown"] };
        condition.field("status").required_one_of(allowed);
        let other = match ty.text() {
            "Approved" => Some("Denied"),
            "Denied" => Some("Approved"),
            _ => None,
        };
        if !both_stored && other.is_some_and(|other| seen.contains(other)) {
            conditions.invalid_as(ty.text(), "Approved and Denied conditions are mutually exclusive");
        }
        if !seen.insert(ty.text()) && !repeated_stored {
            ty.duplicate();
        }
    }
}

fn validate_change(new: &Object, old: &Object, allowed: Allowed) -> Vec<FieldError> {
    let report = Report::new();
    validate(&report, new, Some(old));
    let conditions = report.field(new, "status").field("conditions");
    for ty in FINAL_CONDITIONS {
        if conditions_of(new, ty).len() < conditions_of(old, ty).len() {
            conditions.forbidden(format!("updates may not remove a condition of type \"{ty}\""));
        }
    }
    for ty in ["Approved", "Denied"].into_iter().filter(|_| !allowed.approval) {
        let (now, before) = (conditions_of(new, ty), conditions_of(old, ty));
        if now.len() > before.len() {
            conditions.forbidden(format!("updates may not add a condition of type \"{ty}\""));
        } else if now.len() == before.len() && !now.iter().zip(&before).all(|(a, b)| same(Some(a), Some(b))) {
            conditions.forbidden(format!("updates may not modify a condition of type \"{ty}\""));
        }
    }
    let certificate = report.field(new, "status").field("certificate");
    let stored = old.str_at(&["status", "certificate"]);
    if certificate.text() != stored {
        if !allowed.certificate {
            certificate.forbidden("updates may not set certificate content");
        } else if !stored.is_empty() {
            certificate.forbidden("updates may not modify existing certificate content");
        }
    }
    report.finish()
}

/// The request must be a PEM-encoded PKCS#10 request with a valid signature.
fn check_request(encoded: &str) -> Result<(), String> {
    let blocks = pem_blocks(encoded);
    let Some(block) = blocks.first().filter(|block| block.label == "CERTIFICATE REQUEST") else {
        return Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
    };
    let (rest, request) =
        X509CertificationRequest::from_der(&block.contents).map_err(|_| "asn1: structure error".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    request.verify_signature().map_err(|_| "x509: signature check failed".to_owned())
}

fn check_certificate(encoded: &str) -> Result<(), String> {
    if encoded.is_empty() {
        return Ok(());
    }
    let blocks = pem_blocks(encoded);
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            let label = object::field::go_quote(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        X509Certificate::from_der(&block.contents).map_err(|_| "x509: malformed certificate".to_owned())?;
    }
    match blocks.is_empty() {
        true => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        false => Ok(()),
    }
}

fn pem_blocks(encoded: &str) -> Vec<Pem> {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    Pem::iter_from_buffer(&bytes).map_while(Result::ok).collect()
}
