//! Attached bindings record the bindings that need them, their clusters, and the settings of both.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::policy_index::tests::deployment;

fn dependent(name: &str, clusters: Value) -> Object {
    let value = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "a", "labels": {LABEL_BINDING_ID: format!("id-{name}")}},
        "spec": {"clusters": clusters}});
    Object::from_value(value).expect("a map")
}

fn secret(name: &str, labels: Value) -> Object {
    let value = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "a", "uid": "s1", "resourceVersion": "3", "labels": labels}});
    Object::from_value(value).expect("a map")
}

fn wishes(wishes: &[(&str, bool, bool)]) -> impl Fn(&BindingSnapshot) -> Option<Treatment> {
    let wishes: BTreeMap<String, Treatment> = wishes
        .iter()
        .map(|(name, overwrites, preserves)| {
            ((*name).to_owned(), Treatment { overwrites: *overwrites, preserves: *preserves })
        })
        .collect();
    move |snapshot| wishes.get(&snapshot.name).copied()
}

#[test]
fn a_dependency_gets_an_attached_binding() {
    let web = dependent("web-deployment", json!([{"name": "m1", "replicas": 2}]));
    let attached = attached_binding(&web, &secret("key", json!({})));
    let (attachment, conflicts) = plan_attachment(attached, None, wishes(&[("web-deployment", true, false)]));
    let Attachment::Create(binding) = attachment else { panic!("{attachment:?}") };
    assert!(conflicts.is_empty());
    let label = dependent_label("a", "web-deployment");
    let expected = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": "key-secret", "namespace": "a", "labels": {label: "id-web-deployment"},
            "finalizers": ["karmada.io/binding-controller"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "key", "uid": "s1",
                "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "Secret", "namespace": "a", "name": "key", "uid": "s1",
                "resourceVersion": "3"},
            "requiredBy": [{"namespace": "a", "name": "web-deployment",
                "clusters": [{"name": "m1", "replicas": 2}]}],
            "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": false,
        },
    });
    assert_eq!(binding.to_value(), expected);
}

#[test]
fn several_dependents_of_one_object_are_recorded_once_each() {
    let key = secret("key", json!({}));
    let web = dependent("web", json!([{"name": "m1"}]));
    let db = dependent("db", json!([{"name": "m2"}]));
    let none = || wishes(&[("web", false, false), ("db", true, true)]);
    let (first, _) = plan_attachment(attached_binding(&web, &key), None, none());
    let Attachment::Create(first) = first else { panic!("{first:?}") };
    let (second, conflicts) = plan_attachment(attached_binding(&db, &key), Some(&first), none());
    let Attachment::Update(second) = second else { panic!("{second:?}") };
    assert_eq!(conflicts, [TreatmentConflict::ConflictResolution, TreatmentConflict::PreserveOnDeletion]);
    assert_eq!(treatment(&second), Treatment { overwrites: true, preserves: true });
    let (again, _) = plan_attachment(attached_binding(&db, &key), Some(&second), none());
    assert_eq!(again, Attachment::Unchanged);

    let moved = dependent("web", json!([{"name": "m3"}]));
    let (third, _) = plan_attachment(attached_binding(&moved, &key), Some(&second), none());
    let Attachment::Update(third) = third else { panic!("{third:?}") };
    let snapshots = json!([{"namespace": "a", "name": "web", "clusters": [{"name": "m3"}]},
        {"namespace": "a", "name": "db", "clusters": [{"name": "m2"}]}]);
    assert_eq!(third.get(&["spec", "requiredBy"]), Some(&snapshots));

    let without_db = detached(&third, "a", "db", none());
    assert_eq!(without_db.get(&["spec", "requiredBy"]), Some(&json!([snapshots[0]])));
    assert_eq!(without_db.label(&dependent_label("a", "db")), None);
    assert_eq!(without_db.label(&dependent_label("a", "web")), Some("id-web"));
    assert_eq!(treatment(&without_db), Treatment::default());
    let bare = detached(&without_db, "a", "web", none());
    for field in ["requiredBy", "conflictResolution", "preserveResourcesOnDeletion"] {
        assert_eq!(bare.get(&["spec", field]), None, "{field}");
    }
    assert_eq!(bare.get(&["metadata", "labels"]), None);
}

#[test]
fn an_attached_binding_follows_its_own_policy() {
    let key = secret("key", json!({}));
    let mut claimed = attached_binding(&dependent("web", json!([])), &key);
    claimed.set(&["spec", "placement"], json!({}));
    claimed.set(&["spec", "conflictResolution"], "Abort");
    let all = || wishes(&[("web", true, true), ("db", true, true)]);
    let (attachment, conflicts) =
        plan_attachment(attached_binding(&dependent("db", json!([])), &key), Some(&claimed), all());
    let Attachment::Update(updated) = attachment else { panic!("{attachment:?}") };
    assert!(conflicts.is_empty());
    assert_eq!(treatment(&updated), Treatment::default());
    assert_eq!(updated.items(&["spec", "requiredBy"]).len(), 2);
    let alone = detached(&detached(&updated, "a", "db", all()), "a", "web", all());
    assert_eq!(alone.str_at(&["spec", "conflictResolution"]), "Abort");
}

#[test]
fn a_binding_of_an_earlier_object_must_be_deleted_first() {
    let web = dependent("web", json!([]));
    let mut earlier = secret("key", json!({}));
    earlier.set(&["metadata", "uid"], "s0");
    let existing = attached_binding(&web, &earlier);
    let (attachment, _) =
        plan_attachment(attached_binding(&web, &secret("key", json!({}))), Some(&existing), wishes(&[]));
    assert_eq!(attachment, Attachment::WaitForCollection);
}

#[track_caller]
fn check_reference(reference: Value, object: &Object, expected: bool) {
    let mut full = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "a"});
    json_patch::merge(&mut full, &reference);
    let parsed: DependentObjectReference = serde_json::from_value(full).expect("a reference");
    let target: ObjectReference = serde_json::from_value(resource_reference(object)).expect("a reference");
    assert_eq!(refers_to(&parsed, &target, Some(object)), expected, "{reference}");
    assert!(!refers_to(&parsed, &target, None) || !parsed.name.is_empty(), "labels mean objects that exist");
}

#[test]
fn references_select_by_name_or_by_labels() {
    let key = secret("key", json!({"app": "web"}));
    check_reference(json!({"name": "key"}), &key, true);
    check_reference(json!({"name": "other"}), &key, false);
    check_reference(json!({"name": "key", "namespace": "b"}), &key, false);
    check_reference(json!({"name": "key", "kind": "ConfigMap"}), &key, false);
    check_reference(json!({"name": "key", "apiVersion": "v2"}), &key, false);
    check_reference(json!({"labelSelector": {"matchLabels": {"app": "web"}}}), &key, true);
    check_reference(json!({"labelSelector": {"matchLabels": {"app": "db"}}}), &key, false);
    check_reference(json!({"name": "other", "labelSelector": {"matchLabels": {"app": "web"}}}), &key, false);
    check_reference(json!({}), &key, false);
    check_reference(json!({"name": "web"}), &deployment("a", "web", json!({})), false);
}

#[test]
fn dependencies_are_recorded_in_a_form_karmada_reads() {
    let reference = DependentObjectReference {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: "a".into(),
        name: "key".into(),
        label_selector: None,
    };
    let text = dependencies_text(std::slice::from_ref(&reference));
    assert_eq!(text, r#"[{"apiVersion":"v1","kind":"Secret","namespace":"a","name":"key"}]"#);
    let mut binding = dependent("web", json!([]));
    assert_eq!(recorded_dependencies(&binding).expect("none"), []);
    for (text, expected) in [(text.as_str(), vec![reference]), ("null", vec![]), ("[]", vec![])] {
        binding.set_annotation(ANNOTATION_DEPENDENCIES, text);
        assert_eq!(recorded_dependencies(&binding).expect("readable"), expected, "{text}");
    }
    binding.set_annotation(ANNOTATION_DEPENDENCIES, "{");
    assert!(recorded_dependencies(&binding).is_err());
}
