//! Horizontal pod autoscalers: stored as v2, served as v1 with the rest in annotations.

mod conversion;

use std::collections::BTreeSet;
use std::sync::Arc;

use object::{FieldError, GroupVersion, Object, names};
use serde_json::{Map, Value, json};

use crate::strategies::amount::canonicalize;
use crate::strategies::defaults::{map_at, map_at_path, map_or_new, maps_in, set_absent};
use crate::strategies::fields::{Field, Report};
use crate::strategies::pod_spec::resources::validate_container_name;
use crate::strategy::{Strategy, WriteContext};

const STABILIZATION_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;
const CPU_PERCENT: i64 = 80;
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SOURCE_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn for_kind(kind: &str, version: &str) -> Option<Arc<dyn Strategy>> {
    match (kind, version) {
        ("HorizontalPodAutoscaler", "v1") => Some(Arc::new(Autoscaler { v1: true })),
        ("HorizontalPodAutoscaler", _) => Some(Arc::new(Autoscaler { v1: false })),
        ("Scale", _) => Some(Arc::new(Scale)),
        _ => None,
    }
}

struct Autoscaler {
    v1: bool,
}

impl Strategy for Autoscaler {
    fn default(&self, autoscaler: &mut Object) {
        if self.v1 {
            if let Some(spec) = map_or_new(autoscaler.as_map_mut(), "spec") {
                set_absent(spec, "minReplicas", 1);
            }
            // Only the v2 form shows whether another metric makes the default one redundant.
            *autoscaler = conversion::to_v1(conversion::to_v2(std::mem::take(autoscaler)));
            return;
        }
        default_v2(autoscaler);
    }

    fn prepare_create(&self, autoscaler: &mut Object, _ctx: &WriteContext) {
        autoscaler.remove(&["status"]);
        show_status(autoscaler, self.v1);
    }

    fn validate_create(&self, autoscaler: &Object) -> Vec<FieldError> {
        validate(&self.long_form(autoscaler), None)
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        validate(&self.long_form(new), Some(&self.long_form(old)))
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        status.field("currentReplicas").non_negative();
        status.field("desiredReplicas").non_negative();
        report.finish()
    }

    fn to_storage(&self, autoscaler: Object) -> Object {
        if self.v1 { conversion::to_v2(autoscaler) } else { autoscaler }
    }

    fn from_storage(&self, autoscaler: Object) -> Object {
        if self.v1 { conversion::to_v1(autoscaler) } else { autoscaler }
    }
}

impl Autoscaler {
    fn long_form(&self, autoscaler: &Object) -> Object {
        if self.v1 { conversion::to_v2(autoscaler.clone()) } else { autoscaler.clone() }
    }
}

/// The parts of the status each version always shows.
fn show_status(autoscaler: &mut Object, v1: bool) {
    let Some(status) = map_or_new(autoscaler.as_map_mut(), "status") else { return };
    set_absent(status, "desiredReplicas", 0);
    if v1 {
        set_absent(status, "currentReplicas", 0);
    } else if status.get("currentMetrics").is_none() {
        status.insert("currentMetrics".to_owned(), Value::Null);
    }
}

fn default_v2(autoscaler: &mut Object) {
    show_status(autoscaler, false);
    let Some(spec) = map_or_new(autoscaler.as_map_mut(), "spec") else { return };
    set_absent(spec, "minReplicas", 1);
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("metrics".to_owned(), json!([cpu_metric(CPU_PERCENT)]));
    }
    for metric in maps_in(spec, "metrics") {
        for (_, source) in SOURCES {
            if let Some(target) = map_at_path(metric, &[source, "target"]) {
                canonicalize(target, "value");
                canonicalize(target, "averageValue");
            }
        }
    }
    if let Some(behavior) = map_at(spec, "behavior") {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        default_rules(behavior, "scaleUp", json!([pods, percent]));
        default_rules(behavior, "scaleDown", json!([percent]));
        if let Some(up) = map_at(behavior, "scaleUp") {
            set_absent(up, "stabilizationWindowSeconds", 0);
        }
    }
}

fn default_rules(behavior: &mut Map<String, Value>, direction: &str, policies: Value) {
    if let Some(rules) = map_or_new(behavior, direction) {
        set_absent(rules, "selectPolicy", "Max");
        set_absent(rules, "policies", policies);
        canonicalize(rules, "tolerance");
    }
}

fn cpu_metric(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn validate(autoscaler: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(autoscaler, "spec");
    let (fewest, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let floor = i64::from(old.is_none_or(|old| old.i64_at(&["spec", "minReplicas"]) != Some(0)));
    if fewest.int().is_some_and(|n| n < floor) {
        fewest.invalid(format!("must be greater than or equal to {floor}"));
    }
    match most.int_or(0) {
        0 => most.required("must be set and greater than 0"),
        n if n < 0 => most.invalid("must be greater than or equal to 1"),
        _ => {}
    }
    if fewest.int().is_some_and(|n| most.int_or(0) < n) {
        most.invalid_as(most.int_or(0), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    let unchanged = old.is_some_and(|old| {
        ["apiVersion", "kind"].iter().all(|key| {
            old.str_at(&["spec", "scaleTargetRef", key]) == autoscaler.str_at(&["spec", "scaleTargetRef", key])
        })
    });
    let groupless = target.field("kind").text() == "ReplicationController";
    validate_reference(target, if unchanged { Version::Any } else { Version::Parsed { groupless } });
    let described =
        if old.is_some_and(has_bad_described_object) { Version::Any } else { Version::Parsed { groupless: true } };
    for metric in spec.field("metrics").items() {
        validate_metric(metric, described);
    }
    let beyond_pods = |metric: Field<'_>| matches!(metric.field("type").text(), "Object" | "External");
    if fewest.int() == Some(0) && !spec.field("metrics").items().any(beyond_pods) {
        spec.field("metrics")
            .forbidden("must specify at least one Object or External metric to support scaling to zero replicas");
    }
    let behavior = spec.field("behavior");
    validate_rules(behavior.field("scaleUp"));
    validate_rules(behavior.field("scaleDown"));
    report.finish()
}

/// The strictness for the apiVersion of a reference.
#[derive(Clone, Copy)]
enum Version {
    Any,
    Parsed { groupless: bool },
}

fn validate_reference(reference: Field<'_>, version: Version) {
    for name in ["kind", "name"] {
        let field = reference.field(name);
        if field.require() {
            field.problems(names::path_segment(field.text()));
        }
    }
    let api_version = reference.field("apiVersion");
    if let Some(problem) = version_problem(api_version.text(), version) {
        api_version.invalid_as(api_version.text(), problem);
    }
}

fn version_problem(text: &str, version: Version) -> Option<String> {
    let Version::Parsed { groupless } = version else { return None };
    if text.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {text}"));
    }
    let group = GroupVersion::parse(text).unwrap_or_default().group;
    (group.is_empty() && !groupless).then(|| "apiVersion must specify API group".to_owned())
}

fn has_bad_described_object(autoscaler: &Object) -> bool {
    let objects = autoscaler.items(&["spec", "metrics"]).iter().map(|metric| &metric["object"]["describedObject"]);
    let versions = objects.filter_map(|object| object["apiVersion"].as_str());
    versions.into_iter().any(|text| version_problem(text, Version::Parsed { groupless: true }).is_some())
}

fn validate_metric(metric: Field<'_>, described: Version) {
    let ty = metric.field("type");
    ty.require_because("must specify a metric source type");
    let wanted = SOURCES.iter().find(|(name, _)| *name == ty.text()).map(|(_, field)| *field);
    if wanted.is_none() {
        ty.not_supported(SOURCE_TYPES);
    }
    let present: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|f| metric.field(f).is_set()).collect();
    if let Some(first) = present.first() {
        validate_source(metric.field(first), first, described);
    }
    if wanted.is_none() {
        ty.not_supported(SOURCE_TYPES);
    }
    if let Some(wanted) = wanted.filter(|wanted| !metric.field(wanted).is_set()) {
        metric.field(wanted).required("must populate information for the given metric source");
    }
    if present.len() != 1 {
        let unwanted: BTreeSet<&str> = present.into_iter().filter(|field| Some(*field) != wanted).collect();
        for field in unwanted {
            metric.field(field).forbidden("must populate the given metric source only");
        }
    }
}

fn validate_source(source: Field<'_>, kind: &str, described: Version) {
    let target = source.field("target");
    let (value, average, utilization) =
        (target.field("value"), target.field("averageValue"), target.field("averageUtilization"));
    match kind {
        "object" => validate_reference(source.field("describedObject"), described),
        "resource" => drop(source.field("name").require_because("must specify a resource name")),
        "containerResource" => validate_container(source),
        _ => {}
    }
    if matches!(kind, "object" | "external" | "pods") {
        let name = source.path(&["metric", "name"]);
        if name.require_because("must specify a metric name") {
            name.problems(names::path_segment(name.text()));
        }
    }
    validate_target(target);
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            average.required("must set either a target value or averageValue");
        }
        "external" if !value.is_set() && !average.is_set() => {
            average.required("must set either a target value for metric or a per-pod target");
        }
        "external" if value.is_set() && average.is_set() => {
            value.forbidden("may not set both a target value for metric and a per-pod target");
        }
        "pods" if !average.is_set() => average.required("must specify a positive target averageValue"),
        "resource" | "containerResource" if !utilization.is_set() && !average.is_set() => {
            utilization.required("must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if utilization.is_set() && average.is_set() => {
            average.forbidden("may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

fn validate_container(source: Field<'_>) {
    let (name, container) = (source.field("name"), source.field("container"));
    if name.require_because("must specify a resource name") {
        validate_container_name(name, name.text());
    }
    if container.require_because("must specify a container") {
        container.dns1123_label();
    }
}

fn validate_target(target: Field<'_>) {
    let ty = target.field("type");
    ty.require_because("must specify a metric target type");
    if !matches!(ty.text(), "Utilization" | "Value" | "AverageValue") {
        ty.invalid_as(ty.text(), "must be either Utilization, Value, or AverageValue");
    }
    for amount in ["value", "averageValue"].map(|name| target.field(name)) {
        if amount.is_set() && !amount.amount().is_positive() {
            amount.invalid_as(amount.amount().to_string(), "must be positive");
        }
    }
    target.field("averageUtilization").positive();
}

fn validate_rules(rules: Field<'_>) {
    if !rules.is_set() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    if window.int().is_some_and(|seconds| seconds < 0) {
        window.invalid("must be greater than or equal to zero");
    }
    if window.int().is_some_and(|seconds| seconds > STABILIZATION_SECONDS_MAX) {
        window.invalid(format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}"));
    }
    rules.field("selectPolicy").optional_one_of(&["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    policies.require_because("must specify at least one Policy");
    for policy in policies.items() {
        policy.field("type").one_of(&["Percent", "Pods"]);
        let period = policy.field("periodSeconds");
        for field in [policy.field("value"), period] {
            if field.int_or(0) <= 0 {
                field.invalid_as(field.int_or(0), "must be greater than zero");
            }
        }
        if period.int_or(0) > PERIOD_SECONDS_MAX {
            period.invalid(format!("must be less than or equal to {PERIOD_SECONDS_MAX}"));
        }
    }
    rules.field("tolerance").non_negative_amount();
}

/// The body of a scale subresource.
struct Scale;

impl Strategy for Scale {
    fn validate_create(&self, scale: &Object) -> Vec<FieldError> {
        let report = Report::new();
        report.field(scale, "spec").field("replicas").non_negative();
        report.finish()
    }
}
