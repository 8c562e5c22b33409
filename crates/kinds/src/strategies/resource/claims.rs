//! Resource claims, their templates, and device classes.

use std::collections::BTreeMap;

use cel::types::opaque;
use cel::{Env, Type};
use object::{FieldError, Object, names};
use serde_json::{Map, Value, json};

use super::{EFFECTS, validate_driver, validate_list, validate_set};
use crate::strategies::defaults::{map_at_path, map_or_new, maps_in, set_absent, set_empty_str, set_zero, show_empty};
use crate::strategies::fields::{Field, IMMUTABLE, Report, same};
use crate::strategies::pod_spec::scheduling::validate_node_selector;
use crate::strategy::{Strategy, WriteContext};

const REQUESTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;
const CONSUMERS_MAX: usize = 256;

pub(super) struct Claim;

impl Strategy for Claim {
    fn default(&self, claim: &mut Object) {
        show_empty(claim, "status");
        if let Some(devices) = map_at_path(claim.as_map_mut(), &["spec", "devices"]) {
            default_devices(devices);
        }
    }

    fn prepare_create(&self, claim: &mut Object, _ctx: &WriteContext) {
        claim.set(&["status"], json!({}));
    }

    fn validate_create(&self, claim: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_devices(report.field(claim, "spec").field("devices"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(new, "spec");
        if !same(spec.value(), old.get(&["spec"])) {
            spec.invalid(IMMUTABLE);
        }
        report.finish()
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        let names = request_names(report.field(new, "spec").field("devices").field("requests"));
        let reserved = status.field("reservedFor");
        let required = |consumer: Field<'_>| {
            for name in ["resource", "name", "uid"] {
                consumer.field(name).require();
            }
        };
        validate_set(reserved, CONSUMERS_MAX, required, |consumer| consumer.field("uid").text());
        let allocation = status.field("allocation");
        let stored = old.get(&["status", "allocation"]).filter(|allocation| allocation.is_object());
        if !reserved.is_empty() && !allocation.is_set() {
            reserved.forbidden("may not be specified when `allocated` is not set");
        }
        match stored {
            Some(stored) if allocation.is_set() && !same(allocation.value(), Some(stored)) => {
                allocation.invalid(IMMUTABLE)
            }
            Some(_) => {}
            None => validate_allocation(allocation, &names),
        }
        report.finish()
    }
}

pub(super) struct Template;

impl Strategy for Template {
    fn default(&self, template: &mut Object) {
        let Some(spec) = map_or_new(template.as_map_mut(), "spec") else { return };
        set_absent(spec, "metadata", json!({}));
        if let Some(devices) = map_at_path(spec, &["spec", "devices"]) {
            default_devices(devices);
        }
    }

    fn validate_create(&self, template: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(template, "spec");
        spec.path(&["metadata", "labels"]).labels();
        spec.path(&["metadata", "annotations"]).annotations();
        validate_devices(spec.path(&["spec", "devices"]));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(new, "spec");
        if !same(spec.value(), old.get(&["spec"])) {
            spec.invalid(IMMUTABLE);
        }
        report.finish()
    }
}

pub(super) struct DeviceClass;

impl Strategy for DeviceClass {
    fn default(&self, class: &mut Object) {
        show_empty(class, "spec");
    }

    fn validate_create(&self, class: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(class, "spec");
        validate_list(spec.field("selectors"), REQUESTS_MAX, validate_selector);
        validate_list(spec.field("config"), REQUESTS_MAX, validate_configuration);
        report.finish()
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn default_devices(devices: &mut Map<String, Value>) {
    if devices.get("requests").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        devices.insert("requests".to_owned(), Value::Null);
    }
    for request in maps_in(devices, "requests") {
        if let Some(Value::Object(exact)) = request.get_mut("exactly") {
            default_count(exact);
        }
        maps_in(request, "firstAvailable").for_each(default_count);
    }
}

fn default_count(request: &mut Map<String, Value>) {
    maps_in(request, "tolerations").for_each(|toleration| set_empty_str(toleration, "operator", "Equal"));
    set_empty_str(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
        set_zero(request, "count", 1);
    }
}

/// The requests of a claim by name, each with its alternatives.
type RequestNames<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn request_names(requests: Field<'_>) -> RequestNames<'_> {
    requests
        .items()
        .map(|request| {
            let names = request.field("firstAvailable").items().map(|sub| sub.field("name").text()).collect();
            (request.field("name").text(), names)
        })
        .collect()
}

fn validate_devices(devices: Field<'_>) {
    let requests = devices.field("requests");
    let names = request_names(requests);
    validate_set(requests, REQUESTS_MAX, validate_request, |request| request.field("name").text());
    validate_list(devices.field("constraints"), REQUESTS_MAX, |constraint| {
        validate_references(constraint.field("requests"), &names);
        let (matching, distinct) = (constraint.field("matchAttribute"), constraint.field("distinctAttribute"));
        match (matching.is_set(), distinct.is_set()) {
            (true, _) => validate_attribute_name(matching),
            (false, true) => validate_attribute_name(distinct),
            (false, false) => constraint.required(
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            ),
        }
    });
    validate_list(devices.field("config"), REQUESTS_MAX, |config| {
        validate_references(config.field("requests"), &names);
        validate_configuration(config);
    });
}

fn validate_request(request: Field<'_>) {
    let name = request.field("name");
    name.problems_as(name.text(), names::dns1123_label(name.text()));
    let (exact, first) = (request.field("exactly"), request.field("firstAvailable"));
    match (exact.is_set(), !first.is_empty()) {
        (false, false) => request.required("exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => request.invalid_as(
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, false) => validate_exact(exact),
        (false, true) => validate_set(
            first,
            ALTERNATIVES_MAX,
            |alternative| {
                let name = alternative.field("name");
                name.problems_as(name.text(), names::dns1123_label(name.text()));
                validate_exact(alternative);
            },
            |alternative| alternative.field("name").text(),
        ),
    }
}

fn validate_exact(request: Field<'_>) {
    let class = request.field("deviceClassName");
    if class.require() {
        class.dns1123_subdomain();
    }
    validate_list(request.field("selectors"), REQUESTS_MAX, validate_selector);
    let count = request.field("count");
    match request.field("allocationMode").text() {
        "All" if count.int_or(0) != 0 => count.invalid("must not be specified when allocationMode is 'All'"),
        "All" => {}
        "ExactCount" if count.int_or(0) <= 0 => count.invalid_as(count.int_or(0), "must be greater than zero"),
        "ExactCount" => {}
        _ => request.field("allocationMode").not_supported(&["All", "ExactCount"]),
    }
    request.field("tolerations").items().for_each(validate_toleration);
}

fn validate_toleration(toleration: Field<'_>) {
    let (key, operator, value) = (toleration.field("key"), toleration.field("operator"), toleration.field("value"));
    if !key.is_empty() {
        key.qualified_name();
    }
    match operator.text() {
        "Exists" if !value.is_empty() => value.invalid("must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => value.problems_as(value.text(), names::label_value(value.text())),
        _ => operator.required_one_of(&["Equal", "Exists"]),
    }
    if !toleration.field("effect").is_empty() {
        toleration.field("effect").one_of(EFFECTS);
    }
}

fn validate_selector(selector: Field<'_>) {
    let cel = selector.field("cel");
    if !cel.is_set() {
        return cel.required("");
    }
    let expression = cel.field("expression");
    if expression.len() > EXPRESSION_BYTES_MAX {
        return expression.too_long(EXPRESSION_BYTES_MAX);
    }
    match device_env().compile(expression.text()) {
        Err(error) => expression.invalid_as(expression.text(), format!("compilation failed: {error}")),
        Ok(program) if !matches!(program.result_type(), Type::Bool | Type::Dyn) => {
            let got = program.result_type();
            expression.invalid_as(expression.text(), format!("must evaluate to bool or the unknown type, not {got}"));
        }
        Ok(_) => {}
    }
}

/// The device as seen by a selector.
fn device_env() -> Env {
    let by_domain = |ty: Type| Type::map(Type::String, Type::map(Type::String, ty));
    let fields = [
        ("driver", Type::String),
        ("attributes", by_domain(Type::Dyn)),
        ("capacity", by_domain(Type::Opaque(opaque::QUANTITY))),
        ("allowMultipleAllocations", Type::Bool),
    ];
    let device = Type::object("kubernetes.DRADevice", fields.map(|(name, ty)| (name.to_owned(), ty)));
    Env::builder().variable("device", device).build()
}

fn validate_references<'a>(requests: Field<'a>, known: &RequestNames<'_>) {
    validate_set(requests, REQUESTS_MAX, |reference| validate_reference(reference, known), Field::text);
}

fn validate_reference(reference: Field<'_>, known: &RequestNames<'_>) {
    const UNKNOWN: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let parts: Vec<&str> = reference.text().split('/').collect();
    let found = match parts[..] {
        [request] => known.contains_key(request),
        [request, alternative] => known.get(request).is_some_and(|names| names.contains(&alternative)),
        _ => return reference.invalid(UNKNOWN),
    };
    for part in parts {
        reference.problems_as(part, names::dns1123_label(part));
    }
    if !found {
        reference.invalid_as(reference.text(), UNKNOWN);
    }
}

fn validate_attribute_name(name: Field<'_>) {
    super::slices::validate_qualified_name(name, name.text());
    if !name.text().contains('/') {
        name.invalid("a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn validate_configuration(config: Field<'_>) {
    let opaque = config.field("opaque");
    if !opaque.is_set() {
        return opaque.required("");
    }
    validate_driver(opaque.field("driver"));
    let parameters = opaque.field("parameters");
    match parameters.value() {
        None => parameters.required(""),
        Some(value) if value.to_string().len() > PARAMETERS_BYTES_MAX => parameters.too_long(PARAMETERS_BYTES_MAX),
        Some(value) if !value.is_object() => {
            parameters.invalid_as("<value omitted>", "must be a valid JSON object");
        }
        Some(_) => {}
    }
}

fn validate_allocation(allocation: Field<'_>, known: &RequestNames<'_>) {
    let devices = allocation.field("devices");
    validate_list(devices.field("results"), REQUESTS_MAX, |result| {
        validate_reference(result.field("request"), known);
        validate_driver(result.field("driver"));
        super::slices::validate_pool_name(result.field("pool"));
        let device = result.field("device");
        device.problems_as(device.text(), names::dns1123_label(device.text()));
    });
    validate_list(devices.field("config"), 2 * REQUESTS_MAX, |config| {
        config.field("source").required_one_of(&["FromClaim", "FromClass"]);
        validate_references(config.field("requests"), known);
        validate_configuration(config);
    });
    if allocation.field("nodeSelector").is_set() {
        validate_node_selector(allocation.field("nodeSelector"));
    }
}
