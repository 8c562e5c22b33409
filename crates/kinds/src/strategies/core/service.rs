//! Services: types, ports, affinity, traffic. Addresses are in [`super::service_addresses`].

use std::collections::BTreeSet;

use object::{FieldError, Object, names};
use serde_json::{Map, Value, json};

use super::service_addresses as addresses_of;
use crate::strategies::addresses::spelling_warning;
use crate::strategies::defaults::{map_or_new, maps_in, set_absent, set_empty_str};
use crate::strategies::fields::{Field, Report};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategy::{Strategy, WriteContext};

const OLD_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const DEFAULT_AFFINITY_SECONDS: i64 = 10_800;
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

pub struct Service;

impl Strategy for Service {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        default_spec(spec);
        if !object.as_map().get("status").is_some_and(Value::is_object) {
            object.set(&["status"], json!({}));
        }
        if object.get(&["status", "loadBalancer"]).is_none() {
            object.set(&["status", "loadBalancer"], json!({}));
        }
        default_ip_mode(object);
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({"loadBalancer": {}}));
        addresses_of::mirror(object, None);
        addresses_of::default_families(object);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        addresses_of::mirror(new, Some(old));
        addresses_of::keep_allocated(new, old);
        drop_fields_of_other_types(new, old);
        addresses_of::default_families(new);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        // Addresses are needed before anything else, so invalid ones are the only errors reported.
        addresses_of::validate(report.field(object, "spec"), object, None);
        if report.is_empty() {
            validate_built_in_finalizers(object, &report);
            validate(&report, object, None);
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(new, "spec");
        addresses_of::validate(spec, new, Some(old));
        if !report.is_empty() {
            return report.finish();
        }
        validate_built_in_finalizers(new, &report);
        addresses_of::validate_change(&report, new, old);
        let both_balanced = type_of(new) == "LoadBalancer" && type_of(old) == "LoadBalancer";
        let class = spec.field("loadBalancerClass");
        if both_balanced && class.value() != old.get(&["spec", "loadBalancerClass"]) {
            class.invalid_as(class.value().cloned().unwrap_or_default(), "may not change once set");
        }
        let port = spec.field("healthCheckNodePort");
        let before = old.i64_at(&["spec", "healthCheckNodePort"]).unwrap_or(0);
        if needs_health_check(new) && needs_health_check(old) && port.int_or(0) != before {
            port.forbidden("field is immutable");
        }
        validate(&report, new, Some(old));
        report.finish()
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let ingress = report.field(new, "status").field("loadBalancer").field("ingress");
        if type_of(new) != "LoadBalancer" && !ingress.is_empty() {
            ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
        } else {
            validate_ingress(ingress, old);
        }
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        service_warnings(new)
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        names::dns1123_label(name)
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

pub fn type_of(service: &Object) -> &str {
    service.str_at(&["spec", "type"])
}

fn default_spec(spec: &mut Map<String, Value>) {
    let text =
        |spec: &Map<String, Value>, key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    set_empty_str(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity").as_str() {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let seconds = spec.get("sessionAffinityConfig").and_then(|c| c.get("clientIP")?.get("timeoutSeconds"));
            if seconds.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": DEFAULT_AFFINITY_SECONDS}});
                spec.insert("sessionAffinityConfig".into(), config);
            }
        }
        _ => {}
    }
    set_empty_str(spec, "type", "ClusterIP");
    for port in maps_in(spec, "ports") {
        set_empty_str(port, "protocol", "TCP");
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        if target.is_null() || target.as_i64() == Some(0) || target.as_str() == Some("") {
            let number = port.get("port").cloned().unwrap_or_else(|| json!(0));
            port.insert("targetPort".into(), number);
        }
    }
    let kind = text(spec, "type");
    if kind == "ExternalName" {
        spec.remove("internalTrafficPolicy");
    }
    let has_external_ips = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if is_external(&kind, has_external_ips) {
        set_empty_str(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_absent(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn default_ip_mode(object: &mut Object) {
    if type_of(object) != "LoadBalancer" {
        return;
    }
    let status = object.as_map_mut().get_mut("status").and_then(|s| s.get_mut("loadBalancer"));
    let ingress = status.and_then(|b| b.get_mut("ingress")).and_then(Value::as_array_mut);
    for entry in ingress.into_iter().flatten().filter_map(Value::as_object_mut) {
        if entry.get("ip").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty()) {
            set_absent(entry, "ipMode", "VIP");
        }
    }
}

fn is_external(kind: &str, has_external_ips: bool) -> bool {
    matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && has_external_ips)
}

fn is_externally_accessible(service: &Object) -> bool {
    is_external(type_of(service), !service.items(&["spec", "externalIPs"]).is_empty())
}

fn needs_health_check(service: &Object) -> bool {
    type_of(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// A client that changes only the type need not remove fields of the old one.
fn drop_fields_of_other_types(new: &mut Object, old: &Object) {
    addresses_of::drop_when_external(new, old);
    let needs_node_port = |service: &Object| matches!(type_of(service), "NodePort" | "LoadBalancer");
    let node_ports = |service: &Object| -> BTreeSet<i64> {
        let ports = service.items(&["spec", "ports"]).iter();
        ports.filter_map(|p| p["nodePort"].as_i64()).filter(|n| *n != 0).collect()
    };
    if needs_node_port(old) && !needs_node_port(new) && node_ports(old).is_superset(&node_ports(new)) {
        let ports = new.as_map_mut().get_mut("spec").and_then(|s| s.get_mut("ports")).and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    let unchanged = |new: &Object, key: &str| new.get(&["spec", key]) == old.get(&["spec", key]);
    if needs_health_check(old) && !needs_health_check(new) && unchanged(new, "healthCheckNodePort") {
        new.remove(&["spec", "healthCheckNodePort"]);
    }
    if type_of(old) == "LoadBalancer" && type_of(new) != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if unchanged(new, key) {
                new.remove(&["spec", key]);
            }
        }
    }
    if is_externally_accessible(old) && !is_externally_accessible(new) && unchanged(new, "externalTrafficPolicy") {
        new.remove(&["spec", "externalTrafficPolicy"]);
    }
    if type_of(new) != "LoadBalancer" {
        new.set(&["status", "loadBalancer"], json!({}));
    }
}

fn validate<'a>(report: &'a Report<'a>, service: &'a Object, old: Option<&'a Object>) {
    let (meta, spec) = (report.field(service, "metadata"), report.field(service, "spec"));
    let annotations = meta.field("annotations");
    let (mode, hints) = (annotations.key(TOPOLOGY_MODE), annotations.key(OLD_HINTS));
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        mode.invalid(format!("must match annotations[{OLD_HINTS}] when both are specified"));
    }
    let (kind, is_headless) = (spec.field("type").text(), addresses_of::is_headless(service));
    if spec.field("ports").is_empty() && !is_headless && kind != "ExternalName" {
        spec.field("ports").required("");
    }
    validate_type(spec, kind, is_headless);
    validate_ports(spec.field("ports"));
    spec.field("selector").labels();
    validate_affinity(spec);
    validate_external_ips(spec.field("externalIPs"), old);
    spec.field("type").required_one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    validate_node_ports(spec.field("ports"), kind);
    validate_load_balancer(spec, annotations, kind, old);
    validate_traffic(spec, service);
}

fn validate_type(spec: Field<'_>, kind: &str, is_headless: bool) {
    match kind {
        "LoadBalancer" | "NodePort" if is_headless => {
            spec.field("clusterIPs").index(0).invalid(format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies"] {
                if !spec.field(name).is_empty() {
                    spec.field(name).forbidden("may not be set for ExternalName services");
                }
            }
            if spec.field("ipFamilyPolicy").is_set() {
                spec.field("ipFamilyPolicy").forbidden("may not be set for ExternalName services");
            }
            let name = spec.field("externalName");
            match name.text().strip_suffix('.').unwrap_or(name.text()) {
                "" => name.required(""),
                domain => name.problems_as(domain, names::dns1123_subdomain(domain)),
            }
        }
        _ => {}
    }
}

fn validate_ports(ports: Field<'_>) {
    let mut taken = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if ports.len() > 1 && name.is_empty() {
            name.required("");
        } else if !name.is_empty() {
            name.dns1123_label();
            if !taken.insert(name.text()) {
                name.duplicate();
            }
        }
        let number = port.field("port").int_or(0);
        port.field("port").problems_as_int(number, names::port_number(number));
        port.field("protocol").required_one_of(&["SCTP", "TCP", "UDP"]);
        port.field("targetPort").port_or_name();
        if port.field("appProtocol").is_set() {
            port.field("appProtocol").qualified_name();
        }
    }
}

fn validate_node_ports(ports: Field<'_>, kind: &str) {
    let key =
        |port: Field<'_>, name: &'static str| (port.field("protocol").text().to_owned(), port.field(name).int_or(0));
    let has_node_port = |port: &Field<'_>| port.field("nodePort").int_or(0) != 0;
    if kind == "ClusterIP" {
        for port in ports.items().filter(has_node_port) {
            port.field("nodePort").forbidden("may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut taken = BTreeSet::new();
    for port in ports.items().filter(has_node_port) {
        if !taken.insert(key(port, "nodePort")) {
            port.field("nodePort").duplicate();
        }
    }
    let mut taken = BTreeSet::new();
    for port in ports.items() {
        if !taken.insert(key(port, "port")) {
            // The key is shown in the internal type's form.
            let (protocol, number) = key(port, "port");
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            );
            port.push(FieldError { value: None, detail: shown, ..FieldError::duplicate(port.field_path(), "") });
        }
    }
}

fn validate_affinity(spec: Field<'_>) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    affinity.required_one_of(&["ClientIP", "None"]);
    match affinity.text() {
        "ClientIP" => {
            let seconds = config.field("clientIP").field("timeoutSeconds");
            for part in [config, config.field("clientIP"), seconds] {
                if !part.is_set() {
                    return part.required("when session affinity type is ClientIP");
                }
            }
            if seconds.int().is_some_and(|s| s <= 0 || s > 86_400) {
                seconds.invalid("must be greater than 0 and less than 86400");
            }
        }
        "None" if config.is_set() => config.forbidden("must not be set when session affinity is None"),
        _ => {}
    }
}

fn validate_external_ips(ips: Field<'_>, old: Option<&Object>) {
    let kept = addresses_of::texts(old, "externalIPs");
    for ip in ips.items() {
        if ip.ip_address(&kept) {
            ip.endpoint_address();
        }
    }
}

fn validate_load_balancer<'a>(spec: Field<'a>, annotations: Field<'a>, kind: &str, old: Option<&Object>) {
    let is_balanced = kind == "LoadBalancer";
    let ranges = spec.field("LoadBalancerSourceRanges").with(spec.field("loadBalancerSourceRanges").value());
    let note = annotations.key(SOURCE_RANGES);
    if !ranges.is_empty() {
        if !is_balanced {
            ranges.forbidden(ONLY_LOAD_BALANCER);
        }
        let kept = addresses_of::texts(old, "loadBalancerSourceRanges");
        let kept: Vec<&str> = kept.iter().map(|range| range.trim()).collect();
        for range in ranges.items() {
            range.cidr_text(range.text().trim(), &kept);
        }
    } else if note.is_set() {
        if !is_balanced {
            note.forbidden(ONLY_LOAD_BALANCER);
        }
        let changed = old.and_then(|o| o.annotation(SOURCE_RANGES)) != Some(note.text());
        let list = note.text().trim();
        for range in list.split(',').filter(|_| changed && !list.is_empty()) {
            note.cidr_text(range.trim(), &[]);
        }
    }
    let allocates = spec.field("allocateLoadBalancerNodePorts");
    if allocates.is_set() && !is_balanced {
        allocates.forbidden(ONLY_LOAD_BALANCER);
    }
    let class = spec.field("loadBalancerClass");
    if class.is_set() {
        if is_balanced {
            class.qualified_name();
        } else {
            class.forbidden(ONLY_LOAD_BALANCER);
        }
    }
}

fn validate_traffic(spec: Field<'_>, service: &Object) {
    let policy = spec.field("externalTrafficPolicy");
    if is_externally_accessible(service) {
        policy.required_one_of(&["Cluster", "Local"]);
    } else if !policy.is_empty() {
        policy.invalid("may only be set for externally-accessible services");
    }
    let port = spec.field("healthCheckNodePort");
    // A missing port of a service that needs one is allocated after validation.
    if needs_health_check(service) {
        if port.int_or(0) != 0 {
            port.port_number();
        }
    } else if port.int_or(0) != 0 {
        port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
    }
    spec.field("internalTrafficPolicy").optional_one_of(&["Cluster", "Local"]);
    spec.field("trafficDistribution").optional_one_of(&["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

fn validate_ingress(ingress: Field<'_>, old: &Object) {
    let kept: Vec<&str> =
        old.items(&["status", "loadBalancer", "ingress"]).iter().filter_map(|entry| entry["ip"].as_str()).collect();
    for entry in ingress.items() {
        let (ip, mode, hostname) = (entry.field("ip"), entry.field("ipMode"), entry.field("hostname"));
        if !ip.is_empty() {
            ip.ip_address(&kept);
        }
        match (mode.is_set(), ip.is_empty()) {
            (false, false) => mode.required("must be specified when `ip` is set"),
            (true, true) => mode.forbidden("may not be specified when `ip` is not set"),
            (true, false) => mode.one_of(&["Proxy", "VIP"]),
            (false, true) => {}
        }
        if !hostname.is_empty() {
            hostname.dns1123_subdomain();
            if hostname.text().parse::<std::net::IpAddr>().is_ok() {
                hostname.invalid("must be a DNS name, not an IP address");
            }
        }
    }
}

fn service_warnings(service: &Object) -> Vec<String> {
    let mut out = Vec::new();
    if service.annotation(OLD_HINTS).is_some() {
        out.push(format!("annotation {OLD_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let report = Report::new();
    let spec = report.field(service, "spec");
    let kind = type_of(service);
    let is_headless = kind == "ClusterIP" && spec.field("clusterIP").text() == "None";
    let external_ips = spec.field("externalIPs");
    let mut spelled = |list: Field<'_>| {
        out.extend(list.items().filter_map(|ip| spelling_warning(ip.field_path().as_str(), ip.text())));
    };
    if !is_headless {
        spelled(spec.field("clusterIPs"));
    }
    spelled(external_ips);
    if is_headless {
        if !spec.field("loadBalancerIP").is_empty() {
            out.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external_ips.is_empty() {
            out.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if spec.field("sessionAffinity").text() != "None" {
            out.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    } else if !external_ips.is_empty() && kind != "ExternalName" {
        out.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if kind == "ExternalName" && !external_ips.is_empty() {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.field("externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.field("trafficDistribution").text() == "PreferClose" {
        out.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    out
}
