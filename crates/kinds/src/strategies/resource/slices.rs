//! Resource slices: the devices a driver offers.

use object::{FieldError, FieldPath, Object, names};
use serde_json::Value;

use super::{validate_driver, validate_list, validate_set, validate_taint};
use crate::strategies::defaults::maps_in;
use crate::strategies::fields::{Field, Report};
use crate::strategies::pod_spec::scheduling::validate_node_selector;
use crate::strategy::{Strategy, WriteContext};

const DEVICES_MAX: usize = 128;
const DEVICES_WITH_EXTRAS_MAX: usize = 64;
const PROPERTIES_MAX: usize = 32;
const TAINTS_MAX: usize = 16;
const POOL_NAME_BYTES_MAX: usize = 253;
const VALUE_BYTES_MAX: usize = 64;
const ID_BYTES_MAX: usize = 32;
const PLACES: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const VALUES: [&str; 8] = ["bool", "int", "string", "version", "bools", "ints", "strings", "versions"];

pub(super) struct Slice;

impl Strategy for Slice {
    /// A taint counts from when it was first seen.
    fn prepare_create(&self, slice: &mut Object, ctx: &WriteContext) {
        let now = object::time::format_seconds(ctx.now);
        let Some(Value::Object(spec)) = slice.as_map_mut().get_mut("spec") else { return };
        for device in maps_in(spec, "devices") {
            for taint in maps_in(device, "taints").filter(|taint| !taint.contains_key("timeAdded")) {
                taint.insert("timeAdded".to_owned(), now.clone().into());
            }
        }
    }

    fn prepare_update(&self, new: &mut Object, _old: &Object, ctx: &WriteContext) {
        self.prepare_create(new, ctx);
    }

    fn validate_create(&self, slice: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_spec(report.field(slice, "spec"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        let spec = report.field(new, "spec");
        spec.path(&["pool", "name"]).immutable(old.get(&["spec", "pool", "name"]));
        spec.field("driver").immutable(old.get(&["spec", "driver"]));
        spec.field("nodeName").immutable(old.get(&["spec", "nodeName"]));
        errors.extend(report.finish());
        errors
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_spec(spec: Field<'_>) {
    validate_driver(spec.field("driver"));
    let pool = spec.field("pool");
    validate_pool_name(pool.field("name"));
    let slices = pool.field("resourceSliceCount");
    if slices.int_or(0) <= 0 {
        slices.invalid_as(slices.int_or(0), "must be greater than zero");
    }
    if pool.field("generation").int_or(0) < 0 {
        pool.field("generation").invalid("must be greater than or equal to zero");
    }
    validate_place(spec);
    if !spec.field("sharedCounters").is_empty() && !spec.field("devices").is_empty() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let devices = spec.field("devices");
    let has_extras =
        |device: Field<'_>| !device.field("taints").is_empty() || !device.field("consumesCounters").is_empty();
    let max = if devices.items().any(has_extras) { DEVICES_WITH_EXTRAS_MAX } else { DEVICES_MAX };
    let per_device = spec.field("perDeviceNodeSelection").flag();
    validate_set(devices, max, |device| validate_device(device, per_device), |device| device.field("name").text());
}

/// The location of the devices: on one node, on some, on all, or per device.
fn validate_place(spec: Field<'_>) {
    let mut given = Vec::new();
    let node = spec.field("nodeName");
    if node.is_set() && node.is_empty() {
        node.invalid("must be either unset or set to a non-empty string");
    } else if node.is_set() {
        given.push("`nodeName`");
        node.dns1123_subdomain();
    }
    let selector = spec.field("nodeSelector");
    if selector.is_set() {
        given.push("`nodeSelector`");
        validate_node_selector(selector);
        if selector.field("nodeSelectorTerms").len() != 1 {
            selector.field("nodeSelectorTerms").invalid("must have exactly one node selector term");
        }
    }
    for (name, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec.field(name).value() {
            Some(Value::Bool(true)) => given.push(shown),
            Some(_) => spec.field(name).invalid("must be either unset or set to true"),
            None => {}
        }
    }
    match given.len() {
        0 => spec.required(PLACES),
        1 => {}
        _ => spec.invalid_as(format!("{{{}}}", given.join(", ")), format!("{PLACES}, but multiple fields are set")),
    }
}

pub(super) fn validate_pool_name(name: Field<'_>) {
    if !name.require() {
        return;
    }
    if name.len() > POOL_NAME_BYTES_MAX {
        name.too_long(POOL_NAME_BYTES_MAX);
    }
    for part in name.text().split('/') {
        name.problems_as(part, names::dns1123_subdomain(part));
    }
}

fn validate_device(device: Field<'_>, per_device: bool) {
    let name = device.field("name");
    name.problems_as(name.text(), names::dns1123_label(name.text()));
    let (attributes, capacity) = (device.field("attributes"), device.field("capacity"));
    let properties = attributes.len() + capacity.len();
    if properties > PROPERTIES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {PROPERTIES_MAX}");
        device.invalid_as(properties, detail);
    }
    for (key, attribute) in attributes.entries() {
        validate_qualified_name(attributes, key);
        validate_attribute(attribute);
    }
    for (key, _) in capacity.entries() {
        validate_qualified_name(capacity, key);
    }
    validate_list(device.field("taints"), TAINTS_MAX, validate_taint);
    let placed = ["nodeName", "nodeSelector", "allNodes"].map(|name| device.field(name).is_set());
    const NEEDED: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match (per_device, placed.iter().filter(|set| **set).count()) {
        (true, 0) => device.required(NEEDED),
        (false, 1..) => device.invalid_as(
            Value::Null,
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        ),
        _ => {}
    }
}

fn validate_attribute(attribute: Field<'_>) {
    for text in ["string", "version"].map(|name| attribute.field(name)) {
        if text.len() > VALUE_BYTES_MAX {
            text.too_long(VALUE_BYTES_MAX);
        }
    }
    let version = attribute.field("version");
    if version.is_set() && !is_semver(version.text()) {
        version.invalid("must be a string compatible with semver.org spec 2.0.0");
    }
    match VALUES.iter().filter(|name| attribute.field(name).is_set()).count() {
        1 => {}
        0 => attribute.invalid_as("", "exactly one value must be specified"),
        _ => attribute.invalid("exactly one value must be specified"),
    }
}

/// `major.minor.patch` without leading zeros, then optionally `-pre.release` and `+build`.
fn is_semver(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let release = |part: &str| word(part) && (!part.bytes().all(|b| b.is_ascii_digit()) || number(part));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(release))
        && build.is_none_or(|build| build.split('.').all(word))
}

/// `name` or `domain/name`, the name a C identifier.
pub(super) fn validate_qualified_name(at: Field<'_>, name: &str) {
    let parts: Vec<&str> = name.split('/').collect();
    let id = match parts[..] {
        [id] => id,
        [domain, id] => {
            if domain.is_empty() {
                at.invalid_as("", "the domain must not be empty");
            } else {
                at.problems_as(domain, names::dns1123_subdomain(&domain.to_lowercase()));
            }
            id
        }
        _ => return,
    };
    if id.is_empty() && parts.len() == 2 {
        return at.invalid_as("", "the name must not be empty");
    }
    if id.len() > ID_BYTES_MAX {
        at.push(FieldError::too_long(FieldPath::new(at.field_path().as_str()), ID_BYTES_MAX));
    }
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if id.is_empty() || !id.bytes().all(word) || id.as_bytes()[0].is_ascii_digit() {
        let rule = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
        at.invalid_as(id, names::regex_message(rule, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"]));
    }
}
