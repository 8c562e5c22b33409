//! Endpoint slices.

use std::collections::BTreeSet;
use std::sync::Arc;

use object::{FieldError, Object, names};
use serde_json::Value;

use crate::strategies::addresses::{is_ipv6, spelling_warning};
use crate::strategies::defaults::{maps_in, set_absent};
use crate::strategies::fields::{Field, Report, same};
use crate::strategy::{Strategy, WriteContext};

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;
const TOPOLOGY_MAX: usize = 16;

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "EndpointSlice" => Some(Arc::new(EndpointSlice)),
        _ => None,
    }
}

struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, slice: &mut Object) {
        let map = slice.as_map_mut();
        for port in maps_in(map, "ports") {
            set_absent(port, "name", "");
            set_absent(port, "protocol", "TCP");
        }
        for endpoint in maps_in(map, "endpoints") {
            set_absent(endpoint, "conditions", serde_json::json!({}));
        }
        for list in ["endpoints", "ports"] {
            if map.get(list).and_then(Value::as_array).is_none_or(Vec::is_empty) {
                map.insert(list.to_owned(), Value::Null);
            }
        }
    }

    /// The free-form topology belongs to v1beta1; v1 only keeps stored values.
    fn prepare_create(&self, slice: &mut Object, _ctx: &WriteContext) {
        maps_in(slice.as_map_mut(), "endpoints").for_each(|endpoint| drop(endpoint.remove("deprecatedTopology")));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, ctx: &WriteContext) {
        let stored = old.items(&["endpoints"]).iter().any(|endpoint| endpoint.get("deprecatedTopology").is_some());
        if !stored || !same(new.get(&["endpoints"]), old.get(&["endpoints"])) {
            self.prepare_create(new, ctx);
        }
    }

    fn validate_create(&self, slice: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_head(&report, slice);
        validate_endpoints(report.field(slice, "endpoints"), slice.str_at(&["addressType"]));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_head(&report, new);
        if !same(new.get(&["endpoints"]), old.get(&["endpoints"])) {
            validate_endpoints(report.field(new, "endpoints"), new.str_at(&["addressType"]));
        }
        report.field(new, "addressType").immutable(old.get(&["addressType"]));
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if new.str_at(&["addressType"]) == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
            return warnings;
        }
        for (index, endpoint) in new.items(&["endpoints"]).iter().enumerate() {
            for (at, address) in endpoint["addresses"].as_array().into_iter().flatten().enumerate() {
                let path = format!("endpoints[{index}].addresses[{at}]");
                warnings.extend(spelling_warning(&path, address.as_str().unwrap_or_default()));
            }
        }
        warnings
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_head<'a>(report: &'a Report<'a>, slice: &'a Object) {
    report.field(slice, "addressType").required_one_of(&["FQDN", "IPv4", "IPv6"]);
    let ports = report.field(slice, "ports");
    if ports.len() > PORTS_MAX {
        return ports.too_many(ports.len(), PORTS_MAX);
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let (name, protocol) = (port.field("name"), port.field("appProtocol"));
        if !name.is_empty() {
            name.dns1123_label();
        }
        if !seen.insert(name.text()) {
            name.duplicate_as(name.text());
        }
        port.field("protocol").one_of(&["SCTP", "TCP", "UDP"]);
        if protocol.is_set() {
            protocol.qualified_name();
        }
    }
}

fn validate_endpoints(endpoints: Field<'_>, address_type: &str) {
    if endpoints.len() > ENDPOINTS_MAX {
        return endpoints.too_many(endpoints.len(), ENDPOINTS_MAX);
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        if addresses.require_because("must contain at least 1 address") && addresses.len() > ADDRESSES_MAX {
            addresses.too_many(addresses.len(), ADDRESSES_MAX);
        }
        addresses.items().for_each(|address| validate_address(addresses, address, address_type));
        if endpoint.field("nodeName").is_set() {
            endpoint.field("nodeName").dns1123_subdomain();
        }
        let topology = endpoint.field("deprecatedTopology");
        if topology.len() > TOPOLOGY_MAX {
            topology.too_many(topology.len(), TOPOLOGY_MAX);
        }
        topology.labels();
        if endpoint.field("hostname").is_set() {
            endpoint.field("hostname").dns1123_label();
        }
        validate_hints(endpoint.field("hints"));
    }
}

fn validate_address<'a>(addresses: Field<'a>, address: Field<'a>, address_type: &str) {
    match address_type {
        "IPv4" | "IPv6" => {
            if !address.ip_address(&[]) {
                return;
            }
            if is_ipv6(address.text()) != (address_type == "IPv6") {
                addresses.invalid_as(address.text(), format!("must be an {address_type} address"));
            }
            address.endpoint_address();
        }
        "FQDN" => validate_domain(address),
        _ => {}
    }
}

fn validate_domain(address: Field<'_>) {
    if !address.require() {
        return;
    }
    let name = address.text().strip_suffix('.').unwrap_or(address.text());
    let problems = names::dns1123_subdomain(name);
    if !problems.is_empty() {
        return address.invalid_as(name, problems.join(","));
    }
    if !name.contains('.') {
        return address.invalid_as(name, "should be a domain with at least two segments separated by dots");
    }
    let long = name.split('.').map(|label| (label, names::dns1123_label(label))).find(|(_, p)| !p.is_empty());
    if let Some((label, problems)) = long {
        address.invalid_as(label, problems.join(","));
    }
}

fn validate_hints(hints: Field<'_>) {
    type Rule = fn(&str) -> Vec<String>;
    let lists: [(&'static str, Rule); 2] = [("forZones", names::label_value), ("forNodes", names::dns1123_subdomain)];
    for (name, rule) in lists {
        let list = hints.field(name);
        if list.len() > HINTS_MAX {
            return list.too_many(list.len(), HINTS_MAX);
        }
        let mut seen = BTreeSet::new();
        for name in list.items().map(|hint| hint.field("name")) {
            if !seen.insert(name.text()) {
                name.duplicate_as(name.text());
            }
            name.problems_as(name.text(), rule(name.text()));
        }
    }
}
