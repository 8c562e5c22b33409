//! Ingresses, network policies and the ranges of service addresses.

use std::net::IpAddr;
use std::sync::Arc;

use object::{FieldError, Object, names};
use serde_json::{Value, json};

use crate::strategies::addresses::{is_ipv6, parse_sloppy};
use crate::strategies::defaults::{map_at, map_at_path, maps_in, set_absent, show_empty};
use crate::strategies::fields::{Field, IMMUTABLE, IntOrText, Report};
use crate::strategy::{Strategy, WriteContext};

const CONTROLLER_BYTES_MAX: usize = 250;
const PATH_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const PATH_SUFFIXES: [&str; 2] = ["/..", "/."];
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const HTTP_PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "Ingress" => Arc::new(Ingress),
        "IngressClass" => Arc::new(IngressClass),
        "NetworkPolicy" => Arc::new(NetworkPolicy),
        "IPAddress" => Arc::new(IpAddressKind),
        "ServiceCIDR" => Arc::new(ServiceCidr),
        _ => return None,
    })
}

struct Ingress;

impl Strategy for Ingress {
    fn default(&self, ingress: &mut Object) {
        show_load_balancer(ingress);
    }

    fn prepare_create(&self, ingress: &mut Object, _ctx: &WriteContext) {
        ingress.set(&["status"], json!({"loadBalancer": {}}));
    }

    fn validate_create(&self, ingress: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_ingress(report.field(ingress, "spec"), false, false);
        let class = ingress.get(&["spec", "ingressClassName"]).and_then(Value::as_str);
        if let (Some(annotation), Some(class)) = (ingress.annotation(CLASS_ANNOTATION), class)
            && annotation != class
        {
            let path = object::FieldPath::new("annotations").child(CLASS_ANNOTATION);
            let detail = "must match `ingressClassName` when both are specified";
            report.push(FieldError::invalid(path, annotation, detail));
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let secret_is_bad = |tls: &Value| {
            let name = tls["secretName"].as_str().unwrap_or_default();
            !name.is_empty() && !names::dns1123_subdomain(name).is_empty()
        };
        let bad_secrets = old.items(&["spec", "tls"]).iter().any(secret_is_bad);
        let report = Report::new();
        validate_ingress(report.field(new, "spec"), bad_secrets, has_bad_wildcard_rule(old));
        report.finish()
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let stored: Vec<&str> =
            old.items(&["status", "loadBalancer", "ingress"]).iter().filter_map(|entry| entry["ip"].as_str()).collect();
        for entry in report.field(new, "status").path(&["loadBalancer", "ingress"]).items() {
            let (ip, hostname) = (entry.field("ip"), entry.field("hostname"));
            if !ip.is_empty() {
                ip.ip_address(&stored);
            }
            if !hostname.is_empty() {
                hostname.dns1123_subdomain();
                if parse_sloppy(hostname.text()).is_some() {
                    hostname.invalid("must be a DNS name, not an IP address");
                }
            }
        }
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        let by_annotation = new.annotation(CLASS_ANNOTATION).is_some();
        if old.is_some() || !by_annotation || new.get(&["spec", "ingressClassName"]).is_some() {
            return Vec::new();
        }
        let annotation = object::field::go_quote(CLASS_ANNOTATION);
        vec![format!("annotation {annotation} is deprecated, please use 'spec.ingressClassName' instead")]
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn show_load_balancer(ingress: &mut Object) {
    show_empty(ingress, "status");
    if let Some(status) = map_at(ingress.as_map_mut(), "status") {
        set_absent(status, "loadBalancer", json!({}));
    }
}

fn validate_ingress(spec: Field<'_>, bad_secrets: bool, bad_wildcards: bool) {
    let (backend, rules) = (spec.field("defaultBackend"), spec.field("rules"));
    if rules.is_empty() && !backend.is_set() {
        let shown = rules.value().cloned().unwrap_or(Value::Null);
        spec.invalid_as(shown, "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        validate_backend(backend);
    }
    for rule in rules.items() {
        let host = rule.field("host");
        if !host.is_empty() {
            if parse_sloppy(host.text()).is_some() {
                host.invalid("must be a DNS name, not an IP address");
            }
            host.problems(host_problems(host.text()));
        }
        if !(bad_wildcards && host.text().contains('*')) {
            validate_http(rule.field("http"));
        }
    }
    for tls in spec.field("tls").items() {
        tls.field("hosts").items().for_each(|host| host.problems(host_problems(host.text())));
        let secret = tls.field("secretName");
        if !bad_secrets && !secret.is_empty() {
            secret.dns1123_subdomain();
        }
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        class.dns1123_subdomain();
    }
}

/// A host is a DNS name whose first label may be a star.
fn host_problems(host: &str) -> Vec<String> {
    if !host.contains('*') {
        return names::dns1123_subdomain(host);
    }
    let mut problems = Vec::new();
    if host.len() > 253 {
        problems.push(names::too_long(253));
    }
    if !host.strip_prefix("*.").is_some_and(|rest| names::dns1123_subdomain(rest).is_empty()) {
        problems.push(names::regex_message(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["*.example.com"],
        ));
    }
    problems
}

fn has_bad_wildcard_rule(ingress: &Object) -> bool {
    let report = Report::new();
    let rules = report.field(ingress, "spec").field("rules");
    let wildcards = rules.items().filter(|rule| rule.field("host").text().contains('*'));
    wildcards.for_each(|rule| validate_http(rule.field("http")));
    !report.is_empty()
}

fn validate_http(http: Field<'_>) {
    if !http.is_set() {
        return;
    }
    http.field("paths").require();
    for path in http.field("paths").items() {
        let (ty, text) = (path.field("pathType"), path.field("path"));
        if !ty.is_set() {
            ty.required("pathType must be specified");
            continue;
        }
        match ty.text() {
            "Exact" | "Prefix" => validate_path(text),
            "ImplementationSpecific" => {
                if !text.is_empty() && !text.text().starts_with('/') {
                    text.invalid("must be an absolute path");
                }
            }
            _ => ty.not_supported(&["Exact", "ImplementationSpecific", "Prefix"]),
        }
        validate_backend(path.field("backend"));
    }
}

fn validate_path(path: Field<'_>) {
    if !path.text().starts_with('/') {
        path.invalid("must be an absolute path");
    }
    for sequence in PATH_SEQUENCES.iter().filter(|s| path.text().contains(**s)) {
        path.invalid(format!("must not contain '{sequence}'"));
    }
    for suffix in PATH_SUFFIXES.iter().filter(|s| path.text().ends_with(**s)) {
        path.invalid(format!("cannot end with '{suffix}'"));
    }
}

fn validate_backend(backend: Field<'_>) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends"),
        (true, false) => validate_reference(resource),
        (false, true) => validate_service(backend, service),
        (false, false) => backend.invalid_as("", "resource or service backend is required"),
    }
}

fn validate_service<'a>(backend: Field<'a>, service: Field<'a>) {
    if service.field("name").require() {
        service.field("name").dns1123_label();
    }
    let (name, number) = (service.path(&["port", "name"]), service.path(&["port", "number"]));
    match (!name.is_empty(), number.int_or(0) != 0) {
        (true, true) => backend.invalid_as("", "cannot set both port name & port number"),
        (true, false) => name.problems(names::port_name(name.text())),
        (false, true) => number.port_number(),
        (false, false) => backend.required("port name or number is required"),
    }
}

/// An object of any kind: a group that is a domain, and names that fit into a URL.
fn validate_reference(reference: Field<'_>) {
    let group = reference.field("apiGroup");
    if group.is_set() {
        group.dns1123_subdomain();
    }
    for name in ["kind", "name"] {
        let field = reference.field(name);
        if field.require() {
            field.problems(names::path_segment(field.text()));
        }
    }
}

struct IngressClass;

impl Strategy for IngressClass {
    fn default(&self, class: &mut Object) {
        show_empty(class, "spec");
        if let Some(parameters) = map_at_path(class.as_map_mut(), &["spec", "parameters"]) {
            set_absent(parameters, "scope", "Cluster");
        }
    }

    fn validate_create(&self, class: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(class, "spec");
        if spec.field("controller").len() > CONTROLLER_BYTES_MAX {
            spec.field("controller").too_long(CONTROLLER_BYTES_MAX);
        }
        validate_domain_path(spec.field("controller"));
        let parameters = spec.field("parameters");
        if parameters.is_set() {
            validate_reference(parameters);
            validate_scope(parameters);
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        report.field(new, "spec").field("controller").immutable(old.get(&["spec", "controller"]));
        let mut errors = report.finish();
        errors.extend(self.validate_create(new));
        errors
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_domain_path(controller: Field<'_>) {
    if !controller.require() {
        return;
    }
    let Some((host, path)) =
        controller.text().split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return controller.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    controller.problems_as(host, names::dns1123_subdomain(host));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(allowed) {
        controller.invalid_as(path, names::regex_message("Invalid path", HTTP_PATH, &[]));
    }
}

fn validate_scope(parameters: Field<'_>) {
    let namespace = parameters.field("namespace");
    match parameters.field("scope").text() {
        "Namespace" if !namespace.is_set() => namespace.required("`parameters.scope` is set to 'Namespace'"),
        "Namespace" => namespace.dns1123_label(),
        "Cluster" if namespace.is_set() => namespace.forbidden("`parameters.scope` is set to 'Cluster'"),
        "Cluster" => {}
        _ => parameters.field("scope").not_supported(&["Cluster", "Namespace"]),
    }
}

struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default(&self, policy: &mut Object) {
        show_empty(policy, "spec");
        let Some(spec) = map_at(policy.as_map_mut(), "spec") else { return };
        set_absent(spec, "podSelector", json!({}));
        for rules in ["ingress", "egress"] {
            for rule in maps_in(spec, rules) {
                maps_in(rule, "ports").for_each(|port| set_absent(port, "protocol", "TCP"));
            }
        }
        let count = |key: &str| spec.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        if count("policyTypes") == 0 {
            let types = if count("egress") > 0 { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".to_owned(), types);
        }
    }

    fn validate_create(&self, policy: &Object) -> Vec<FieldError> {
        validate_policy(policy, &[])
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        validate_policy(new, &blocks_of(old))
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

/// Every address range of a policy: stored ones stay valid in any notation.
fn blocks_of(policy: &Object) -> Vec<&str> {
    let mut blocks = Vec::new();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let peers = policy.items(&["spec", rules]).iter().filter_map(move |rule| rule[peers].as_array()).flatten();
        for block in peers.map(|peer| &peer["ipBlock"]) {
            blocks.extend(block["cidr"].as_str());
            blocks.extend(block["except"].as_array().into_iter().flatten().filter_map(Value::as_str));
        }
    }
    blocks
}

fn validate_policy(policy: &Object, kept: &[&str]) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(policy, "spec");
    spec.field("podSelector").label_selector();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).items() {
            rule.field("ports").items().for_each(validate_policy_port);
            rule.field(peers).items().for_each(|peer| validate_peer(peer, kept));
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        types.invalid("may not specify more than two policyTypes");
    } else {
        types.items().for_each(|ty| ty.one_of(&["Ingress", "Egress"]));
    }
    report.finish()
}

fn validate_policy_port(port: Field<'_>) {
    port.field("protocol").optional_one_of(&["TCP", "UDP", "SCTP"]);
    let (number, end) = (port.field("port"), port.field("endPort"));
    match number.int_or_text() {
        Some(IntOrText::Int(first)) => {
            number.port_number();
            if let Some(last) = end.int() {
                if last < first {
                    end.invalid_as(first, "must be greater than or equal to `port`");
                }
                end.port_number();
            }
        }
        Some(IntOrText::Text(name)) => {
            if end.is_set() {
                end.invalid("may not be specified when `port` is non-numeric");
            }
            number.problems(names::port_name(name));
        }
        None if end.is_set() => end.invalid("may not be specified when `port` is not specified"),
        None => {}
    }
}

fn validate_peer(peer: Field<'_>, kept: &[&str]) {
    let selectors = [peer.field("podSelector"), peer.field("namespaceSelector")];
    let block = peer.field("ipBlock");
    let selected = selectors.iter().filter(|selector| selector.is_set()).count();
    selectors.into_iter().for_each(Field::label_selector);
    if block.is_set() {
        validate_block(block, kept);
    }
    match (selected, block.is_set()) {
        (0, false) => peer.required("must specify a peer"),
        (1.., true) => peer.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: Field<'_>, kept: &[&str]) {
    let cidr = block.field("cidr");
    if !cidr.require() {
        return;
    }
    cidr.cidr(kept);
    let Some(outer) = parse_range(cidr.text()) else { return };
    for except in block.field("except").items() {
        except.cidr(kept);
        if let Some(inner) = parse_range(except.text())
            && !(contains(outer, inner.0) && outer.1 < inner.1)
        {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

fn parse_range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    Some((parse_sloppy(address)?, bits.parse().ok()?))
}

fn contains((network, bits): (IpAddr, u32), address: IpAddr) -> bool {
    let prefix = |value: u128, width: u32| if bits == 0 { 0 } else { value >> width.saturating_sub(bits) };
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => prefix(a.to_bits().into(), 32) == prefix(b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => prefix(a.to_bits(), 128) == prefix(b.to_bits(), 128),
        _ => false,
    }
}

struct IpAddressKind;

impl Strategy for IpAddressKind {
    fn validate_create(&self, address: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let parent = report.field(address, "spec").field("parentRef");
        if !parent.is_set() {
            parent.required("");
            return report.finish();
        }
        if !parent.field("group").is_empty() {
            parent.field("group").dns1123_subdomain();
        }
        for name in ["resource", "name"] {
            if parent.field(name).require() {
                parent.field(name).problems(names::path_segment(parent.field(name).text()));
            }
        }
        parent.field("namespace").problems(names::path_segment(parent.field("namespace").text()));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let parent = report.field(new, "spec").field("parentRef");
        if !crate::strategies::fields::same(parent.value(), old.get(&["spec", "parentRef"])) {
            let part = |key: &str| Value::from(new.str_at(&["spec", "parentRef", key]));
            let shown = format!(
                "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
                part("group"),
                part("resource"),
                part("namespace"),
                part("name")
            );
            parent.invalid_shown(&shown, IMMUTABLE);
        }
        report.finish()
    }

    /// The name is the address itself, in its canonical form.
    fn validate_name(&self, name: &str) -> Vec<String> {
        match name.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
                vec!["must not be an IPv4-mapped IPv6 address".to_owned()]
            }
            Ok(address) if address.to_string() != name => {
                vec![format!("must be in canonical form ({:?})", address.to_string())]
            }
            Ok(_) => Vec::new(),
            Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
        }
    }
}

struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn default(&self, cidr: &mut Object) {
        show_empty(cidr, "status");
    }

    fn prepare_create(&self, cidr: &mut Object, _ctx: &WriteContext) {
        cidr.set(&["status"], json!({}));
    }

    fn validate_create(&self, cidr: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_cidrs(report.field(cidr, "spec").field("cidrs"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let cidrs = report.field(new, "spec").field("cidrs");
        let stored = old.items(&["spec", "cidrs"]);
        let changed = |index: usize| cidrs.index(index).value() != stored.get(index);
        if cidrs.len() == stored.len() {
            (0..stored.len()).filter(|i| changed(*i)).for_each(|i| cidrs.index(i).invalid(IMMUTABLE));
        } else if (stored.len(), cidrs.len()) == (1, 2) {
            if changed(0) {
                cidrs.index(0).invalid(IMMUTABLE);
            }
            validate_cidrs(cidrs);
        } else {
            cidrs.invalid(IMMUTABLE);
        }
        report.finish()
    }
}

fn validate_cidrs(cidrs: Field<'_>) {
    if !cidrs.require_because("at least one CIDR required") {
        return;
    }
    if cidrs.len() > 2 {
        let shown = format!("{{\"CIDRs\":{}}}", cidrs.value().cloned().unwrap_or_default());
        return cidrs.invalid_shown(&shown, "may only hold up to 2 values");
    }
    cidrs.items().for_each(|cidr| cidr.cidr(&[]));
    let families: Vec<bool> = cidrs
        .texts()
        .filter_map(|cidr| parse_range(cidr).map(|_| is_ipv6(cidr.split('/').next().unwrap_or_default())))
        .collect();
    if let [first, second] = families[..]
        && first == second
    {
        cidrs.invalid("may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64");
    }
}
