//! Retains fields of an object in a member when its manifest is applied again, and detects differences.

use std::collections::BTreeSet;

use api::cluster::LABEL_MANAGED;
use api::policy::{
    ANNOTATION_CLUSTER_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAMESPACE,
    LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID,
};
use api::work::{
    ANNOTATION_BINDING_NAME, ANNOTATION_BINDING_NAMESPACE, ANNOTATION_CONFLICT_RESOLUTION,
    ANNOTATION_MANAGED_ANNOTATIONS, ANNOTATION_MANAGED_LABELS, ANNOTATION_TEMPLATE_GENERATION, ANNOTATION_TEMPLATE_UID,
    ANNOTATION_WORK_NAME, ANNOTATION_WORK_NAMESPACE, LABEL_BINDING_ID, LABEL_WORK_ID,
};
use object::Object;
use serde_json::{Map, Value};

/// Marks that only mean something while the object is managed from here.
const MANAGED_LABELS: [&str; 3] = [LABEL_BINDING_ID, LABEL_WORK_ID, LABEL_MANAGED];
const MANAGED_ANNOTATIONS: [&str; 8] = [
    ANNOTATION_MANAGED_ANNOTATIONS,
    ANNOTATION_MANAGED_LABELS,
    ANNOTATION_BINDING_NAMESPACE,
    ANNOTATION_BINDING_NAME,
    ANNOTATION_TEMPLATE_UID,
    ANNOTATION_TEMPLATE_GENERATION,
    ANNOTATION_WORK_NAME,
    ANNOTATION_WORK_NAMESPACE,
];

/// Was the object put into the member from a control plane?
pub fn is_managed(observed: &Object) -> bool {
    observed.label(LABEL_MANAGED) == Some("true")
}

/// May an object that is there already be taken over?
pub fn may_update(desired: &Object, observed: &Object) -> bool {
    is_managed(observed) || desired.annotation(ANNOTATION_CONFLICT_RESOLUTION) == Some("overwrite")
}

/// Is the object of another work, so that this one has no business with it?
pub fn belongs_to_another(observed: &Object, work: &Object) -> bool {
    let differs = |key: &str, own: &str| observed.annotation(key).is_some_and(|value| value != own);
    differs(ANNOTATION_WORK_NAMESPACE, work.namespace()) || differs(ANNOTATION_WORK_NAME, work.name())
}

/// Keeps in a manifest what the member added: version, finalizers, owners, and labels and annotations that did not come
/// from an earlier manifest.
pub fn retain_metadata(desired: &mut Object, observed: &Object) {
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        match observed.get(&["metadata", field]) {
            Some(value) => desired.set(&["metadata", field], value.clone()),
            None => drop(desired.remove(&["metadata", field])),
        }
    }
    retain_entries(desired, observed, "annotations", ANNOTATION_MANAGED_ANNOTATIONS);
    retain_entries(desired, observed, "labels", ANNOTATION_MANAGED_LABELS);
}

fn retain_entries(desired: &mut Object, observed: &Object, field: &str, managed_list: &str) {
    let Some(entries) = observed.get(&["metadata", field]).and_then(Value::as_object) else { return };
    let managed: BTreeSet<&str> = observed.annotation(managed_list).unwrap_or_default().split(',').collect();
    let own = desired.get(&["metadata", field]).and_then(Value::as_object);
    let is_kept = |key: &str| !managed.contains(key) && own.is_none_or(|own| !own.contains_key(key));
    let kept: Vec<(&String, &Value)> = entries.iter().filter(|(key, _)| is_kept(key)).collect();
    for (key, value) in kept {
        desired.set(&["metadata", field, key], value.clone());
    }
}

/// Would writing `desired`, which has been through `retain_metadata` and the interpreter, change anything?
pub fn is_same(desired: &Object, observed: &Object) -> bool {
    if !has_same_marks(desired, observed) {
        return false;
    }
    if has_same_body(desired, observed) {
        return true;
    }
    // Fields set by the member's API server that no rule retains are left out of the comparison.
    let mut pruned = Object::clone(observed);
    propagation::works::prune(&mut pruned);
    has_same_body(desired, &pruned)
}

fn has_same_body(one: &Object, other: &Object) -> bool {
    let body = |object: &Object| -> usize { object.as_map().keys().filter(|key| is_body(key)).count() };
    let is_in_other = |(key, value): (&String, &Value)| other.as_map().get(key) == Some(value);
    body(one) == body(other) && one.as_map().iter().filter(|(key, _)| is_body(key)).all(is_in_other)
}

fn is_body(key: &str) -> bool {
    !matches!(key, "metadata" | "status")
}

fn has_same_marks(desired: &Object, observed: &Object) -> bool {
    let empty = Map::new();
    let entries = |object: &Object, field: &str| -> Map<String, Value> {
        object.get(&["metadata", field]).and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    ["labels", "annotations"].iter().all(|field| entries(desired, field) == entries(observed, field))
}

/// The manifest of an object that is let go: all that ties it to the control plane is taken off.
pub fn release(manifest: &mut Object) {
    let (claim_label, claim_annotations): (&str, &[&str]) = match manifest.namespace() {
        "" => (LABEL_CLUSTER_PROPAGATION_ID, &[ANNOTATION_CLUSTER_PROPAGATION_NAME]),
        _ => (LABEL_PROPAGATION_ID, &[ANNOTATION_PROPAGATION_NAMESPACE, ANNOTATION_PROPAGATION_NAME]),
    };
    for label in MANAGED_LABELS.iter().chain([&claim_label]) {
        manifest.remove(&["metadata", "labels", label]);
    }
    for annotation in MANAGED_ANNOTATIONS.iter().chain(claim_annotations) {
        manifest.remove(&["metadata", "annotations", annotation]);
    }
}

/// `retain_metadata` for a released manifest: what ties the object is not kept even where no list names it.
pub fn retain_released_metadata(desired: &mut Object, observed: &Object) {
    retain_metadata(desired, observed);
    release(desired);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[track_caller]
    fn check_retained(desired: Value, observed: Value, expected: Value) {
        let mut desired = object(json!({"metadata": desired}));
        retain_metadata(&mut desired, &object(json!({"metadata": observed})));
        assert_eq!(desired.to_value()["metadata"], expected);
    }

    #[test]
    fn fields_of_the_member_are_kept_and_fields_removed_from_the_template_are_deleted() {
        check_retained(
            json!({"finalizers": ["x"], "resourceVersion": "1"}),
            json!({"resourceVersion": "7", "finalizers": ["f"], "ownerReferences": [{"name": "o"}]}),
            json!({"resourceVersion": "7", "finalizers": ["f"], "ownerReferences": [{"name": "o"}]}),
        );
        check_retained(json!({"finalizers": ["x"]}), json!({}), json!({}));
        check_retained(
            json!({"labels": {"a": "new"}}),
            json!({"labels": {"a": "old", "gone": "1", "added": "2"},
                "annotations": {ANNOTATION_MANAGED_LABELS: "a,gone"}}),
            json!({"labels": {"a": "new", "added": "2"}, "annotations": {ANNOTATION_MANAGED_LABELS: "a,gone"}}),
        );
        check_retained(
            json!({"annotations": {ANNOTATION_MANAGED_ANNOTATIONS: "a", "a": "1"}}),
            json!({"annotations": {ANNOTATION_MANAGED_ANNOTATIONS: "a,b", "a": "0", "b": "2", "c": "3"}}),
            json!({"annotations": {ANNOTATION_MANAGED_ANNOTATIONS: "a", "a": "1", "c": "3"}}),
        );
    }

    #[track_caller]
    fn check_same(desired: Value, observed: Value, expected: bool) {
        let (mut desired, observed) = (object(desired), object(observed));
        retain_metadata(&mut desired, &observed);
        assert_eq!(is_same(&desired, &observed), expected, "{desired:?} and {observed:?}");
    }

    #[test]
    fn only_fields_a_write_would_change_are_differences() {
        let spec = json!({"replicas": 1});
        let observed = json!({"kind": "Deployment", "metadata": {"name": "a", "uid": "u", "resourceVersion": "5",
            "generation": 2, "labels": {"x": "y"}, "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": spec, "status": {"ready": 1}});
        let desired = |labels: Value, spec: Value| json!({"kind": "Deployment", "metadata": {"name": "a", "labels": labels}, "spec": spec});
        check_same(desired(json!({"x": "y"}), spec.clone()), observed.clone(), true);
        check_same(desired(json!({}), spec.clone()), observed.clone(), true);
        check_same(desired(json!({"x": "z"}), spec), observed.clone(), false);
        check_same(desired(json!({}), json!({"replicas": 2})), observed.clone(), false);
        let mut with_more = observed;
        with_more["data"] = json!({"a": "b"});
        check_same(desired(json!({}), json!({"replicas": 1})), with_more, false);
        // An address the member gave is no difference.
        check_same(
            json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "ClusterIP"}}),
            json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1",
                "clusterIPs": ["10.0.0.1"]}}),
            true,
        );
    }

    #[test]
    fn a_released_object_keeps_only_its_own_labels() {
        let manifest = json!({"metadata": {"namespace": "d", "labels": {LABEL_MANAGED: "true", LABEL_WORK_ID: "w",
            LABEL_BINDING_ID: "b", LABEL_PROPAGATION_ID: "p", LABEL_CLUSTER_PROPAGATION_ID: "c", "app": "x"},
            "annotations": {ANNOTATION_WORK_NAME: "w", ANNOTATION_WORK_NAMESPACE: "n", ANNOTATION_TEMPLATE_UID: "u",
            ANNOTATION_PROPAGATION_NAME: "p", ANNOTATION_CONFLICT_RESOLUTION: "abort", "own": "y"}}});
        let observed = object(manifest.clone());
        let mut desired = object(manifest);
        release(&mut desired);
        retain_released_metadata(&mut desired, &observed);
        assert_eq!(
            desired.to_value()["metadata"],
            json!({"namespace": "d", "labels": {LABEL_CLUSTER_PROPAGATION_ID: "c", "app": "x"},
                "annotations": {ANNOTATION_CONFLICT_RESOLUTION: "abort", "own": "y"}})
        );
        assert!(!is_managed(&desired));
    }

    #[test]
    fn existing_objects_are_taken_over_only_if_managed_or_allowed() {
        let managed = object(json!({"metadata": {"labels": {LABEL_MANAGED: "true"}}}));
        let foreign = object(json!({"metadata": {"labels": {LABEL_MANAGED: "false"}}}));
        let desired = |how: &str| object(json!({"metadata": {"annotations": {ANNOTATION_CONFLICT_RESOLUTION: how}}}));
        for (how, observed, expected) in [
            ("abort", &managed, true),
            ("abort", &foreign, false),
            ("", &foreign, false),
            ("overwrite", &foreign, true),
        ] {
            assert_eq!(may_update(&desired(how), observed), expected, "{how} {observed:?}");
        }
    }
}
