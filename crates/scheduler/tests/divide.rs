//! Replica division, with Karmada's cases (v1.18.2, pkg/scheduler/core/assignment_test.go and
//! division_algorithm_test.go).

mod fixtures;

use api::work::BindingStatus;
use fixtures::{
    aggregated, binding, cluster, decide, divided, dynamic, outcome, snapshot, static_weights, targets, text,
};
use scheduler::SchedulerOptions;
use serde_json::{Value, json};

type Clusters<'a> = &'a [(&'a str, i32)];

/// Clusters with their capacity, the current replicas, the wanted replicas, and the expected division.
#[track_caller]
fn check(strategy: &Value, capacity: Clusters<'_>, had: Clusters<'_>, replicas: i32, expected: &str) {
    check_at(strategy, capacity, had, replicas, (None, None), expected);
}

#[track_caller]
fn check_at(
    strategy: &Value,
    capacity: Clusters<'_>,
    had: Clusters<'_>,
    replicas: i32,
    (asked, last): (Option<&str>, Option<&str>),
    expected: &str,
) {
    let mut clusters: Vec<_> = capacity.iter().map(|(name, pods)| cluster(name).pods(*pods)).collect();
    for (name, _) in had.iter().filter(|(name, _)| capacity.iter().all(|(other, _)| other != name)) {
        clusters.push(cluster(name));
    }
    let names: Vec<&str> = capacity.iter().map(|(name, _)| *name).collect();
    let placement = json!({"clusterAffinity": {"clusterNames": names}, "replicaScheduling": strategy});
    let mut spec = binding(replicas, placement);
    spec.clusters = targets(had);
    spec.reschedule_triggered_at = asked.map(str::to_owned);
    let status = BindingStatus { last_scheduled_time: last.map(str::to_owned), ..BindingStatus::default() };
    let decision = decide(&snapshot(&clusters), &spec, &status, &SchedulerOptions::default());
    assert_eq!(
        text(&decision.result),
        expected,
        "{replicas} replicas, capacity {:?}, had {had:?}, {strategy}",
        capacity
    );
}

fn not_enough(action: &str, available: i32) -> String {
    format!(
        "failed to assign replicas: failed to {action}: Clusters available replicas {available} are not enough to schedule."
    )
}

#[test]
fn duplicated_gives_every_cluster_all() {
    let duplicated = json!({"replicaSchedulingType": "Duplicated"});
    check(&duplicated, &[("m1", 1), ("m2", 1)], &[], 5, "m1:5, m2:5");
    check(&Value::Null, &[("m1", 1), ("m2", 9)], &[], 5, "m2:5, m1:5");
}

#[test]
fn a_dynamic_division_uses_free_capacity_and_keeps_running_replicas() {
    let three = |a, b, c| [("m1", a), ("m2", b), ("m3", c)];
    let had = [("m1", 2), ("m2", 4), ("m3", 6)];
    check(&dynamic(), &three(10, 10, 10), &had, 6, "m1:1, m2:2, m3:3");
    check(&dynamic(), &three(10, 10, 10), &had, 24, "m1:6, m2:8, m3:10");
    check(&dynamic(), &three(1, 1, 1), &had, 24, &not_enough("scale up", 3));
    check(&dynamic(), &three(0, 0, 0), &had, 12, "m1:2, m2:4, m3:6");
    check(&dynamic(), &three(6, 8, 10), &[], 12, "m1:3, m2:4, m3:5");
    check(&dynamic(), &three(8, 8, 10), &[], 12, "m1:4, m2:4, m3:4");
    check(&dynamic(), &three(3, 3, 3), &[], 12, &not_enough("scale up", 9));
    // Capacity does not matter when scaling down.
    check(&dynamic(), &three(0, 0, 0), &had, 1, "m3:1");
}

#[test]
fn an_aggregated_division_prefers_few_and_current_clusters() {
    let agg = aggregated();
    check(&agg, &[("m1", 9), ("m2", 9)], &[("m1", 4), ("m2", 8)], 6, "m2:6");
    check(&agg, &[("m1", 9), ("m2", 9)], &[("m1", 4), ("m2", 8)], 8, "m2:8");
    check(&agg, &[("m1", 4), ("m2", 6), ("m3", 8)], &[("m1", 4), ("m2", 8)], 24, "m1:7, m2:12, m3:5");
    check(&agg, &[("m1", 6), ("m2", 6), ("m3", 20)], &[("m1", 4), ("m2", 8)], 24, "m1:10, m2:14");
    // Replicas of a cluster that is no longer feasible are placed elsewhere.
    check(&agg, &[("m1", 4), ("m3", 8), ("m4", 12)], &[("m1", 4), ("m2", 8)], 24, "m1:7, m3:7, m4:10");
    check(&agg, &[("m1", 6), ("m2", 8), ("m3", 10)], &[], 12, "m2:5, m3:7");
    check(&agg, &[("m1", 12), ("m2", 8), ("m3", 10)], &[], 12, "m1:12");
    check(&agg, &[("m1", 3), ("m2", 3), ("m3", 3)], &[], 12, &not_enough("scale up", 9));
    check(&agg, &[("m1", 6), ("m2", 6), ("m3", 6)], &[], 12, "m1:6, m2:6");
}

#[test]
fn rescheduling_keeps_nothing() {
    let times = (Some("2026-01-02T00:00:00Z"), Some("2026-01-01T00:00:00Z"));
    let capacity = [("m1", 10), ("m2", 10)];
    let had = [("m1", 2), ("m2", 6)];
    check_at(&dynamic(), &capacity, &had, 8, times, "m1:3, m2:5");
    check_at(&aggregated(), &[("m1", 10), ("m2", 0)], &had, 8, times, "m1:8");
    check_at(&dynamic(), &[("m1", 0), ("m2", 0)], &had, 9, times, &not_enough("do fresh scale", 8));
    // Requested before the last scheduling: already done.
    let done = (Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"));
    check_at(&dynamic(), &capacity, &had, 8, done, "m1:2, m2:6");
    // Never placed yet: the first placement satisfies the request.
    check_at(&dynamic(), &capacity, &had, 8, (Some("2026-01-01T00:00:00Z"), None), "m1:2, m2:6");
}

#[test]
fn static_weights_ignore_capacity_and_history() {
    let capacity = [("m1", 0), ("m2", 0), ("m3", 0)];
    check(&static_weights(&[("m1", 3), ("m2", 2), ("m3", 1)]), &capacity, &[("m3", 12)], 12, "m1:6, m2:4, m3:2");
    check(&static_weights(&[("m1", 1), ("m2", 1)]), &capacity, &[], 5, "m1:3, m2:2");
    // A cluster that is not in the list gets nothing, one listed twice gets its highest weight.
    check(&static_weights(&[("m1", 1), ("m1", 3), ("m2", 1)]), &capacity, &[], 4, "m1:3, m2:1");
    check(&static_weights(&[("other", 3)]), &capacity, &[], 5, "m1:2, m2:2, m3:1");
    let evenly = divided(json!({"replicaDivisionPreference": "Weighted"}));
    check(&evenly, &capacity, &[], 5, "m1:2, m2:2, m3:1");
    let empty = divided(json!({"replicaDivisionPreference": "Weighted", "weightPreference": {}}));
    check(&empty, &capacity, &[], 3, "m1:1, m2:1, m3:1");
    // With fewer replicas than clusters, the light ones get none.
    check(&static_weights(&[("m1", 9), ("m2", 1)]), &capacity, &[], 1, "m1:1");
}

#[test]
fn the_template_uid_decides_which_cluster_gets_the_odd_replica() {
    let two = snapshot(&[cluster("a"), cluster("b")]);
    let mut spec = binding(5, json!({"replicaScheduling": static_weights(&[("a", 1), ("b", 1)])}));
    for (uid, expected) in [
        ("", "a:3, b:2"),
        ("4858ca61-3ff8-4095-8267-f3d059d8074c", "a:3, b:2"),
        ("d43fdeeb-d750-4e2b-bee3-64eb94534f4c", "a:2, b:3"),
    ] {
        spec.resource.uid = uid.to_owned();
        assert_eq!(outcome(&two, &spec), expected, "{uid}");
    }
}

#[test]
fn an_unknown_strategy_is_an_error() {
    let text = "failed to assign replicas: unsupported replica scheduling strategy, replicaSchedulingType: Divided, \
                replicaDivisionPreference: , please try another scheduling strategy";
    check(&divided(json!({})), &[("m1", 1)], &[], 1, text);
}

#[test]
fn objects_without_replicas_go_to_every_cluster() {
    let two = snapshot(&[cluster("m1"), cluster("m2")]);
    let mut spec = binding(0, json!({"replicaScheduling": dynamic()}));
    spec.replica_requirements = None;
    assert_eq!(outcome(&two, &spec), "m1:0, m2:0");
    // A workload scaled to zero is placed nowhere, unless empty workloads are propagated.
    let spec = binding(0, json!({"replicaScheduling": dynamic()}));
    assert_eq!(outcome(&two, &spec), "");
    let options = SchedulerOptions { empty_workload_propagation: true, ..SchedulerOptions::default() };
    let decision = decide(&two, &spec, &BindingStatus::default(), &options);
    assert_eq!(text(&decision.result), "m1:0, m2:0");
}

#[test]
fn components_are_not_divided() {
    let two = snapshot(&[cluster("m1"), cluster("m2")]);
    let mut spec = binding(4, json!({"replicaScheduling": dynamic()}));
    spec.components = serde_json::from_value(json!([
        {"name": "a", "replicas": 1}, {"name": "b", "replicas": 3}
    ]))
    .expect("components");
    assert_eq!(outcome(&two, &spec), "m1:0, m2:0");
}
