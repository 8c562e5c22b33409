//! Nodes: taints, addresses, and pod ranges that are set once.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use object::{FieldError, FieldErrorKind, Object, names};
use regex::Regex;
use serde_json::Value;

use crate::strategies::addresses::{is_cidr, is_ipv6};
use crate::strategies::amount::canonicalize_list;
use crate::strategies::defaults::{map_at, map_at_path, show_empty};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::internal;
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{resources, scheduling};
use crate::strategy::{Strategy, WriteContext};

static FEATURE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$").expect("a constant pattern"));

pub struct Node;

impl Strategy for Node {
    fn default(&self, object: &mut Object) {
        show_empty(object, "spec");
        show_empty(object, "status");
        show_system_info(object);
        mirror_pod_cidr(object);
        let Some(status) = map_at(object.as_map_mut(), "status") else { return };
        canonicalize_list(status, "capacity");
        canonicalize_list(status, "allocatable");
        if !status.contains_key("allocatable")
            && let Some(capacity) = status.get("capacity").cloned()
        {
            status.insert("allocatable".into(), capacity);
        }
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.remove(&["spec", "configSource"]);
        object.remove(&["status", "config"]);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        if old.get(&["spec", "configSource"]).is_none() {
            new.remove(&["spec", "configSource"]);
        }
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_taints(&report, object);
        validate_status_amounts(&report, object);
        validate_ranges(report.field(object, "spec").field("podCIDRs"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        validate_changes(&report, new, old);
        errors.extend(report.finish());
        errors
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_status_amounts(&report, new);
        validate_changes(&report, new, old);
        validate_taints(&report, new);
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut out = Vec::new();
        if new.get(&["spec", "configSource"]).is_some() {
            out.push("spec.configSource: the feature is removed".to_owned());
        }
        if !new.str_at(&["spec", "externalID"]).is_empty() {
            out.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        out
    }

    fn keeps_status_on_create(&self) -> bool {
        true
    }
}

/// Kubernetes shows every field of `nodeInfo`, set or not.
fn show_system_info(object: &mut Object) {
    const WORDS: [&str; 10] = [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    let Some(status) = map_at(object.as_map_mut(), "status") else { return };
    super::super::defaults::set_absent(status, "daemonEndpoints", serde_json::json!({"kubeletEndpoint": {"Port": 0}}));
    super::super::defaults::set_absent(status, "nodeInfo", serde_json::json!({}));
    if let Some(info) = map_at(status, "nodeInfo") {
        for word in WORDS {
            super::super::defaults::set_absent(info, word, "");
        }
    }
}

/// `podCIDR` is the first of `podCIDRs`; setting one sets the other.
fn mirror_pod_cidr(object: &mut Object) {
    let single = object.str_at(&["spec", "podCIDR"]).to_owned();
    let first = object.items(&["spec", "podCIDRs"]).first().and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(spec) = map_at_path(object.as_map_mut(), &["spec"]) else { return };
    if !single.is_empty() && single != first {
        spec.insert("podCIDRs".into(), Value::from(vec![single]));
    } else if single.is_empty() && !first.is_empty() {
        spec.insert("podCIDR".into(), first.into());
    }
}

fn validate_taints<'a>(report: &'a Report<'a>, object: &'a Object) {
    // Reported as if taints were metadata.
    let value = object.get(&["spec", "taints"]);
    let taints = report.field(object, "metadata").field("taints").with(value);
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        key.qualified_name();
        let problems = names::label_value(value.text());
        if !problems.is_empty() {
            value.invalid(problems.join(";"));
        }
        effect.required_one_of(&scheduling::TAINT_EFFECTS);
        if !seen.insert((effect.text(), key.text())) {
            let shown = internal::compact("STaint", taint.value());
            taint.push(FieldError {
                kind: FieldErrorKind::Duplicate,
                path: taint.field_path(),
                value: None,
                detail: format!("{shown}: taints must be unique by key and effect pair"),
            });
        }
    }
}

fn validate_status_amounts<'a>(report: &'a Report<'a>, object: &'a Object) {
    let status = report.field(object, "status");
    for list in ["capacity", "allocatable"] {
        let amounts = status.field(list);
        for name in amounts.names() {
            resources::validate_amount(amounts.field(name), name);
        }
    }
    let features: Vec<Field<'_>> = status.field("declaredFeatures").items().collect();
    for (index, feature) in features.iter().enumerate() {
        let text = feature.text();
        if !FEATURE.is_match(text) {
            feature.invalid(format!(
                "invalid feature name {}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                object::field::go_quote(text)
            ));
        }
        match features.get(index + 1) {
            Some(next) if next.text() == text => next.duplicate(),
            Some(next) if next.text() < text => next.invalid("list must be sorted alphabetically"),
            _ => {}
        }
    }
}

fn validate_ranges(ranges: Field<'_>) {
    for range in ranges.items() {
        range.cidr(&[]);
    }
    let unreadable = ranges.texts().enumerate().find(|(_, range)| !is_cidr(range)).filter(|_| ranges.len() > 1);
    if let Some((index, range)) = unreadable {
        ranges.push(FieldError::internal(
            ranges.field_path(),
            format!("invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {range})"),
        ));
        return ranges.invalid("may specify no more than one CIDR for each IP family");
    }
    let families: Vec<bool> = ranges.texts().map(|r| is_ipv6(r.split('/').next().unwrap_or(r))).collect();
    if families.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
        ranges.invalid("may specify no more than one CIDR for each IP family");
    }
}

fn validate_changes<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let (spec, status) = (report.field(new, "spec"), report.field(new, "status"));
    let mut addresses: Vec<&Value> = Vec::new();
    for address in status.field("addresses").items() {
        let Some(value) = address.value() else { continue };
        if addresses.contains(&value) {
            address.push(FieldError {
                kind: FieldErrorKind::Duplicate,
                path: address.field_path(),
                value: None,
                detail: internal::compact("SNodeAddress", address.value()),
            });
        }
        addresses.push(value);
    }
    let ranges = old.items(&["spec", "podCIDRs"]);
    if !ranges.is_empty() && !same(old.get(&["spec", "podCIDRs"]), spec.field("podCIDRs").value()) {
        spec.field("podCIDRs").forbidden("node updates may not change podCIDR except from \"\" to valid");
    }
    let provider = old.str_at(&["spec", "providerID"]);
    if !provider.is_empty() && provider != spec.field("providerID").text() {
        spec.field("providerID").forbidden("node updates may not change providerID except from \"\" to valid");
    }
    if old.str_at(&["spec", "externalID"]) != spec.field("externalID").text() {
        spec.field("externalID").forbidden("may not be updated");
    }
}
