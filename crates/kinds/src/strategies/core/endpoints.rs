//! Endpoints, the older form of EndpointSlices.

use object::{FieldError, Object};

use crate::strategies::addresses::spelling_warning;
use crate::strategies::defaults::{maps_in, set_empty_str};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategy::Strategy;

pub struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, object: &mut Object) {
        for subset in maps_in(object.as_map_mut(), "subsets") {
            for port in maps_in(subset, "ports") {
                set_empty_str(port, "protocol", "TCP");
            }
        }
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_subsets(report.field(object, "subsets"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        if !same(new.get(&["subsets"]), old.get(&["subsets"])) {
            validate_subsets(report.field(new, "subsets"));
        }
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        let report = Report::new();
        let subsets = report.field(new, "subsets").items();
        let lists = subsets.flat_map(|s| [s.field("addresses"), s.field("notReadyAddresses")]);
        let addresses = lists.flat_map(|list| list.items()).map(|address| address.field("ip"));
        addresses.filter_map(|ip| spelling_warning(ip.field_path().as_str(), ip.text())).collect()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

fn validate_subsets(subsets: Field<'_>) {
    for subset in subsets.items() {
        let (ready, waiting, ports) =
            (subset.field("addresses"), subset.field("notReadyAddresses"), subset.field("ports"));
        if ready.is_empty() && waiting.is_empty() {
            subset.required("must specify `addresses` or `notReadyAddresses`");
        }
        for address in ready.items().chain(waiting.items()) {
            validate_address(address);
        }
        for port in ports.items() {
            validate_port(port, ports.len() > 1);
        }
    }
}

fn validate_address(address: Field<'_>) {
    let ip = address.field("ip");
    ip.ip_address(&[]);
    if !address.field("hostname").is_empty() {
        address.field("hostname").dns1123_label();
    }
    if address.field("nodeName").is_set() {
        address.field("nodeName").dns1123_subdomain();
    }
    ip.endpoint_address();
}

fn validate_port(port: Field<'_>, requires_name: bool) {
    let name = port.field("name");
    if requires_name && name.is_empty() {
        name.required("");
    } else if !name.is_empty() {
        name.dns1123_label();
    }
    let number = port.field("port").int_or(0);
    port.field("port").problems_as_int(number, object::names::port_number(number));
    port.field("protocol").required_one_of(&["SCTP", "TCP", "UDP"]);
    if port.field("appProtocol").is_set() {
        port.field("appProtocol").qualified_name();
    }
}
