//! Pods, and binding them to nodes.

use object::{FieldError, Object, time};
use serde_json::{Map, Value, json};

use super::pod_status;
use crate::strategies::defaults::{map_or_new, maps_in, set_absent};
use crate::strategies::fields::{Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::annotations::APP_ARMOR;
use crate::strategies::pod_spec::{self, defaults, qos, update, warnings};
use crate::strategy::{Strategy, WriteContext};

pub struct Pod;

impl Strategy for Pod {
    fn default(&self, object: &mut Object) {
        if let Some(spec) = map_or_new(object.as_map_mut(), "spec") {
            defaults::default_spec(spec);
            defaults::default_pod_only(spec);
        }
    }

    fn prepare_create(&self, object: &mut Object, ctx: &WriteContext) {
        let class = object.get(&["spec"]).map_or("BestEffort", qos::class_of);
        let mut status =
            Map::from_iter([("phase".to_owned(), Value::from("Pending")), ("qosClass".to_owned(), Value::from(class))]);
        if !object.items(&["spec", "schedulingGates"]).is_empty() {
            status.insert("conditions".to_owned(), json!([gated_condition(ctx)]));
        }
        object.set(&["status"], status);
        merge_label_keys(object);
        adopt_app_armor_annotations(object);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        let (meta, spec) = (report.field(object, "metadata"), report.field(object, "spec"));
        pod_spec::validate_pod(meta, spec);
        pod_spec::validate_pod_create(meta, spec);
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        pod_spec::validate_pod(report.field(new, "metadata"), report.field(new, "spec"));
        update::validate(&report, new, old);
        report.finish()
    }

    fn prepare_status(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        if new.str_at(&["status", "qosClass"]).is_empty()
            && let Some(class) = old.get(&["status", "qosClass"])
        {
            new.set(&["status", "qosClass"], class.clone());
        }
        pod_status::keep_observed_generations(new, old);
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        update::validate_annotations(&report, new, old);
        pod_status::validate(&report, new, old);
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut out: Vec<String> = warnings::hostname_warning(new.name(), "the Pod's hostname").into_iter().collect();
        out.extend(warnings::of_pod(new));
        out.extend(app_armor_warnings(new));
        out
    }

    fn counts_generation(&self) -> bool {
        true
    }

    /// The client's value or that of the spec; a pod that is not running is deleted at once.
    fn grace_period_seconds(&self, object: &Object, requested: Option<i64>) -> Option<i64> {
        let period = requested.or(object.i64_at(&["spec", "terminationGracePeriodSeconds"])).unwrap_or(0);
        let never_ran = object.str_at(&["spec", "nodeName"]).is_empty();
        let is_done = matches!(object.str_at(&["status", "phase"]), "Failed" | "Succeeded");
        Some(match period {
            _ if never_ran || is_done => 0,
            period if period < 0 => 1,
            period => period,
        })
    }
}

fn gated_condition(ctx: &WriteContext) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null,
        "lastTransitionTime": time::format_seconds(ctx.now),
    })
}

/// AppArmor profiles were annotations; a container without the field gets it from there.
fn adopt_app_armor_annotations(object: &mut Object) {
    let profiles: Vec<(String, Value)> = object
        .annotations()
        .filter_map(|(key, value)| Some((key.strip_prefix(APP_ARMOR)?.to_owned(), app_armor_profile(value)?)))
        .collect();
    if profiles.is_empty() || object.str_at(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let pod_profile = object.get(&["spec", "securityContext", "appArmorProfile"]).cloned().unwrap_or_default();
    let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in maps_in(spec, list) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some((_, profile)) = profiles.iter().find(|(n, p)| n == name && *p != pod_profile) else { continue };
            if let Some(context) = map_or_new(container, "securityContext") {
                set_absent(context, "appArmorProfile", profile.clone());
            }
        }
    }
}

/// A container now has the profile of its annotation, which shows that the annotation was used.
fn app_armor_warnings(pod: &Object) -> Vec<String> {
    let pod_profile = pod.get(&["spec", "securityContext", "appArmorProfile"]);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = || lists.iter().flat_map(|list| pod.items(&["spec", list]));
    let mut out = Vec::new();
    for (key, value) in pod.annotations() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let Some(container) = containers().find(|c| c["name"].as_str() == Some(name)) else { continue };
        let profile = app_armor_profile(value);
        let worn = container["securityContext"].get("appArmorProfile");
        let used = match &profile {
            None => worn.is_none(),
            Some(profile) => worn == Some(profile) && pod_profile != Some(profile),
        };
        if used {
            out.push(format!(
                "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            ));
        }
    }
    out
}

fn app_armor_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        "unconfined" => Some(json!({"type": "Unconfined"})),
        other => {
            let name = other.strip_prefix("localhost/").filter(|n| !n.is_empty() && n.trim() == *n)?;
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

/// Turns `matchLabelKeys` into requirements on this pod's own label values.
fn merge_label_keys(object: &mut Object) {
    let has_keys =
        object.get(&["spec", "affinity"]).is_some() || !object.items(&["spec", "topologySpreadConstraints"]).is_empty();
    if !has_keys {
        return;
    }
    let labels = object.get(&["metadata", "labels"]).cloned().unwrap_or_default();
    let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|a| a.get_mut(kind)) else { continue };
        for list in
            ["preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution"]
        {
            for term in affinity.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let term = match list.starts_with("preferred") {
                    true => term.get_mut("podAffinityTerm"),
                    false => Some(term),
                };
                if let Some(term) = term {
                    merge_into_selector(term, "matchLabelKeys", "In", &labels);
                    merge_into_selector(term, "mismatchLabelKeys", "NotIn", &labels);
                }
            }
        }
    }
    for constraint in spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten() {
        merge_into_selector(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn merge_into_selector(term: &mut Value, keys: &str, operator: &str, labels: &Value) {
    let wanted: Vec<Value> = term[keys]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|key| {
            let value = labels.get(key.as_str()?)?;
            Some(json!({"key": key, "operator": operator, "values": [value]}))
        })
        .collect();
    if wanted.is_empty() {
        return;
    }
    if let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) {
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(list) = expressions.as_array_mut() {
            list.extend(wanted);
        }
    }
}

// ---- subresources ----

/// Prepares an object written to `ephemeralcontainers`: everything else is kept from the stored pod.
pub fn prepare_ephemeral_containers(new: &mut Object, old: &Object) {
    update::prepare_ephemeral_containers(new, old);
}

pub fn validate_ephemeral_containers(new: &Object, old: &Object) -> Vec<FieldError> {
    if let Some(refused) = update::refuse_mirror(old, "static pods do not support ephemeral containers") {
        return refused;
    }
    let report = Report::new();
    pod_spec::validate_pod(report.field(new, "metadata"), report.field(new, "spec"));
    update::validate_annotations(&report, new, old);
    update::validate_ephemeral_containers(&report, new, old);
    report.finish()
}

/// Prepares an object written to `resize`: everything except resources and resize policies is kept.
pub fn prepare_resize(new: &mut Object, old: &Object) {
    update::prepare_resize(new, old);
}

pub fn validate_resize(new: &Object, old: &Object) -> Vec<FieldError> {
    if let Some(refused) = update::refuse_mirror(old, "static pods cannot be resized") {
        return refused;
    }
    if old.str_at(&["spec", "os", "name"]) == "windows" {
        return vec![FieldError::forbidden(object::FieldPath::new("[]"), "windows pods cannot be resized")];
    }
    let report = Report::new();
    pod_spec::validate_pod(report.field(new, "metadata"), report.field(new, "spec"));
    update::validate_resize(&report, new, old);
    report.finish()
}

/// Reports whether the desired state changed, which increments the generation on the two subresources above.
pub fn spec_changed(new: &Object, old: &Object) -> bool {
    !same(new.get(&["spec"]), old.get(&["spec"]))
}

/// Binds a pod to a node; never stored.
pub struct Binding;

impl Strategy for Binding {
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        update::validate_binding(&report, object);
        report.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_pod_has_a_grace_period() {
        let pod = |node: &str, phase: &str| {
            Object::from_value(json!({
                "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
                "status": {"phase": phase},
            }))
            .expect("a map")
        };
        let cases = [
            (pod("n", "Running"), None, 30),
            (pod("n", "Running"), Some(5), 5),
            (pod("n", "Running"), Some(0), 0),
            (pod("n", "Running"), Some(-1), 1),
            (pod("", "Pending"), None, 0),
            (pod("n", "Succeeded"), Some(60), 0),
            (pod("n", "Failed"), None, 0),
        ];
        for (pod, requested, expected) in cases {
            assert_eq!(Pod.grace_period_seconds(&pod, requested), Some(expected), "{requested:?}");
        }
    }

    #[test]
    fn a_binding_needs_a_node() {
        let refused = |target: Value| {
            let binding = Object::from_value(json!({"target": target})).expect("a map");
            Binding.validate_create(&binding).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(refused(json!({"kind": "Node", "name": "n"})), Vec::<String>::new());
        assert_eq!(
            refused(json!({"kind": "X"})),
            [
                "target.kind: Unsupported value: \"X\": supported values: \"Node\", \"<empty>\"",
                "target.name: Required value"
            ]
        );
    }
}
