//! Choices are reported with their reasons.

use serde_json::{Value, json};

use super::*;
use crate::policy_index::tests::{by_kind, by_label, by_name, deployment, policy};

fn describe(choice: &Choice) -> Vec<String> {
    choice.candidates.iter().map(|candidate| format!("{}: {}", candidate.policy.name, candidate.verdict)).collect()
}

#[test]
fn every_rejected_policy_has_a_reason() {
    let template = deployment("a", "web", json!({"app": "web"}));
    let index = PolicyIndex::new([
        policy("a", "winner", Some(1), by_name()),
        policy("a", "z-same", Some(1), by_name()),
        policy("a", "label", Some(1), by_label()),
        policy("a", "low", None, by_name()),
        policy("", "cluster", Some(9), by_name()),
        policy("b", "elsewhere", Some(9), by_name()),
    ]);
    let choice = explain_choice(&index, &template);
    let expected = [
        "winner: chosen",
        "z-same: its name comes later",
        "label: it selects less specifically",
        "low: its priority is lower",
        "cluster: a PropagationPolicy goes before any ClusterPropagationPolicy",
    ];
    assert_eq!(describe(&choice), expected);
    assert!(choice.nearest.is_empty(), "a template with a policy needs no advice");
}

#[track_caller]
fn check(policies: Vec<Policy>, expected: &[&str]) {
    let template = deployment("a", "web", json!({"app": "web"}));
    let choice = explain_choice(&PolicyIndex::new(policies), &template);
    assert!(choice.chosen.is_none());
    let nearest: Vec<String> = choice.nearest.iter().map(ToString::to_string).collect();
    assert_eq!(nearest, expected);
}

fn selecting(selector: Value) -> Value {
    let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    json_patch::merge(&mut full, &selector);
    json!([full])
}

#[test]
fn without_a_policy_the_closest_candidates_are_reported() {
    let labels = |labels: Value| selecting(json!({"labelSelector": {"matchLabels": labels}}));
    check(
        vec![
            policy("a", "typo", None, selecting(json!({"name": "wep"}))),
            policy("a", "label", None, labels(json!({"app": "wep"}))),
            policy("a", "missing", None, labels(json!({"tier": "front"}))),
            policy("b", "elsewhere", None, by_name()),
            policy("", "version", None, selecting(json!({"apiVersion": "apps/v1beta1"}))),
            policy("", "kind", None, selecting(json!({"kind": "StatefulSet"}))),
        ],
        &[
            "PropagationPolicy a/label (selector 0): labels do not meet app=wep: the value is \"web\"",
            "PropagationPolicy a/missing (selector 0): labels do not meet tier=front: there is no such label",
            "ClusterPropagationPolicy version (selector 0): apiVersion is apps/v1, not apps/v1beta1",
            "PropagationPolicy b/elsewhere (selector 0): the policy is of namespace b, the object of a",
            "PropagationPolicy a/typo (selector 0): name is web, not wep",
        ],
    );
    check(vec![policy("", "kind", None, selecting(json!({"kind": "StatefulSet"})))], &[]);
}

#[test]
fn the_closest_selector_of_a_policy_is_reported() {
    let selectors = json!([
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "b"},
    ]);
    check(
        vec![policy("", "two", None, selectors)],
        &["ClusterPropagationPolicy two (selector 1): namespace is a, not b"],
    );
}

#[test]
fn a_policy_being_deleted_is_reported_and_not_chosen() {
    let mut deleting = Object::clone(&policy("a", "p", None, by_kind()).object);
    deleting.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    let index = PolicyIndex::new([Policy::read(Arc::new(deleting)).expect("readable")]);
    let choice = explain_choice(&index, &deployment("a", "web", json!({})));
    assert!(choice.chosen.is_none());
    assert_eq!(describe(&choice), ["p: it is being deleted"]);
}
