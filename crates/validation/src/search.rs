//! ResourceRegistry as karmada-search serves it.

use kinds::strategies::fields::{Field, Report};
use kinds::strategy::Strategy;
use object::{FieldError, Object};

use crate::address::Address;
use crate::rules::field_selector;

pub struct RegistryStrategy;

impl Strategy for RegistryStrategy {
    fn validate_create(&self, registry: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(registry, "spec");
        field_selector(spec.field("targetCluster"));
        for selector in spec.field("resourceSelectors").items() {
            validate_selector(selector);
        }
        for address in spec.path(&["backendStore", "openSearch", "addresses"]).items() {
            validate_address(address);
        }
        report.finish()
    }
}

fn validate_selector(selector: Field<'_>) {
    let version = selector.field("apiVersion");
    if version.text().matches('/').count() > 1 {
        version.invalid(format!("unexpected GroupVersion string: {}", version.text()));
    }
    let namespace = selector.field("namespace");
    if !namespace.text().is_empty() {
        namespace.dns1123_label();
    }
}

fn validate_address(address: Field<'_>) {
    match Address::parse(address.text()) {
        Err(problem) => address.invalid(problem),
        Ok(parsed) if !["http", "https"].contains(&parsed.scheme) || parsed.host.is_empty() => {
            address.invalid("must be a valid http or https URL with non-empty scheme and host");
        }
        Ok(_) => {}
    }
}
