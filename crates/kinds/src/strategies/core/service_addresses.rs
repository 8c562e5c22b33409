//! Cluster IPs and IP families of services: their form and immutability.
//!
//! Addresses are allocated by the server; here they are only normalized and validated.

use std::collections::BTreeSet;

use object::{FieldError, Object};
use serde_json::{Value, json};

use super::service::type_of;
use crate::strategies::addresses::{is_dual_stack, is_ipv6};
use crate::strategies::fields::{Field, Report};

pub fn is_headless(service: &Object) -> bool {
    matches!(service.items(&["spec", "clusterIPs"]), [only] if only.as_str() == Some("None"))
}

/// The texts of a list in the stored service.
pub fn texts<'a>(service: Option<&'a Object>, list: &str) -> Vec<&'a str> {
    service.map(|s| s.items(&["spec", list])).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

/// `clusterIP` is the first of `clusterIPs`. A client that only sets the one changes both.
pub fn mirror(new: &mut Object, old: Option<&Object>) {
    let single = new.str_at(&["spec", "clusterIP"]).to_owned();
    let many: Vec<String> = texts(Some(new), "clusterIPs").into_iter().map(str::to_owned).collect();
    let Some(old) = old else {
        if !single.is_empty() && many.is_empty() {
            new.set(&["spec", "clusterIPs"], json!([single]));
        }
        return;
    };
    let same_many = texts(Some(old), "clusterIPs") == many.iter().map(String::as_str).collect::<Vec<_>>();
    let old_single = old.str_at(&["spec", "clusterIP"]);
    if single == old_single || !same_many {
        return;
    }
    if single.is_empty() {
        new.remove(&["spec", "clusterIPs"]);
    } else {
        new.set(&["spec", "clusterIPs"], json!([single]));
    }
}

/// An update without addresses and ports keeps the allocated ones.
pub fn keep_allocated(new: &mut Object, old: &Object) {
    let needs_address = |service: &Object| type_of(service) != "ExternalName";
    if needs_address(new) && needs_address(old) {
        let is_empty = new.str_at(&["spec", "clusterIP"]).is_empty() && texts(Some(new), "clusterIPs").is_empty();
        if is_empty {
            copy(new, old, "clusterIP");
            copy(new, old, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if new.get(&["spec", key]).is_none_or(Value::is_null) {
                copy(new, old, key);
            }
        }
    }
    keep_node_ports(new, old);
    let needs_check = |service: &Object| {
        type_of(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
    };
    let port = ["spec", "healthCheckNodePort"];
    if needs_check(new) && needs_check(old) && new.i64_at(&port).unwrap_or(0) == 0 {
        copy(new, old, "healthCheckNodePort");
    }
}

fn keep_node_ports(new: &mut Object, old: &Object) {
    let has_node_ports = |service: &Object| matches!(type_of(service), "NodePort" | "LoadBalancer");
    if !has_node_ports(new) || !has_node_ports(old) {
        return;
    }
    let key =
        |port: &Value| (port["protocol"].as_str().unwrap_or("TCP").to_owned(), port["port"].as_i64().unwrap_or(0));
    let node_port = |port: &Value| port["nodePort"].as_i64().filter(|n| *n != 0);
    let mut used: BTreeSet<i64> = new.items(&["spec", "ports"]).iter().filter_map(node_port).collect();
    let stored: Vec<((String, i64), i64)> =
        old.items(&["spec", "ports"]).iter().filter_map(|p| Some((key(p), node_port(p)?))).collect();
    let ports = new.as_map_mut().get_mut("spec").and_then(|s| s.get_mut("ports")).and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|p| p.is_object()) {
        if node_port(port).is_none()
            && let Some((_, number)) = stored.iter().find(|(k, n)| *k == key(port) && !used.contains(n))
        {
            port["nodePort"] = json!(number);
            used.insert(*number);
        }
    }
}

fn copy(new: &mut Object, old: &Object, key: &str) {
    if let Some(value) = old.get(&["spec", key]) {
        new.set(&["spec", key], value.clone());
    }
}

/// A service that becomes an external name loses its addresses, unless the client changed them.
pub fn drop_when_external(new: &mut Object, old: &Object) {
    if type_of(old) == "ExternalName" || type_of(new) != "ExternalName" {
        return;
    }
    let unchanged = |new: &Object, key: &str| new.get(&["spec", key]) == old.get(&["spec", key]);
    if unchanged(new, "clusterIP") && unchanged(new, "clusterIPs") {
        new.remove(&["spec", "clusterIP"]);
        new.remove(&["spec", "clusterIPs"]);
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if unchanged(new, key) {
            new.remove(&["spec", key]);
        }
    }
}

/// A service on a single-stack cluster is single-stack; the family follows from its address, if it has one. Without a
/// selector a headless service may get endpoints of either family.
pub fn default_families(service: &mut Object) {
    if type_of(service) == "ExternalName" {
        return;
    }
    let has = |service: &Object, key: &str| service.get(&["spec", key]).is_some_and(|v| !v.is_null());
    let selects_nothing = service.get(&["spec", "selector"]).and_then(Value::as_object).is_none_or(|s| s.is_empty());
    let both = is_headless(service) && selects_nothing;
    let families = service.items(&["spec", "ipFamilies"]).len();
    if !has(service, "ipFamilyPolicy") {
        let dual = both || families > 1 || texts(Some(service), "clusterIPs").len() > 1;
        service.set(&["spec", "ipFamilyPolicy"], if dual { "RequireDualStack" } else { "SingleStack" });
    }
    if families == 0 {
        let found: Vec<&str> = texts(Some(service), "clusterIPs")
            .into_iter()
            .filter(|ip| *ip != "None")
            .map(|ip| if is_ipv6(ip) { "IPv6" } else { "IPv4" })
            .collect();
        let families = match found.as_slice() {
            [] if both => vec!["IPv4", "IPv6"],
            [] => vec!["IPv4"],
            found => found.to_vec(),
        };
        service.set(&["spec", "ipFamilies"], json!(families));
    }
}

/// The errors of requested addresses, to check before allocation.
pub fn problems(service: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let asks = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
    if asks.iter().all(|key| service.get(&["spec", key]).is_none()) {
        return Vec::new();
    }
    let mut service = service.clone();
    mirror(&mut service, old);
    if let Some(old) = old {
        keep_allocated(&mut service, old);
    }
    let report = Report::new();
    validate(report.field(&service, "spec"), &service, old);
    if let Some(old) = old.filter(|_| report.is_empty()) {
        validate_change(&report, &service, old);
    }
    report.finish()
}

/// Rules for the addresses themselves.
pub fn validate(spec: Field<'_>, service: &Object, old: Option<&Object>) {
    if type_of(service) == "ExternalName" {
        return;
    }
    let (single, many, families) = (spec.field("clusterIP"), spec.field("clusterIPs"), spec.field("ipFamilies"));
    let ips: Vec<&str> = many.texts().collect();
    if single.is_empty() {
        if !ips.is_empty() {
            many.invalid("must be empty when `clusterIP` is not specified");
        }
    } else if ips.is_empty() {
        many.required("");
    } else if ips[0] != single.text() {
        many.invalid("first value must match `clusterIP`");
    }
    let mut seen = BTreeSet::new();
    for family in families.items() {
        family.one_of(&["IPv4", "IPv6"]);
        if !seen.insert(family.text()) {
            family.duplicate();
        }
    }
    spec.field("ipFamilyPolicy").optional_one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"]);
    if validate_each(many, &texts(old, "clusterIPs")) && !is_headless(service) {
        if ips.len() > 1 && !is_dual_stack(&ips) {
            many.invalid("may specify no more than one IP for each IP family");
        }
        for (ip, family) in many.items().zip(families.texts()) {
            let index = |name: &str| families.texts().position(|f| f == name).unwrap_or(0);
            match family {
                "IPv4" if is_ipv6(ip.text()) => {
                    ip.invalid(format!("expected an IPv4 value as indicated by `ipFamilies[{}]`", index("IPv4")));
                }
                "IPv6" if !is_ipv6(ip.text()) => {
                    ip.invalid(format!("expected an IPv6 value as indicated by `ipFamilies[{}]`", index("IPv6")));
                }
                _ => {}
            }
        }
    }
}

/// Returns whether all are addresses.
fn validate_each(many: Field<'_>, kept: &[&str]) -> bool {
    let mut all_valid = true;
    for (index, ip) in many.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if many.len() > 1 {
                many.invalid("'None' must be the first and only value");
                all_valid = false;
            }
            continue;
        }
        all_valid &= ip.ip_address(kept);
    }
    if many.len() > 2 {
        many.invalid("may only hold up to 2 values");
    }
    all_valid
}

/// Addresses and families are immutable; only the second of a pair may be added or removed.
pub fn validate_change<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    if type_of(new) == "ExternalName" || type_of(old) == "ExternalName" {
        return;
    }
    let (was_headless, headless) = (is_headless(old), is_headless(new));
    let spec = report.field(new, "spec");
    if !(was_headless && headless) {
        let rule = Rule { list: "clusterIPs", unset: "primary clusterIP can not be unset", released: "clusterIP" };
        validate_list(spec, &texts(Some(old), "clusterIPs"), rule);
    }
    if !was_headless && !headless {
        let rule = Rule { list: "ipFamilies", unset: "primary ipFamily can not be unset", released: "ipFamily" };
        validate_list(spec, &texts(Some(old), "ipFamilies"), rule);
    }
}

struct Rule {
    list: &'static str,
    unset: &'static str,
    released: &'static str,
}

fn validate_list(spec: Field<'_>, old: &[&str], rule: Rule) {
    const CHANGED: &str = "may not change once set";
    let list = spec.field(rule.list);
    let new: Vec<&str> = list.texts().collect();
    let refuse = |index: usize, detail: &str| {
        let shown = list.value().cloned().unwrap_or_default();
        list.index(index).invalid_as(shown, detail);
    };
    if old.len() == new.len() {
        for index in (0..old.len()).filter(|i| old[*i] != new[*i]) {
            // Families are always reported at the first.
            refuse(if rule.list == "ipFamilies" { 0 } else { index }, CHANGED);
        }
        return;
    }
    if old.len() > new.len() && new.is_empty() {
        refuse(0, rule.unset);
    }
    if let (Some(before), Some(now)) = (old.first(), new.first())
        && before != now
    {
        refuse(0, CHANGED);
    }
    let policy = spec.field("ipFamilyPolicy");
    if old.len() > new.len() && new.len() == 1 && policy.text() != "SingleStack" {
        policy.invalid_as(
            policy.value().cloned().unwrap_or_default(),
            format!("must be set to 'SingleStack' when releasing the secondary {}", rule.released),
        );
    }
}
