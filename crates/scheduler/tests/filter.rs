//! Excluded clusters and the messages for them.

mod fixtures;

use api::work::{BindingSpec, BindingStatus};
use fixtures::{Cluster, binding, cluster, explanation, outcome, snapshot, targets, text};
use scheduler::{Peers, Plugins, Request, SchedulerOptions};
use serde_json::{Value, json};

const AFFINITY: &str = "cluster(s) did not match the placement cluster affinity constraint";
const NO_API: &str = "cluster(s) did not have the API resource";
const EVICTED: &str = "cluster(s) is in the process of eviction";

/// The reasons for excluding the only cluster; empty if it is feasible.
#[track_caller]
fn check(cluster: Cluster, spec: &BindingSpec, expected: &str) {
    let result = outcome(&snapshot(std::slice::from_ref(&cluster)), spec);
    let expected = match expected {
        "" => "m1:1".to_owned(),
        reason => format!("0/1 clusters are available: 1 {reason}."),
    };
    assert_eq!(result, expected, "{}", cluster.0);
}

fn placed(placement: Value) -> BindingSpec {
    binding(1, placement)
}

/// The same, with a cluster that already has the workload.
fn kept(placement: Value) -> BindingSpec {
    BindingSpec { clusters: targets(&[("m1", 1)]), ..placed(placement) }
}

fn m1() -> Cluster {
    cluster("m1")
}

#[test]
fn a_cluster_must_serve_the_kind_unless_it_has_it() {
    let no_apis = m1().set("status.apiEnablements", json!([]));
    check(m1(), &placed(json!({})), "");
    check(no_apis.clone(), &placed(json!({})), NO_API);
    check(no_apis, &kept(json!({})), "");
    let other = m1().set(
        "status.apiEnablements",
        json!([{"groupVersion": "apps/v1beta1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]),
    );
    check(other, &placed(json!({})), NO_API);
}

#[test]
fn untolerated_taints_exclude_new_workloads() {
    check(m1().taint("k", "NoSchedule"), &placed(json!({})), "cluster(s) had untolerated taint {k:NoSchedule}");
    check(m1().taint("k", "NoExecute"), &placed(json!({})), "cluster(s) had untolerated taint {k:NoExecute}");
    check(m1().taint("k", "PreferNoSchedule"), &placed(json!({})), "");
    check(m1().taint("k", "NoExecute"), &kept(json!({})), "");
    let valued = m1().set("spec.taints", json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]));
    check(valued.clone(), &placed(json!({})), "cluster(s) had untolerated taint {k=v:NoSchedule}");
    let tolerations = |value: Value| placed(json!({"clusterTolerations": [value]}));
    check(valued.clone(), &tolerations(json!({"key": "k", "value": "v"})), "");
    check(valued.clone(), &tolerations(json!({"key": "k", "operator": "Exists", "tolerationSeconds": 5})), "");
    check(valued, &tolerations(json!({"key": "k", "value": "w"})), "cluster(s) had untolerated taint {k=v:NoSchedule}");
}

#[test]
fn the_affinity_applies_to_current_targets_too() {
    let affinity = |value: Value| json!({"clusterAffinity": value});
    check(m1(), &placed(affinity(json!({}))), "");
    check(m1(), &placed(affinity(json!({"clusterNames": ["m1"]}))), "");
    check(m1(), &kept(affinity(json!({"clusterNames": ["m2"]}))), AFFINITY);
    check(m1(), &placed(affinity(json!({"exclude": ["m1"]}))), AFFINITY);
    let labelled = m1().label("tier", "gold");
    check(labelled.clone(), &placed(affinity(json!({"labelSelector": {"matchLabels": {"tier": "gold"}}}))), "");
    check(labelled, &placed(affinity(json!({"labelSelector": {"matchLabels": {"tier": "tin"}}}))), AFFINITY);
    let field = |key: &str, operator: &str, values: Value| {
        placed(affinity(
            json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}}),
        ))
    };
    check(m1().region("r1"), &field("region", "In", json!(["r1"])), "");
    check(m1().region("r1"), &field("region", "NotIn", json!(["r1"])), AFFINITY);
    check(m1().set("spec.zones", json!(["z1", "z2"])), &field("zone", "In", json!(["z2"])), "");
}

#[test]
fn spreading_by_a_property_requires_it() {
    for (field, property) in [("provider", "provider"), ("region", "region"), ("zone", "zones")] {
        let constraints = json!({"spreadConstraints": [
            {"spreadByField": field, "minGroups": 1, "maxGroups": 1},
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
        ]});
        let text = format!("cluster(s) did not have {property} property");
        check(m1(), &placed(constraints.clone()), &text);
        check(m1(), &kept(constraints.clone()), &text);
        let has = m1().set("spec.provider", json!("p")).region("r").set("spec.zones", json!(["z"]));
        check(has, &placed(constraints), "");
    }
}

#[test]
fn a_cluster_the_workload_is_evicted_from_does_not_get_it_back() {
    let mut spec = kept(json!({}));
    spec.graceful_eviction_tasks =
        serde_json::from_value(json!([{"fromCluster": "m1", "reason": "x", "producer": "y"}])).expect("tasks");
    check(m1(), &spec, EVICTED);
}

#[test]
fn a_cluster_being_deleted_is_excluded_without_a_reason() {
    assert_eq!(
        outcome(&snapshot(&[m1().leaving()]), &kept(json!({}))),
        "0/1 clusters are available: no cluster exists."
    );
    assert_eq!(outcome(&snapshot(&[]), &placed(json!({}))), "0/0 clusters are available: no cluster exists.");
}

#[test]
fn reasons_are_counted_and_every_cluster_is_accounted_for() {
    let clusters = [
        cluster("a").taint("k", "NoSchedule"),
        cluster("b").taint("k", "NoSchedule"),
        cluster("c").set("status.apiEnablements", json!([])),
        cluster("d").set("status.apiEnablements", json!([])).taint("k", "NoExecute"),
    ];
    let placement = json!({"clusterAffinity": {"exclude": ["c"]}});
    let all = snapshot(&clusters);
    let text = "0/4 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint, \
                1 cluster(s) had untolerated taint {k:NoExecute}, 2 cluster(s) had untolerated taint {k:NoSchedule}.";
    assert_eq!(outcome(&all, &placed(placement.clone())), text);
    let explained = explanation(&all, &placed(placement));
    let d = &explained.attempts[0].left_out[3];
    let plugins: Vec<&str> = d.reasons.iter().map(|reason| reason.plugin.as_str()).collect();
    assert_eq!(
        (d.cluster.as_str(), plugins),
        ("d", vec!["TaintToleration", "APIEnablement"]),
        "all reasons are reported"
    );
    assert_eq!((explained.reason.as_str(), explained.message.as_str()), ("NoClusterFit", text));
}

#[track_caller]
fn check_peers(peers: &Peers, spec: &BindingSpec, is_on: bool, expected: &str) {
    let options = SchedulerOptions { workload_affinity: is_on, ..SchedulerOptions::default() };
    let clusters = snapshot(&[cluster("m1"), cluster("m2"), cluster("m3")]);
    let status = BindingStatus::default();
    let decision =
        scheduler::schedule(&clusters, &Request { spec, status: &status, peers, options: &options, answers: None });
    assert_eq!(text(&decision.result), expected, "{peers:?}");
}

#[test]
fn workload_affinity_requires_the_feature_gate() {
    let lists = |lists: &[&[&str]]| -> Vec<Vec<String>> {
        lists.iter().map(|list| list.iter().map(|name| (*name).to_owned()).collect()).collect()
    };
    let together = |own: &[&[&str]]| Peers { together: lists(own), ..Peers::default() };
    let apart = |own: &[&[&str]]| Peers { apart: lists(own), ..Peers::default() };
    let spec = placed(json!({}));
    check_peers(&together(&[&["m1", "m2"], &["m2", "m3"]]), &spec, true, "m2:1");
    check_peers(&together(&[&["m1", "m2"], &["m2", "m3"]]), &spec, false, "m1:1, m2:1, m3:1");
    // An unplaced peer does not constrain the others.
    check_peers(&together(&[&["m1"], &[]]), &spec, true, "m1:1");
    let nowhere =
        "0/3 clusters are available: 3 ResourceBinding with the same affinity group does not target this cluster.";
    check_peers(&together(&[&["m1"], &["m2"]]), &spec, true, nowhere);
    check_peers(&together(&[&["m1"], &["m2"]]), &kept(json!({})), true, "m1:1");
    check_peers(&apart(&[&["m1"], &["m3"]]), &spec, true, "m2:1");
    let full = "0/3 clusters are available: 3 cluster already has workload with the same anti-affinity group.";
    check_peers(&apart(&[&["m1", "m2", "m3"]]), &spec, true, full);
    check_peers(&apart(&[&["m1", "m2", "m3"]]), &kept(json!({})), true, "m1:1");
}

#[test]
fn plugins_can_be_switched_off() {
    let options =
        SchedulerOptions { plugins: Plugins::parse(["*", "-TaintToleration"]), ..SchedulerOptions::default() };
    let spec = placed(json!({}));
    let decision =
        fixtures::decide(&snapshot(&[m1().taint("k", "NoSchedule")]), &spec, &BindingStatus::default(), &options);
    assert_eq!(text(&decision.result), "m1:1");
}
