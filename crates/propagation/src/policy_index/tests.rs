//! Policies are found by index exactly as by looking at every one of them.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

pub fn policy(namespace: &str, name: &str, priority: Option<i32>, selectors: Value) -> Policy {
    let kind = if namespace.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
    let label = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced }.id_label();
    let mut value = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "labels": {label: format!("id-{namespace}-{name}")}},
        "spec": {"resourceSelectors": selectors}});
    if !namespace.is_empty() {
        value["metadata"]["namespace"] = namespace.into();
    }
    if let Some(priority) = priority {
        value["spec"]["priority"] = priority.into();
    }
    Policy::read(Arc::new(Object::from_value(value).expect("a map"))).expect("readable")
}

pub fn deployment(namespace: &str, name: &str, labels: Value) -> Object {
    let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "uid": "u1", "resourceVersion": "7", "labels": labels}});
    if !namespace.is_empty() {
        value["metadata"]["namespace"] = namespace.into();
    }
    Object::from_value(value).expect("a map")
}

pub fn by_name() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}])
}

pub fn by_label() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}}])
}

pub fn by_kind() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "Deployment"}])
}

#[track_caller]
fn check(policies: Vec<Policy>, expected: &str) {
    let template = deployment("a", "web", json!({"app": "web"}));
    let names: Vec<String> = policies.iter().map(|policy| policy.key.to_string()).collect();
    let index = PolicyIndex::new(policies);
    let best = index.best(&template).map_or("none", |policy| policy.key.name.as_str());
    assert_eq!(best, expected, "among {names:?}");
}

/// The table of `getHighestPriorityPropagationPolicy` (Karmada 1.18, pkg/detector/compare.go).
#[test]
fn policies_are_ordered_by_priority_specificity_and_name() {
    let name = |name, priority| policy("a", name, priority, by_name());
    let label = |name, priority| policy("a", name, priority, by_label());
    let kind = |name, priority| policy("a", name, priority, by_kind());
    check(vec![name("named", None), label("labeled", Some(0)), kind("all", Some(0))], "named");
    check(vec![name("a-pp", Some(0)), name("b-pp", Some(1))], "b-pp");
    check(vec![name("a", Some(1)), label("b", Some(2))], "b");
    check(vec![name("b", Some(1)), name("a", Some(1))], "a");
    check(vec![name("abc", Some(1)), name("ab", Some(1))], "ab");
    check(vec![name("a", Some(1)), label("b", Some(1))], "a");
    check(vec![name("a", Some(-1)), label("b", Some(0))], "b");
    check(vec![name("z", Some(-1)), label("b", Some(-2))], "z");
    check(vec![label("a", None), kind("b", Some(1))], "b");
}

#[test]
fn a_namespaced_policy_precedes_cluster_policies() {
    let weak = || policy("a", "pp", Some(-100), by_kind());
    let strong = || policy("", "cpp", Some(100), by_name());
    check(vec![weak(), strong()], "pp");
    check(vec![strong()], "cpp");
    check(vec![policy("b", "pp-of-b", Some(1), by_name())], "none");
    let cluster_wide = deployment("", "web", json!({}));
    let index = PolicyIndex::new([policy("", "cpp", None, by_kind())]);
    assert!(index.best(&cluster_wide).is_some(), "cluster-wide templates have cluster-wide policies");
}

#[test]
fn selectors_match_all_their_fields() {
    let one = |selector: Value| {
        let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        json_patch::merge(&mut full, &selector);
        vec![policy("", "p", None, json!([full]))]
    };
    check(one(json!({})), "p");
    check(one(json!({"kind": "StatefulSet"})), "none");
    check(one(json!({"apiVersion": "apps/v1beta1"})), "none");
    check(one(json!({"namespace": "a"})), "p");
    check(one(json!({"namespace": "b"})), "none");
    check(one(json!({"name": "other"})), "none");
    // If there is a name, labels are ignored.
    check(one(json!({"name": "web", "labelSelector": {"matchLabels": {"app": "other"}}})), "p");
    check(one(json!({"labelSelector": {}})), "p");
    check(one(json!({"labelSelector": {"matchLabels": {"app": "web", "tier": "x"}}})), "none");
    check(one(json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}})), "p");
    check(one(json!({"labelSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}})), "p");
    check(one(json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Bad"}]}})), "none");
}

#[test]
fn an_empty_label_selector_is_more_specific_than_none() {
    let empty = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {}}]);
    check(vec![policy("a", "a-all", None, by_kind()), policy("a", "b-empty", None, empty)], "b-empty");
}

#[test]
fn a_policy_counts_by_its_most_specific_selector() {
    let both = json!([by_kind()[0], by_name()[0]]);
    check(vec![policy("a", "a-label", None, by_label()), policy("a", "b-both", None, both)], "b-both");
}

#[test]
fn changed_or_deleted_policies_are_reindexed() {
    let template = deployment("a", "web", json!({"app": "web"}));
    let mut index = PolicyIndex::new([policy("a", "p", None, by_name())]);
    index.put(policy("a", "p", None, json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}])));
    assert!(index.best(&template).is_none());
    index.put(policy("a", "p", None, by_label()));
    assert!(index.best(&template).is_some());
    let mut deleting = Object::clone(&policy("a", "p", None, by_label()).object);
    deleting.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    index.put(Policy::read(Arc::new(deleting)).expect("readable"));
    assert!(index.best(&template).is_none());
    index.remove(&PolicyKey::new("a", "p"));
    assert!(index.is_empty() && index.by_namespace.is_empty(), "nothing is left behind");
}

#[test]
fn policies_are_found_by_the_overrides_they_depend_on() {
    let mut waiting = Object::clone(&policy("a", "p", None, by_name()).object);
    waiting.set(&["spec", "dependentOverrides"], json!(["o1", "o2"]));
    let mut index = PolicyIndex::new([Policy::read(Arc::new(waiting)).expect("readable")]);
    assert_eq!(index.needing_override("a", "o2"), [PolicyKey::new("a", "p")]);
    assert!(index.needing_override("", "o2").is_empty() && index.needing_override("a", "o3").is_empty());
    index.put(policy("a", "p", None, by_name()));
    assert!(index.needing_override("a", "o2").is_empty());
}

fn any_selector() -> impl Strategy<Value = Value> {
    let labels = prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        ("[ab]", "[xy]").prop_map(|(key, value)| json!({"matchLabels": {key: value}})),
        ("[ab]", "[xy]").prop_map(|(key, value)| json!({"matchLabels": {"a": "x", key: value}})),
        "[ab]".prop_map(|key| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]})),
        "[ab]".prop_map(|key| json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": ["x"]}]})),
        "[ab]".prop_map(|key| json!({"matchLabels": {"a": "x"},
            "matchExpressions": [{"key": key, "operator": "DoesNotExist"}]})),
    ];
    let kind = prop_oneof![3 => Just("Deployment"), 1 => Just("StatefulSet")];
    let group = prop_oneof![4 => Just("apps/v1"), 1 => Just("apps/v2")];
    let namespace = prop_oneof![2 => Just(""), 1 => Just("n1"), 1 => Just("n2")];
    let name = prop_oneof![2 => Just(""), 1 => Just("web"), 1 => Just("db")];
    (group, kind, namespace, name, labels).prop_map(|(api_version, kind, namespace, name, labels)| {
        json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name,
            "labelSelector": labels})
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let namespace = prop_oneof![Just(""), Just("n1"), Just("n2")];
    let selectors = proptest::collection::vec(any_selector(), 1..4);
    (namespace, "[pq][12]", proptest::option::of(-1..2), selectors)
        .prop_map(|(namespace, name, priority, selectors)| policy(namespace, &name, priority, json!(selectors)))
}

fn any_template() -> impl Strategy<Value = Object> {
    let labels = proptest::collection::btree_map("[ab]", "[xy]", 0..3);
    (prop_oneof![Just(""), Just("n1"), Just("n2")], prop_oneof![Just("web"), Just("db")], labels)
        .prop_map(|(namespace, name, labels)| deployment(namespace, name, json!(labels)))
}

/// Searches as Karmada does: every policy of the namespace, then every cluster-wide one.
fn by_scan<'a>(index: &'a PolicyIndex, template: &Object) -> Option<&'a PolicyKey> {
    let best = |namespace: &str| {
        let of_scope = index.iter().filter(|policy| policy.key.namespace == namespace);
        let ranked = of_scope.filter_map(|policy| Some((Rank::of(policy, template)?, &policy.key)));
        ranked.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, key)| key)
    };
    let own = Some(template.namespace()).filter(|namespace| !namespace.is_empty());
    own.and_then(best).or_else(|| best(""))
}

proptest! {
    #[test]
    fn the_index_finds_what_a_scan_finds(
        policies in proptest::collection::vec(any_policy(), 0..12),
        removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        templates in proptest::collection::vec(any_template(), 1..6),
    ) {
        let keys: Vec<PolicyKey> = policies.iter().map(|policy| policy.key.clone()).collect();
        let mut index = PolicyIndex::new(policies);
        for choice in removed.iter().filter(|_| !keys.is_empty()) {
            index.remove(choice.get(&keys));
        }
        for template in &templates {
            let found = index.best(template).map(|policy| &policy.key);
            prop_assert_eq!(found, by_scan(&index, template), "for {:?}", template);
            let choice = crate::policy_choice::explain_choice(&index, template);
            prop_assert_eq!(choice.chosen.as_ref().map(|policy| &policy.key), found);
        }
    }
}
