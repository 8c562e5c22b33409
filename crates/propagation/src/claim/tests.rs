//! Claims are made, kept, taken and given up as Karmada does.

use serde_json::json;

use super::*;
use crate::policy_index::tests::{by_kind, by_name, deployment, policy};
use crate::policy_preemption::{Preemption, may_preempt_now, preempts};

fn describe(decision: &Decision) -> String {
    match decision {
        Decision::TakenBy(by) => format!("taken by {by}"),
        Decision::Apply(policy) => format!("apply {}", policy.key),
        Decision::HolderGone(claim) => format!("gone {}", claim.policy),
        Decision::HolderDeleting(policy) => format!("deleting {}", policy.key),
        Decision::HolderSelectsOther(policy) => format!("selects other {}", policy.key),
        Decision::Unmatched => "unmatched".to_owned(),
    }
}

#[track_caller]
fn check(policies: Vec<Policy>, template: &Object, expected: &str) {
    assert_eq!(describe(&decide(&PolicyIndex::new(policies), template)), expected);
}

fn claimed_by(policy: &Policy) -> Object {
    let mut template = deployment("a", "web", json!({"app": "web"}));
    claim(&mut template, policy);
    template
}

fn deleting(policy: &Policy) -> Policy {
    let mut object = Object::clone(&policy.object);
    object.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    Policy::read(Arc::new(object)).expect("readable")
}

#[test]
fn a_claim_holds_while_its_policy_selects_the_template() {
    let low = || policy("a", "low", Some(0), by_name());
    let high = || policy("a", "high", Some(9), by_name());
    let cluster = || policy("", "cluster", None, by_name());
    let free = deployment("a", "web", json!({}));
    check(vec![low(), high()], &free, "apply PropagationPolicy a/high");
    check(vec![low(), high()], &claimed_by(&low()), "apply PropagationPolicy a/low");
    check(vec![cluster(), high()], &claimed_by(&cluster()), "apply ClusterPropagationPolicy cluster");
    check(vec![], &free, "unmatched");
    check(vec![high()], &claimed_by(&low()), "gone PropagationPolicy a/low");
    check(vec![deleting(&low()), high()], &claimed_by(&low()), "deleting PropagationPolicy a/low");
    let other = policy("a", "low", None, json!([{"apiVersion": "v1", "kind": "ConfigMap"}]));
    check(vec![other, high()], &claimed_by(&low()), "selects other PropagationPolicy a/low");
    let mut taken = claimed_by(&low());
    taken.set_label(LABEL_CLAIMED_BY, "MultiClusterService");
    check(vec![low()], &taken, "taken by MultiClusterService");
}

#[test]
fn an_incomplete_claim_is_ignored() {
    let holder = policy("a", "p", None, by_name());
    for part in ["labels", "annotations"] {
        let mut template = claimed_by(&holder);
        template.remove(&["metadata", part]);
        assert_eq!(Claim::of(&template), None, "without {part}");
    }
    let whole = Claim { policy: holder.key.clone(), id: "id-a-p".into() };
    assert_eq!(Claim::of(&claimed_by(&holder)), Some(whole));
}

#[test]
fn a_namespaced_claim_removes_the_claim_of_a_cluster_policy() {
    let (cluster, own) = (policy("", "c", None, by_kind()), policy("a", "p", None, by_kind()));
    let mut template = claimed_by(&cluster);
    assert!(!needs_claim(&template, &cluster) && needs_claim(&template, &own));
    claim(&mut template, &own);
    assert!(!needs_claim(&template, &own));
    assert_eq!(template.annotation(ANNOTATION_CLUSTER_PROPAGATION_NAME), None);
    assert_eq!(template.label(LABEL_CLUSTER_PROPAGATION_ID), None);
    assert_eq!(template.label("app"), Some("web"));
}

#[test]
fn releasing_a_claim_restores_the_template() {
    for holder in [policy("a", "p", None, by_kind()), policy("", "c", None, by_kind())] {
        let mut template = deployment("a", "web", json!({}));
        template.remove(&["metadata", "labels"]);
        let before = template.clone();
        claim(&mut template, &holder);
        assert!(is_claimed_by(&template, holder.scope(), &holder.id));
        assert!(!is_claimed_by(&template, holder.scope(), "another"));
        unclaim(&mut template, holder.scope());
        assert_eq!(template, before);
    }
}

#[track_caller]
fn check_preemption(policy: &Policy, holder: Option<&Policy>, expected: bool) {
    let claim = holder.map(|holder| Claim { policy: holder.key.clone(), id: holder.id.clone() });
    let verdict = preempts(policy, claim.as_ref(), |_| holder);
    assert_eq!(matches!(verdict, Preemption::Takes(_)), expected, "{} from {claim:?}: {verdict:?}", policy.key);
}

/// Karmada 1.18, pkg/detector/preemption.go.
#[test]
fn preemption_needs_higher_priority_or_a_namespaced_policy() {
    let pp = |name, priority| policy("a", name, Some(priority), by_name());
    let cpp = |name, priority| policy("", name, Some(priority), by_name());
    check_preemption(&pp("p", 2), Some(&pp("q", 1)), true);
    check_preemption(&pp("p", 1), Some(&pp("q", 1)), false);
    check_preemption(&pp("p", 0), Some(&pp("q", 1)), false);
    check_preemption(&pp("p", -9), Some(&cpp("q", 9)), true);
    check_preemption(&cpp("p", 2), Some(&cpp("q", 1)), true);
    check_preemption(&cpp("p", 1), Some(&cpp("q", 1)), false);
    check_preemption(&cpp("p", 9), Some(&pp("q", 0)), false);
    check_preemption(&pp("p", 9), Some(&pp("p", 0)), false);
    check_preemption(&pp("p", 9), None, false);
    let unknown = preempts(&pp("p", 9), Claim::holder(&claimed_by(&pp("q", 0))).as_ref(), |_| None);
    assert!(matches!(unknown, Preemption::Leaves(_)), "{unknown:?}");
}

#[test]
fn competing_policies_are_requeued_by_descending_priority() {
    let rival = |namespace: &str, name: &str, priority: i32, preemption: &str| {
        let mut object = Object::clone(&policy(namespace, name, Some(priority), by_name()).object);
        object.set(&["spec", "preemption"], preemption);
        Policy::read(Arc::new(object)).expect("readable")
    };
    let index = PolicyIndex::new([
        rival("a", "p", 2, "Always"),
        rival("a", "low", 3, "Always"),
        rival("a", "high", 4, "Always"),
        rival("a", "never", 4, "Never"),
        rival("a", "too-low", 2, "Always"),
        rival("a", "too-high", 5, "Always"),
        rival("b", "elsewhere", 4, "Always"),
        rival("", "cluster", 4, "Always"),
    ]);
    let woken = may_preempt_now(&index, &PolicyKey::new("a", "p"), 5, 2);
    assert_eq!(woken, [PolicyKey::new("a", "high"), PolicyKey::new("a", "low")]);
}
