//! Descriptions of ingresses and network policies, in kubectl's form.

use std::collections::BTreeSet;
use std::fmt::Write;

use object::Object;
use serde_json::Value;

use super::containers::items;
use super::kinds::{Related, endpoints};
use super::several;
use super::text::{annotations, format_selector, labels_and_annotations, line, name_and_namespace, or_none, scalar};

pub fn ingress(text: &mut String, ingress: &Object, related: &Related) {
    line(text, "Name", ingress.name());
    several(text, "Labels", ingress.labels().map(|(key, value)| format!("{key}={value}\n")).collect());
    line(text, "Namespace", ingress.namespace());
    line(text, "Address", addresses(ingress));
    line(text, "Ingress Class", or_none(ingress.str_at(&["spec", "ingressClassName"])));
    let default = ingress.get(&["spec", "defaultBackend"]);
    let default = default.map_or_else(|| "<default>".to_owned(), |default| backend(default, related));
    line(text, "Default backend", &default);
    write_tls(text, ingress);
    text.push_str("Rules:\n  Host\tPath\tBackends\n  ----\t----\t--------\n");
    let rules: Vec<&Value> = ingress.items(&["spec", "rules"]).iter().filter(|rule| rule["http"].is_object()).collect();
    for rule in &rules {
        let host = scalar(&rule["host"]);
        let _ = writeln!(text, "  {}\t", if host.is_empty() { "*" } else { &host });
        for path in items(&rule["http"], "paths") {
            let _ = writeln!(text, "    \t{} \t{}", scalar(&path["path"]), backend(&path["backend"], related));
        }
    }
    if rules.is_empty() {
        let _ = writeln!(text, "  *\t*\t{default}");
    }
    annotations(text, "Annotations", ingress.get(&["metadata", "annotations"]));
}

fn addresses(ingress: &Object) -> String {
    let address = |entry: &Value| match scalar(&entry["ip"]) {
        ip if ip.is_empty() => scalar(&entry["hostname"]),
        ip => ip,
    };
    let found: BTreeSet<String> =
        ingress.items(&["status", "loadBalancer", "ingress"]).iter().map(address).filter(|a| !a.is_empty()).collect();
    found.into_iter().collect::<Vec<_>>().join(",")
}

fn write_tls(text: &mut String, ingress: &Object) {
    let entries = ingress.items(&["spec", "tls"]);
    if entries.is_empty() {
        return;
    }
    text.push_str("TLS:\n");
    for entry in entries {
        let hosts = items(entry, "hosts").iter().map(scalar).collect::<Vec<_>>().join(",");
        let _ = match scalar(&entry["secretName"]) {
            secret if secret.is_empty() => writeln!(text, "  SNI routes {hosts}"),
            secret => writeln!(text, "  {secret} terminates {hosts}"),
        };
    }
}

/// A Service with its ready addresses, or another object.
fn backend(backend: &Value, related: &Related) -> String {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    if service.is_object() {
        let (name, port) = (scalar(&service["name"]), &service["port"]);
        let wanted = if port["number"].is_null() { scalar(&port["name"]) } else { scalar(&port["number"]) };
        let Some(found) = related.of_kind("Service").find(|service| service.name() == name) else {
            return format!("{name}:{wanted} (<error: services {name:?} not found>)");
        };
        let is_meant = |entry: &&Value| match port["number"].as_i64() {
            Some(number) => entry["port"] == number,
            None => entry["name"] == port["name"],
        };
        let port_name = found.items(&["spec", "ports"]).iter().find(is_meant).map(|entry| scalar(&entry["name"]));
        return format!("{name}:{wanted} ({})", endpoints(&related.of_service(&name), &port_name.unwrap_or_default()));
    }
    if resource.is_object() {
        let group = or_none(&scalar(&resource["apiGroup"]));
        return format!("APIGroup: {group}, Kind: {}, Name: {}", scalar(&resource["kind"]), scalar(&resource["name"]));
    }
    String::new()
}

pub fn network_policy(text: &mut String, policy: &Object) {
    name_and_namespace(text, policy);
    line(text, "Created on", created(policy));
    labels_and_annotations(text, policy);
    text.push_str("Spec:\n");
    let selector = match format_selector(policy.get(&["spec", "podSelector"])) {
        none if none == "<none>" => "<none> (Allowing the specific traffic to all pods in this namespace)".to_owned(),
        selector => selector,
    };
    let _ = writeln!(text, "  PodSelector:     {selector}");
    let types: Vec<String> = policy.items(&["spec", "policyTypes"]).iter().map(scalar).collect();
    for (direction, field, side, other) in
        [("ingress", "ingress", "From", "source"), ("egress", "egress", "To", "destination")]
    {
        if !types.iter().any(|named| named.eq_ignore_ascii_case(direction)) {
            let _ = writeln!(text, "  Not affecting {direction} traffic");
            continue;
        }
        let _ = writeln!(text, "  Allowing {direction} traffic:");
        let rules = policy.items(&["spec", field]);
        if rules.is_empty() {
            let _ = writeln!(text, "    <none> (Selected pods are isolated for {direction} connectivity)");
        }
        for (index, rule) in rules.iter().enumerate() {
            write_ports(text, items(rule, "ports"));
            write_peers(text, side, other, items(rule, &side.to_lowercase()));
            if index + 1 < rules.len() {
                text.push_str("    ----------\n");
            }
        }
    }
    let _ = writeln!(text, "  Policy Types: {}", or_none(&types.join(", ")));
}

/// As Go prints a time.
fn created(object: &Object) -> String {
    match object.creation_timestamp().parse::<jiff::Timestamp>() {
        Ok(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string(),
        Err(_) => object.creation_timestamp().to_owned(),
    }
}

fn write_ports(text: &mut String, ports: &[Value]) {
    if ports.is_empty() {
        text.push_str("    To Port: <any> (traffic allowed to all ports)\n");
    }
    for port in ports {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        // Go prints a missing port like this.
        let first = if port["port"].is_null() { "<nil>".to_owned() } else { scalar(&port["port"]) };
        let _ = match port["endPort"].as_i64() {
            Some(last) => writeln!(text, "    To Port Range: {first}-{last}/{protocol}"),
            None => writeln!(text, "    To Port: {first}/{protocol}"),
        };
    }
}

fn write_peers(text: &mut String, side: &str, other: &str, peers: &[Value]) {
    if peers.is_empty() {
        let _ = writeln!(text, "    {side}: <any> (traffic not restricted by {other})");
    }
    for peer in peers {
        let _ = writeln!(text, "    {side}:");
        for (title, field) in [("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")] {
            if peer[field].is_object() {
                let _ = writeln!(text, "      {title}: {}", format_selector(peer.get(field)));
            }
        }
        if peer["ipBlock"].is_object() {
            let except: Vec<String> = items(&peer["ipBlock"], "except").iter().map(scalar).collect();
            let _ = writeln!(text, "      IPBlock:\n        CIDR: {}", scalar(&peer["ipBlock"]["cidr"]));
            let _ = writeln!(text, "        Except: {}", except.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tabs;

    #[test]
    fn backends_of_an_ingress_have_their_endpoints() {
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"tls": [{"hosts": ["a.example"], "secretName": "cert"}], "rules": [{"host": "a.example", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
            {"path": "/x", "pathType": "Prefix", "backend": {"service": {"name": "gone", "port": {"name": "http"}}}},
        ]}}]}});
        let service =
            json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 80}]}});
        let slice = json!({"kind": "EndpointSlice", "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": ["10.0.0.1"]}]});
        let objects = [service, slice].map(|value| Object::from_value(value).unwrap()).to_vec();
        let mut text = String::new();
        ingress(&mut text, &Object::from_value(object).unwrap(), &Related { objects });
        let shown = tabs::align(&text, tabs::DESCRIPTION);
        for part in [
            "  cert terminates a.example\n",
            "web:80 (10.0.0.1:8080)\n",
            "gone:http (<error: services \"gone\" not found>)\n",
        ] {
            assert!(shown.contains(part), "{part:?} is missing: {shown}");
        }
    }

    #[test]
    fn a_policy_is_described_by_rules() {
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [
            {"ports": [{"port": 80}, {"port": 1, "endPort": 9, "protocol": "UDP"}],
             "from": [{"podSelector": {"matchLabels": {"a": "b"}}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
            {},
        ]}});
        let mut text = String::new();
        network_policy(&mut text, &Object::from_value(object).unwrap());
        let expected = "\
Spec:
  PodSelector:     <none> (Allowing the specific traffic to all pods in this namespace)
  Allowing ingress traffic:
    To Port: 80/TCP
    To Port Range: 1-9/UDP
    From:
      PodSelector: a=b
    From:
      IPBlock:
        CIDR: 10.0.0.0/8
        Except: 10.1.0.0/16
    ----------
    To Port: <any> (traffic allowed to all ports)
    From: <any> (traffic not restricted by source)
  Not affecting egress traffic
  Policy Types: Ingress
";
        assert!(text.ends_with(expected), "{text}");
    }
}
