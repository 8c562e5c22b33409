//! MultiClusterIngress and MultiClusterService.

use std::collections::BTreeSet;

use kinds::strategies::addresses::parse_sloppy;
use kinds::strategies::fields::{Field, Report};
use object::{FieldError, GroupVersionKind, Object, names};

use crate::cluster::name_problems;

/// The spec is an Ingress's, and so are its rules; what was wrong before is no excuse here.
pub fn validate_ingress(ingress: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let rules = kinds::strategies::for_kind(&GroupVersionKind::new("networking.k8s.io", "v1", "Ingress"));
    let mut errors = rules.validate_create(ingress);
    if old.is_some() {
        let report = Report::new();
        validate_load_balancer(report.field(ingress, "status"));
        errors.extend(report.finish());
    }
    errors
}

/// Returns a warning for a MultiClusterService that is stored without effect.
pub fn no_effect_warning(service: &Object, is_enabled: bool) -> Option<String> {
    let is_type = |name: &str| service.items(&["spec", "types"]).iter().any(|ty| ty == name);
    if is_type("LoadBalancer") {
        return Some("spec.types: LoadBalancer has no effect without an external load balancer controller".to_owned());
    }
    (is_type("CrossCluster") && !is_enabled)
        .then(|| "MultiClusterService has no effect while the feature gate MultiClusterService is off".to_owned())
}

pub fn validate_service(service: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(service, "spec");
    let types = spec.field("types");
    if let Some(old) = old
        && old.items(&["spec", "types"]) != service.items(&["spec", "types"])
    {
        let before = old.get(&["spec", "types"]).cloned().unwrap_or_default();
        types.invalid_as(before, "MultiClusterService types are immutable");
    }
    let name = report.field(service, "metadata").field("name");
    name.problems_as(name.text(), names::dns1035_label(name.text()));
    validate_ports(spec.field("ports"));
    let mut distinct = BTreeSet::new();
    for ty in types.items() {
        distinct.insert(ty.text());
        if !["CrossCluster", "LoadBalancer"].contains(&ty.text()) {
            ty.invalid("ExposureType Error");
        }
    }
    if distinct.len() > 1 {
        types.invalid("MultiClusterService types should not contain more than one type");
    }
    for side in ["providerClusters", "consumerClusters"] {
        // The path in Karmada's messages has a step the objects do not have.
        let at = spec.field("range").field(side);
        for (index, cluster) in spec.field(side).items().enumerate() {
            let name = cluster.field("name").text();
            let problems = name_problems(name);
            if !problems.is_empty() {
                at.index(index).invalid_as(name, problems.join(","));
            }
        }
    }
    if old.is_some() {
        validate_load_balancer(report.field(service, "status"));
    }
    report.finish()
}

fn validate_ports(ports: Field<'_>) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            name.dns1123_label();
            if !seen.insert(name.text()) {
                name.duplicate();
            }
        }
        let number = port.field("port");
        number.problems(names::port_number(number.int_or(0)));
    }
}

fn validate_load_balancer(status: Field<'_>) {
    for entry in status.path(&["loadBalancer", "ingress"]).items() {
        let (ip, hostname) = (entry.field("ip"), entry.field("hostname"));
        if !ip.is_empty() && parse_sloppy(ip.text()).is_none() {
            ip.invalid("must be a valid IP address");
        }
        if !hostname.is_empty() {
            hostname.dns1123_subdomain();
            if parse_sloppy(hostname.text()).is_some() {
                hostname.invalid("must be a DNS name, not an IP address");
            }
        }
    }
}
