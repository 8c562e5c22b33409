//! Tests of the selection, the order and the record of override policies.

use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

/// A policy that appends its name to the label `seen`, by way of a template that carries it from the start.
fn policy(namespace: &str, name: &str, selectors: Value, rules: Value) -> OverridePolicy {
    let mut policy = object(json!({"metadata": {"name": name}, "spec": {"resourceSelectors": selectors}}));
    policy.set(&["spec", "overrideRules"], rules);
    if !namespace.is_empty() {
        policy.set_namespace(namespace);
    }
    OverridePolicy::read(&policy).expect("a policy")
}

fn sets(value: &str) -> Value {
    json!([{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"last": value, value: "seen"}}]}}])
}

fn template() -> Object {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "a", "labels": {"app": "x"}}}))
}

fn by(field: &str) -> Value {
    match field {
        "all" => json!([{"apiVersion": "v1", "kind": "ConfigMap"}]),
        "labels" => json!([{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "x"}}}]),
        "name" => json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}]),
        "none" => json!([]),
        _ => json!([{"apiVersion": "v1", "kind": "Secret"}]),
    }
}

fn cluster(name: &str, region: &str) -> (Object, ClusterSpec) {
    let cluster = object(json!({"metadata": {"name": name}, "spec": {"region": region}}));
    let spec = api::read(&cluster).expect("a spec");
    (cluster, spec)
}

/// Applies policies for member `m1` and returns the last policy, and the labels.
fn applied(mut manifest: Object, cluster_policies: &[OverridePolicy], policies: &[OverridePolicy]) -> Object {
    let (cluster, spec) = cluster("m1", "eu");
    let member = Member { cluster: &cluster, spec: &spec };
    apply(&mut manifest, member, cluster_policies, policies).expect("applied");
    manifest
}

#[test]
fn overrides_apply_by_specificity_and_name_and_namespaced_policies_last() {
    let last = |cluster: &[(&str, &str)], namespaced: &[(&str, &str)]| {
        let of = |namespace: &str, policies: &[(&str, &str)]| -> Vec<OverridePolicy> {
            policies.iter().map(|(name, field)| policy(namespace, name, by(field), sets(name))).collect()
        };
        let manifest = applied(template(), &of("", cluster), &of("a", namespaced));
        manifest.label("last").map(str::to_owned)
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(last(&[("p", "all"), ("q", "labels"), ("r", "name")], &[]), some("r"));
    assert_eq!(last(&[("r", "all"), ("q", "labels"), ("p", "name")], &[]), some("p"));
    assert_eq!(last(&[("b", "all"), ("a", "all")], &[]), some("b"));
    assert_eq!(last(&[("b", "none"), ("a", "all")], &[]), some("b"));
    assert_eq!(last(&[("p", "name")], &[("a", "none")]), some("a"));
    assert_eq!(last(&[("p", "other")], &[("a", "other")]), None);
    assert_eq!(last(&[("p", "all")], &[("a", "other")]), some("p"));
}

#[test]
fn only_policies_of_the_own_namespace_apply_and_none_to_cluster_wide_objects() {
    let other = [policy("b", "p", by("none"), sets("p"))];
    assert_eq!(applied(template(), &[], &other), template());
    let wide = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}));
    assert_eq!(applied(wide.clone(), &[], &[policy("a", "p", by("none"), sets("p"))]), wide);
    assert_eq!(applied(wide, &[policy("", "p", by("none"), sets("p"))], &[]).label("last"), Some("p"));
}

#[test]
fn a_label_added_by_a_cluster_policy_can_select_a_namespaced_one() {
    let selector = json!([{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"last": "p"}}}]);
    let manifest =
        applied(template(), &[policy("", "p", by("all"), sets("p"))], &[policy("a", "q", selector, sets("q"))]);
    assert_eq!(manifest.label("last"), Some("q"));
}

fn rules() -> Value {
    let rule = |target: Value, value: &str| {
        let mut rule = sets(value)[0].clone();
        rule["targetCluster"] = target;
        rule
    };
    json!([
        rule(json!({"clusterNames": ["m1"]}), "by-name"),
        rule(json!({"clusterNames": ["m2"]}), "other-name"),
        rule(
            json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}}),
            "by-field"
        ),
        rule(json!({"exclude": ["m1"]}), "excluded"),
    ])
}

#[test]
fn rules_apply_in_order_in_matching_clusters_and_are_reported() {
    let policies = [policy("a", "p", by("name"), rules()), policy("a", "q", by("other"), rules())];
    let check = |name: &str, region: &str, last: Option<&str>, verdict: Verdict| {
        let (cluster, spec) = cluster(name, region);
        let mut manifest = template();
        let applied = apply(&mut manifest, Member { cluster: &cluster, spec: &spec }, [], &policies).expect("applied");
        assert_eq!(manifest.label("last"), last);
        let verdicts: Vec<(&str, &Verdict)> =
            applied.considered.iter().map(|c| (c.name.as_str(), &c.verdict)).collect();
        assert_eq!(verdicts, [("q", &Verdict::OtherResource), ("p", &verdict)]);
        assert_eq!(applied.is_empty(), last.is_none());
    };
    let specificity = Specificity::Name;
    check("m1", "eu", Some("by-field"), Verdict::Applied { specificity, rules: vec![0, 2] });
    check("m1", "us", Some("by-name"), Verdict::Applied { specificity, rules: vec![0] });
    check("m3", "us", Some("excluded"), Verdict::Applied { specificity, rules: vec![3] });
}

#[test]
fn a_rule_that_matches_no_cluster_is_reported_and_changes_nothing() {
    let rule = json!([{"targetCluster": {"clusterNames": ["m9"]}, "overriders": {}}]);
    let policies = [policy("", "p", by("all"), rule)];
    let (cluster, spec) = cluster("m1", "");
    let mut manifest = template();
    let applied = apply(&mut manifest, Member { cluster: &cluster, spec: &spec }, &policies, []).expect("applied");
    assert_eq!(manifest, template());
    assert_eq!(applied.considered[0].verdict, Verdict::OtherMember { specificity: Specificity::All });
    assert_eq!(applied.recorded(), Recorded::default());
}

#[test]
fn the_deprecated_fields_are_one_rule_where_there_are_none() {
    let object = object(json!({"metadata": {"name": "old", "namespace": "a"}, "spec": {
        "targetCluster": {"clusterNames": ["m1"]},
        "overriders": {"labelsOverrider": [{"operator": "add", "value": {"last": "old"}}]}}}));
    let old = OverridePolicy::read(&object).expect("a policy");
    assert_eq!(applied(template(), &[], &[old]).label("last"), Some("old"));
}

#[test]
fn the_first_failure_stops_and_names_the_rule() {
    let bad = json!([{"overriders": {}}, {"overriders": {"plaintext": [{"path": "/none/x", "operator": "remove"}]}}]);
    let policies = [policy("", "bad", by("name"), bad), policy("", "good", by("all"), sets("good"))];
    let (cluster, spec) = cluster("m1", "");
    let failure =
        apply(&mut template(), Member { cluster: &cluster, spec: &spec }, &policies, []).expect_err("it fails");
    let last = failure.considered.last().expect("considered");
    assert_eq!(last.name, "bad");
    assert!(matches!(last.verdict, Verdict::Failed { rule: 1, .. }), "{last:?}");
    assert!(
        last.to_string().starts_with("ClusterOverridePolicy bad: selects by name, overrideRules[1] cannot"),
        "{last}"
    );
}

#[test]
fn applied_policies_are_recorded_by_name_as_in_karmada() {
    let image =
        json!([{"overriders": {"imageOverrider": [{"component": "Registry", "operator": "add", "value": "a&b"}]}}]);
    let plain = json!([{"overriders": {"plaintext": [{"path": "/data", "operator": "remove"}]}}]);
    let mut manifest = template();
    manifest.set(&["data", "k"], "v");
    let policies = [policy("a", "z", by("all"), plain), policy("a", "b", by("name"), image)];
    let (cluster, spec) = cluster("m1", "");
    let applied = apply(&mut manifest, Member { cluster: &cluster, spec: &spec }, [], &policies).expect("applied");
    let expected = concat!(
        r#"[{"policyName":"b","overriders":{"imageOverrider":[{"component":"Registry","operator":"add","value":"a\u0026b"}]}},"#,
        r#"{"policyName":"z","overriders":{"plaintext":[{"path":"/data","operator":"remove","value":null}]}}]"#
    );
    assert_eq!(applied.recorded(), Recorded { cluster: None, namespaced: Some(expected.to_owned()) });
}

#[test]
fn namespaced_policies_cannot_change_the_identity_of_an_object() {
    let (cluster, spec) = cluster("m1", "eu");
    let member = Member { cluster: &cluster, spec: &spec };
    let patch = |path: &str, value: &str| json!([{"overriders": {"plaintext": [{"path": path, "operator": "replace", "value": value}]}}]);
    let cases = [
        ("/metadata/namespace", "kube-system", false),
        ("/metadata/name", "coredns", false),
        ("/kind", "ClusterRoleBinding", false),
        ("/apiVersion", "rbac.authorization.k8s.io/v1", false),
        // Another version of the group is the same object.
        ("/apiVersion", "v2", true),
        ("/metadata/labels/app", "y", true),
    ];
    for (path, value, is_allowed) in cases {
        let rules = patch(path, value);
        let own = [policy("a", "p", by("name"), rules.clone())];
        let applied = apply(&mut template(), member, [], &own);
        assert_eq!(applied.is_ok(), is_allowed, "{path} {value}");
        // Administrators write cluster-wide policies.
        let wide = [policy("", "p", by("name"), rules)];
        assert!(apply(&mut template(), member, &wide, []).is_ok(), "{path} {value}");
    }
}
