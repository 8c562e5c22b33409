//! Cases of what works say and what their binding makes of it.

use api::work::{BindingSnapshot, GracefulEvictionTask, TargetCluster};

use super::*;

fn resource() -> ObjectReference {
    ObjectReference {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "a".to_owned(),
        name: "web".to_owned(),
        ..Default::default()
    }
}

/// A work in a member with an Applied condition and a status of its one manifest.
fn work(cluster: &str, applied: Option<(&str, &str)>, manifest_status: Value) -> Object {
    let conditions: Vec<Value> = applied
        .iter()
        .map(|(status, message)| {
            json!({"type": "Applied", "status": status, "reason": "r", "message": message, "lastTransitionTime": "t"})
        })
        .collect();
    let work = json!({"metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}")},
        "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "a"}}]}},
        "status": {"conditions": conditions, "manifestStatuses": manifest_status}});
    Object::from_value(work).expect("a map")
}

fn reflected(ordinal: i64, name: &str) -> Value {
    json!([{"identifier": {"ordinal": ordinal, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "",
        "namespace": "a", "name": name}, "status": {"replicas": 2}, "health": "Healthy"}])
}

#[track_caller]
fn check(works: &[Object], expected: Value) {
    assert_eq!(json!(aggregate(works, &resource()).expect("aggregated")), expected);
}

#[test]
fn each_cluster_reports_applied_and_health() {
    let healthy = json!({"clusterName": "m1", "applied": true, "status": {"replicas": 2}, "health": "Healthy"});
    check(&[work("m1", Some(("True", "fine")), reflected(0, "web"))], json!([healthy]));
    let unknown = json!({"clusterName": "m1", "applied": true, "health": "Unknown"});
    check(&[work("m1", Some(("True", "fine")), json!([]))], json!([unknown]));
    check(&[work("m1", Some(("True", "fine")), reflected(1, "web"))], json!([unknown]));
    check(&[work("m1", Some(("True", "fine")), reflected(0, "other"))], json!([unknown]));
    let failed = json!({"clusterName": "m1", "appliedMessage": "no space", "health": "Unknown"});
    check(&[work("m1", Some(("False", "no space")), reflected(0, "web"))], json!([failed]));
    check(&[work("m1", Some(("Unknown", "no space")), json!([]))], json!([failed]));
    check(&[work("m1", None, json!([]))], json!([{"clusterName": "m1", "health": "Unknown"}]));
}

#[test]
fn clusters_are_sorted_and_works_being_deleted_are_ignored() {
    let mut going = work("m0", Some(("True", "")), json!([]));
    going.set(&["metadata", "deletionTimestamp"], "t");
    let mut elsewhere = work("m9", None, json!([]));
    elsewhere.set_namespace("default");
    check(
        &[work("m2", None, json!([])), going, elsewhere, work("m1", None, json!([]))],
        json!([{"clusterName": "m1", "health": "Unknown"}, {"clusterName": "m2", "health": "Unknown"}]),
    );
}

fn target(name: &str) -> TargetCluster {
    TargetCluster { name: name.to_owned(), replicas: 1, ..TargetCluster::default() }
}

fn items(clusters: &[(&str, bool)]) -> Vec<AggregatedStatusItem> {
    let item = |(name, applied): &(&str, bool)| AggregatedStatusItem {
        cluster_name: (*name).to_owned(),
        applied: *applied,
        ..Default::default()
    };
    clusters.iter().map(item).collect()
}

#[test]
fn fully_applied_requires_exactly_the_expected_clusters() {
    let spec = |scheduled: &[&str]| BindingSpec {
        clusters: scheduled.iter().map(|name| target(name)).collect(),
        ..Default::default()
    };
    let required = BindingSpec {
        required_by: vec![BindingSnapshot { clusters: vec![target("m2")], ..Default::default() }],
        graceful_eviction_tasks: vec![GracefulEvictionTask { from_cluster: "m3".to_owned(), ..Default::default() }],
        ..spec(&["m1"])
    };
    for (spec, clusters, expected) in [
        (spec(&[]), &[][..], false),
        (spec(&["m1"]), &[], false),
        (spec(&["m1"]), &[("m1", true)], true),
        (spec(&["m1"]), &[("m1", false)], false),
        (spec(&["m1"]), &[("m2", true)], false),
        (spec(&["m1", "m2"]), &[("m1", true)], false),
        (spec(&["m1"]), &[("m1", true), ("m2", true)], false),
        (required.clone(), &[("m1", true), ("m2", true), ("m3", true)], true),
        (required, &[("m1", true), ("m2", true)], false),
    ] {
        assert_eq!(is_fully_applied(&spec, &items(clusters)), expected, "{spec:?} {clusters:?}");
    }
}

fn binding(status: Value) -> Object {
    let mut binding = Object::default();
    binding.set(&["metadata"], json!({"resourceVersion": "5", "uid": "u"}));
    binding.set(&["status"], status);
    binding
}

#[test]
fn only_changed_status_is_written() {
    let spec = BindingSpec { clusters: vec![target("m1")], ..Default::default() };
    let scheduled =
        json!({"type": "Scheduled", "status": "True", "reason": "s", "message": "m", "lastTransitionTime": "t"});
    let first = binding(json!({"conditions": [scheduled]}));
    let patch = plan(&first, &spec, &items(&[("m1", true)]), "now").expect("read").expect("something to write");
    let applied = json!({"type": "FullyApplied", "status": "True", "reason": "FullyAppliedSuccess",
        "message": "All works have been successfully applied", "lastTransitionTime": "now"});
    let expected = json!({"metadata": {"resourceVersion": "5", "uid": "u"}, "status": {
        "conditions": [scheduled, applied], "aggregatedStatus": [{"clusterName": "m1", "applied": true}]}});
    assert_eq!(patch, expected);

    let written = binding(expected["status"].clone());
    assert_eq!(plan(&written, &spec, &items(&[("m1", true)]), "later"), Ok(None));
    let patch = plan(&written, &spec, &[], "later").expect("read").expect("something to write");
    assert_eq!(patch["status"]["aggregatedStatus"], Value::Null);
    assert_eq!(patch["status"]["conditions"][1]["lastTransitionTime"], "later");
    assert_eq!(patch["status"]["conditions"][1]["reason"], "FullyAppliedFailed");
    let gone = binding(json!({"conditions": patch["status"]["conditions"]}));
    assert_eq!(plan(&gone, &spec, &[], "much later"), Ok(None));
}
