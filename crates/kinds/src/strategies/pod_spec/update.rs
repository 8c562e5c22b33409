//! Mutable fields of a pod: images, deadlines, tolerations, gates, and little else.

use object::{FieldError, Object, names};
use serde_json::{Map, Value};

use super::super::fields::{Field, Report, same};
use super::super::{diff, internal};
use super::annotations::{APP_ARMOR, MIRROR};
use super::{images, scheduling};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Rules for a change of the pod itself.
pub fn validate<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    validate_annotations(report, new, old);
    let spec = report.field(new, "spec");
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.len() != old.items(&["spec", list]).len() {
            return containers.forbidden("pod updates may not add or remove containers");
        }
        for container in containers.items() {
            container.field("image").require();
            images::refuse_padding(container.field("image"));
        }
    }
    if !validate_deadline(spec.field("activeDeadlineSeconds"), old.i64_at(&["spec", "activeDeadlineSeconds"])) {
        return;
    }
    validate_tolerations(spec.field("tolerations"), old.items(&["spec", "tolerations"]));
    validate_gates(spec.field("schedulingGates"), old.items(&["spec", "schedulingGates"]));
    if !same(new.get(&["spec"]), old.get(&["spec"])) {
        validate_rest(spec, old);
    }
}

/// Annotations that only the creator of the pod may set.
pub fn validate_annotations<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let annotations = report.field(new, "metadata").field("annotations");
    for (key, value) in old.annotations() {
        if new.annotation(key) == Some(value) {
            continue;
        }
        let at = annotations.key(key);
        if key.starts_with(APP_ARMOR) {
            at.forbidden("may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            at.forbidden("may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.annotations().filter(|(key, _)| old.annotation(key).is_none()) {
        let at = annotations.key(key);
        if key.starts_with(APP_ARMOR) {
            at.forbidden("may not add AppArmor annotations");
        }
        if key == MIRROR {
            at.forbidden("may not add mirror pod annotation");
        }
    }
}

/// Returns false if later errors are not worth reporting.
fn validate_deadline(deadline: Field<'_>, old: Option<i64>) -> bool {
    match (deadline.int(), old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            deadline.invalid("must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(new), Some(old)) if old < new => {
            deadline.invalid("must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            deadline.invalid_as(Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn validate_tolerations(tolerations: Field<'_>, old: &[Value]) {
    let without_seconds = |value: &Value| {
        let mut map = value.as_object().cloned().unwrap_or_default();
        map.remove("tolerationSeconds");
        Value::Object(map)
    };
    let kept = old.iter().all(|old| {
        let old = without_seconds(old);
        tolerations.items().any(|new| new.value().is_some_and(|v| same(Some(&without_seconds(v)), Some(&old))))
    });
    if !kept {
        return tolerations.forbidden("existing toleration can not be modified except its tolerationSeconds");
    }
    scheduling::validate_tolerations(tolerations);
}

fn validate_gates(gates: Field<'_>, old: &[Value]) {
    for gate in gates.items() {
        let name = gate.field("name").text();
        if !old.iter().any(|o| o["name"].as_str() == Some(name)) {
            gate.field("name").forbidden(format!("only deletion is allowed, but found new scheduling gate '{name}'"));
        }
    }
}

/// Restores the mutable fields and compares the rest.
fn validate_rest(spec: Field<'_>, old: &Object) {
    let (Some(Value::Object(new_spec)), Some(old_spec)) = (spec.value(), old.get(&["spec"])) else { return };
    let mut munged = new_spec.clone();
    for list in ["containers", "initContainers"] {
        let stored = old.items(&["spec", list]);
        let containers = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, stored) in containers.zip(stored) {
            container["image"] = stored["image"].clone();
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut munged, old_spec, name);
    }
    let grace = |spec: &Map<String, Value>| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    let old_grace = old.i64_at(&["spec", "terminationGracePeriodSeconds"]);
    if old_grace.is_some_and(|g| g < 0) && grace(&munged) == Some(1) {
        restore(&mut munged, old_spec, "terminationGracePeriodSeconds");
    }
    if !old.items(&["spec", "schedulingGates"]).is_empty() {
        allow_while_gated(spec, &mut munged, old_spec);
    }
    let munged = Value::Object(munged);
    if !same(Some(&munged), Some(old_spec)) {
        spec.forbidden(format!(
            "pod updates may not change fields other than {UPDATABLE}\n{}",
            diff::unified(&internal::pretty("SPodSpec", Some(old_spec)), &internal::pretty("SPodSpec", Some(&munged)))
        ));
    }
}

fn restore(munged: &mut Map<String, Value>, old: &Value, name: &str) {
    match old.get(name) {
        Some(value) => munged.insert(name.to_owned(), value.clone()),
        None => munged.remove(name),
    };
}

/// The node constraints of a gated pod can still be narrowed.
fn allow_while_gated(spec: Field<'_>, munged: &mut Map<String, Value>, old: &Value) {
    let selector = spec.field("nodeSelector");
    if !same(selector.value(), old.get("nodeSelector")) {
        let kept = old.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
        if kept.into_iter().any(|(key, value)| selector.value().and_then(|s| s.get(key)) != Some(value)) {
            selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        }
        restore(munged, old, "nodeSelector");
    }
    let affinity = spec.field("affinity").field("nodeAffinity");
    let old_affinity = old.get("affinity").and_then(|a| a.get("nodeAffinity"));
    if same(affinity.value(), old_affinity) {
        return;
    }
    validate_narrowed(affinity, old_affinity);
    let mut restored = munged.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    match old_affinity {
        Some(value) => restored.insert("nodeAffinity".into(), value.clone()),
        None => restored.remove("nodeAffinity"),
    };
    munged.insert("affinity".into(), Value::Object(restored));
}

fn validate_narrowed(affinity: Field<'_>, old: Option<&Value>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let Some(old_terms) = old.and_then(|o| o.get(REQUIRED)?.get("nodeSelectorTerms")?.as_array()) else { return };
    let terms = affinity.field(REQUIRED).field("nodeSelectorTerms");
    if !old_terms.is_empty() && old_terms.len() != terms.len() {
        return terms.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    }
    for (term, old_term) in terms.items().zip(old_terms) {
        if !only_adds(term, old_term) {
            term.invalid("only additions are allowed (no mutations or deletions)");
        }
    }
}

fn only_adds(term: Field<'_>, old: &Value) -> bool {
    let list = |name: &str| old.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    if expressions.is_empty() && fields.is_empty() {
        return term.field("matchExpressions").is_empty() && term.field("matchFields").is_empty();
    }
    let starts_with = |name: &'static str, old: &[Value]| {
        let new: Vec<Field<'_>> = term.field(name).items().collect();
        new.len() >= old.len() && new.iter().zip(old).all(|(n, o)| same(n.value(), Some(o)))
    };
    starts_with("matchExpressions", expressions) && starts_with("matchFields", fields)
}

/// Rules for the `ephemeralcontainers` subresource: containers may be added, never changed.
pub fn validate_ephemeral_containers<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let containers = report.field(new, "spec").field("ephemeralContainers");
    for stored in old.items(&["spec", "ephemeralContainers"]) {
        let name = stored["name"].as_str().unwrap_or_default();
        let quoted = object::field::go_quote(name);
        match containers.items().find(|c| c.field("name").text() == name).and_then(Field::value) {
            None => containers.forbidden(format!("existing ephemeral containers {quoted} may not be removed\n")),
            Some(now) if !same(Some(now), Some(stored)) => containers.forbidden(format!(
                "existing ephemeral containers {quoted} may not be changed\n{}",
                diff::unified(
                    &internal::pretty("SEphemeralContainer", Some(stored)),
                    &internal::pretty("SEphemeralContainer", Some(now))
                )
            )),
            Some(_) => {}
        }
    }
}

/// Rules for the `resize` subresource: cpu and memory of containers, nothing else.
pub fn validate_resize<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let spec = report.field(new, "spec");
    let (Some(new_spec), Some(old_spec)) = (new.get(&["spec"]), old.get(&["spec"])) else { return };
    let stored_class = match old.str_at(&["status", "qosClass"]) {
        "" => super::qos::class_of(old_spec),
        class => class,
    };
    if stored_class != super::qos::class_of(new_spec) {
        spec.invalid_as(new.str_at(&["status", "qosClass"]), "Pod QOS Class may not change as a result of resizing");
    }
    let running = old.items(&["status", "containerStatuses"]).iter().find(|s| s["state"]["running"].is_object());
    if running.is_some_and(|s| !s["resources"].is_object()) {
        spec.forbidden("Pod running on node without support for resize");
    }
    let before = report.len();
    for list in ["containers", "initContainers"] {
        validate_same_order(spec.field(list), old.items(&["spec", list]), list);
    }
    if report.len() > before {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (container, stored) in spec.field(list).items().zip(old.items(&["spec", list])) {
            validate_resized(spec, container, stored, list == "initContainers");
        }
    }
    if report.is_empty() && !same(Some(&without_resources(new_spec)), Some(&without_resources(old_spec))) {
        spec.forbidden("only cpu and memory resources are mutable");
    }
}

fn validate_same_order(containers: Field<'_>, old: &[Value], list: &str) {
    if containers.len() != old.len() {
        return containers.forbidden(format!("{list} may not be added or removed on resize"));
    }
    for (container, stored) in containers.items().zip(old) {
        if Some(container.field("name").text()) != stored["name"].as_str() {
            container.field("name").forbidden(format!("{list} may not be renamed or reordered on resize"));
        }
    }
}

fn validate_resized<'a>(spec: Field<'a>, container: Field<'a>, stored: &Value, is_init: bool) {
    let resources = container.field("resources");
    for (list, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
        let names = stored["resources"][list].as_object().into_iter().flatten().map(|(name, _)| name);
        if names.into_iter().any(|name| resources.value().is_none_or(|r| r[list].get(name).is_none())) {
            resources.field(list).forbidden(format!("{what} cannot be removed"));
        }
    }
    let Some(now) = container.value() else { return };
    if !same(Some(&without_compute(now)), Some(&without_compute(stored))) {
        if is_init {
            container.forbidden("only cpu and memory resources for init or sidecar containers are mutable");
        } else {
            spec.forbidden("only cpu and memory resources are mutable");
        }
    }
}

fn without_compute(container: &Value) -> Value {
    let mut copy = container.clone();
    for list in ["requests", "limits"] {
        if let Some(amounts) = copy.get_mut("resources").and_then(|r| r.get_mut(list)).and_then(Value::as_object_mut) {
            amounts.remove("cpu");
            amounts.remove("memory");
        }
    }
    copy
}

fn without_resources(spec: &Value) -> Value {
    let mut copy = spec.clone();
    if let Some(map) = copy.as_object_mut() {
        for key in ["containers", "initContainers", "resources"] {
            map.remove(key);
        }
    }
    copy
}

/// Keeps everything of the stored pod except its ephemeral containers.
pub fn prepare_ephemeral_containers(new: &mut Object, old: &Object) {
    let wanted = new.remove(&["spec", "ephemeralContainers"]);
    keep_all(new, old);
    if let Some(wanted) = wanted {
        new.set(&["spec", "ephemeralContainers"], wanted);
    }
}

/// Keeps everything of the stored pod except the resources of its containers, unless the containers themselves
/// differ.
pub fn prepare_resize(new: &mut Object, old: &Object) {
    let names = |object: &Object, list: &str| -> Vec<String> {
        object.items(&["spec", list]).iter().map(|c| c["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let lists = ["containers", "initContainers"];
    if lists.iter().any(|list| names(new, list) != names(old, list)) {
        return;
    }
    let wanted: Vec<Option<Value>> = lists.iter().map(|list| new.remove(&["spec", list])).collect();
    let pod_level = new.remove(&["spec", "resources"]);
    keep_all(new, old);
    for (list, wanted) in lists.iter().zip(wanted) {
        let mut kept = old.items(&["spec", list]).to_vec();
        for (container, wanted) in kept.iter_mut().zip(wanted.iter().flat_map(|w| w.as_array()).flatten()) {
            for field in ["resources", "resizePolicy"] {
                match wanted.get(field) {
                    Some(value) => container[field] = value.clone(),
                    None => {
                        container.as_object_mut().map(|map| map.remove(field));
                    }
                }
            }
        }
        if !kept.is_empty() {
            new.set(&["spec", list], kept);
        }
    }
    match pod_level {
        Some(value) => new.set(&["spec", "resources"], value),
        None => {
            new.remove(&["spec", "resources"]);
        }
    }
}

fn keep_all(new: &mut Object, old: &Object) {
    for key in ["spec", "status"] {
        match old.get(&[key]) {
            Some(value) => new.set(&[key], value.clone()),
            None => {
                new.remove(&[key]);
            }
        }
    }
}

/// A pod must be bound to a valid node name.
pub fn validate_binding<'a>(report: &'a Report<'a>, binding: &'a Object) {
    let target = report.field(binding, "target");
    let kind = target.field("kind");
    if !matches!(kind.text(), "" | "Node") {
        kind.not_supported(&["Node", "<empty>"]);
    }
    target.field("name").require();
}

/// The rule for names of nodes a status refers to.
pub fn node_name_problems(name: &str) -> Vec<String> {
    names::dns1123_subdomain(name)
}

/// The error of every subresource of a mirror pod.
pub fn refuse_mirror(old: &Object, detail: &str) -> Option<Vec<FieldError>> {
    old.annotation(MIRROR).map(|_| vec![FieldError::forbidden(object::FieldPath::new("[]"), detail)])
}
