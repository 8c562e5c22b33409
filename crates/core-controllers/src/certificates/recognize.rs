//! Validation rules for certificates of nodes and Karmada agents, with the messages of their controllers.

use std::collections::BTreeSet;

use object::Object;
use pki::csr::Csr;
use serde_json::Value;

const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const AGENTS: &str = "system:karmada:agents";
pub const AGENT_PREFIX: &str = "system:karmada:agent:";

pub fn usages(request: &Object) -> BTreeSet<&str> {
    request.items(&["spec", "usages"]).iter().filter_map(Value::as_str).collect()
}

/// Validates a kubelet's client certificate.
pub fn kubelet_client(csr: &Csr, usages: &BTreeSet<&str>) -> Result<(), String> {
    check_organization(csr, NODES)?;
    check_no_alternative_names(csr)?;
    check_common_name(csr, NODE_PREFIX)?;
    check_usages(usages, "client auth")
}

/// Validates the client certificate of a pull-mode agent.
pub fn agent_client(csr: &Csr, usages: &BTreeSet<&str>) -> Result<(), String> {
    check_organization(csr, AGENTS)?;
    check_no_alternative_names(csr)?;
    check_common_name(csr, AGENT_PREFIX)?;
    check_usages(usages, "client auth")
}

/// Validates a kubelet's serving certificate.
pub fn kubelet_serving(csr: &Csr, usages: &BTreeSet<&str>) -> Result<(), String> {
    check_organization(csr, NODES)?;
    let names = csr.alternative_names();
    if names.dns_names.is_empty() && names.ips.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (kind, present) in [("Email", !names.emails.is_empty()), ("URI", !names.uris.is_empty())] {
        if present {
            return Err(format!("{kind} subjectAltNames are not allowed"));
        }
    }
    check_usages(usages, "server auth")?;
    check_common_name(csr, NODE_PREFIX)
}

/// Validates any other API client certificate.
pub fn api_client(usages: &BTreeSet<&str>, in_order: &[&str]) -> Result<(), String> {
    let is_fine = |usage: &&&str| matches!(**usage, "digital signature" | "key encipherment" | "client auth");
    if let Some(wrong) = in_order.iter().find(|usage| !is_fine(usage)) {
        return Err(format!("invalid usage for client certificate: {wrong}"));
    }
    match usages.contains("client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

/// Members of `system:masters` pass every authorization check: such a certificate cannot be revoked by any role.
pub fn not_masters(csr: &Csr) -> Result<(), String> {
    match csr.subject().organizations.iter().any(|organization| organization == MASTERS) {
        true => Err(format!("subject organization {MASTERS} is not allowed")),
        false => Ok(()),
    }
}

fn check_no_alternative_names(csr: &Csr) -> Result<(), String> {
    let names = csr.alternative_names();
    for (kind, present) in [
        ("DNS", !names.dns_names.is_empty()),
        ("Email", !names.emails.is_empty()),
        ("IP", !names.ips.is_empty()),
        ("URI", !names.uris.is_empty()),
    ] {
        if present {
            return Err(format!("{kind} subjectAltNames are not allowed"));
        }
    }
    Ok(())
}

fn check_organization(csr: &Csr, wanted: &str) -> Result<(), String> {
    match csr.subject().organizations.as_slice() {
        [only] if only == wanted => Ok(()),
        _ => Err(format!("subject organization is not {wanted}")),
    }
}

fn check_common_name(csr: &Csr, prefix: &str) -> Result<(), String> {
    match csr.subject().common_name.starts_with(prefix) {
        true => Ok(()),
        false => Err(format!("subject common name does not begin with {prefix}")),
    }
}

/// Only RSA keys can do key encipherment, so that usage is optional.
fn check_usages(usages: &BTreeSet<&str>, purpose: &str) -> Result<(), String> {
    let with_rsa = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    let without = BTreeSet::from(["digital signature", purpose]);
    if *usages == with_rsa || *usages == without {
        return Ok(());
    }
    let mut wanted = ["digital signature", "key encipherment", purpose];
    wanted.sort_unstable();
    Err(format!("usages did not match [{}]", wanted.join(" ")))
}
