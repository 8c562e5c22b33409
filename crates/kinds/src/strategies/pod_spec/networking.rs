//! DNS, host names and host ports of a pod.

use std::sync::LazyLock;

use object::names;
use regex::Regex;

use super::super::fields::Field;

const SEARCH: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
static SEARCH_DOMAIN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("^{SEARCH}$")).expect("a constant pattern"));

pub fn validate_dns(spec: Field<'_>) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" {
        if !config.is_set() {
            return config.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            return servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if servers.len() > 3 {
        servers.invalid("must not have more than 3 nameservers");
    }
    for server in servers.items() {
        server.ip_address(&[]);
    }
    let searches = config.field("searches");
    if searches.len() > 32 {
        searches.invalid("must not have more than 32 search paths");
    }
    if searches.texts().map(|s| s.len() + 1).sum::<usize>().saturating_sub(1) > 2048 {
        searches.invalid("must not have more than 2048 characters (including spaces) in the search list");
    }
    for search in searches.items().filter(|s| s.text() != ".") {
        validate_search(search);
    }
    for option in config.field("options").items() {
        if option.field("name").is_empty() {
            option.required("must not be empty");
        }
    }
}

fn validate_search(search: Field<'_>) {
    let domain = search.text().strip_suffix('.').unwrap_or(search.text());
    if domain.len() > 253 {
        search.invalid_as(domain, names::too_many_characters(253));
    }
    if !SEARCH_DOMAIN.is_match(domain) {
        search.invalid_as(
            domain,
            names::regex_message(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
                SEARCH,
                &["example.com"],
            ),
        );
    }
}

pub fn validate_hostname_override(spec: Field<'_>) {
    let name = spec.field("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.field("setHostnameAsFQDN").flag() {
        name.forbidden("may not be specified when setHostnameAsFQDN is true");
    }
    if spec.field("hostNetwork").flag() {
        name.forbidden("may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        name.too_long(64);
    }
    name.dns1123_subdomain();
}

pub fn validate_host_aliases(aliases: Field<'_>) {
    for alias in aliases.items() {
        alias.field("ip").ip_address(&[]);
        for hostname in alias.field("hostnames").items() {
            hostname.dns1123_subdomain();
        }
    }
}

/// On the host's network a container port is a host port. A template may omit the host port.
pub fn validate_host_ports(spec: Field<'_>, is_pod: bool) {
    if !spec.field("hostNetwork").flag() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let (host, inner) = (port.field("hostPort").int_or(0), port.field("containerPort").int_or(0));
            if (is_pod || host != 0) && host != inner {
                port.field("hostPort").invalid_as(host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}
