//! Ordered affinity groups, and tiers that overflow into the next.

mod fixtures;

use api::work::BindingStatus;
use fixtures::{aggregated, binding, cluster, decide, dynamic, snapshot, static_weights, targets, text};
use scheduler::{ScheduleError, SchedulerOptions};
use serde_json::{Value, json};

fn group(name: &str, clusters: &[&str]) -> Value {
    json!({"affinityName": name, "clusterNames": clusters})
}

/// The observed group so far, and the expected clusters, group in use and number of failed groups.
#[track_caller]
fn check(observed: &str, replicas: i32, expected: (&str, &str, usize)) {
    let groups = json!([group("first", &["m1"]), group("second", &["m2"]), group("third", &["m3"])]);
    let clusters = snapshot(&[cluster("m1").taint("k", "NoSchedule"), cluster("m2").pods(5), cluster("m3").pods(50)]);
    let spec = binding(replicas, json!({"clusterAffinities": groups, "replicaScheduling": dynamic()}));
    let status = BindingStatus { scheduler_observed_affinity_name: observed.to_owned(), ..BindingStatus::default() };
    let decision = decide(&clusters, &spec, &status, &SchedulerOptions::default());
    let seen = (text(&decision.result), decision.affinity_name, decision.failed_groups.len());
    assert_eq!((seen.0.as_str(), seen.1.as_str(), seen.2), expected, "{observed:?}, {replicas}");
}

#[test]
fn groups_are_tried_in_order_from_the_one_in_use() {
    check("", 3, ("m2:3", "second", 1));
    check("", 30, ("m3:30", "third", 2));
    check("second", 3, ("m2:3", "second", 0));
    check("third", 3, ("m3:3", "third", 0));
    // A removed group: start from the first.
    check("gone", 3, ("m2:3", "second", 1));
    let no_fit = "0/3 clusters are available: 1 cluster(s) had untolerated taint {k:NoSchedule}, \
                  2 cluster(s) did not match the placement cluster affinity constraint.";
    check("", 300, (no_fit, "", 3));
    let not_enough =
        "failed to assign replicas: failed to scale up: Clusters available replicas 5 are not enough to schedule.";
    check("second", 300, (not_enough, "second", 2));
}

#[test]
fn the_error_of_the_first_group_is_the_error() {
    let groups = json!([group("first", &["m1"]), group("second", &["x"])]);
    let spec = binding(9, json!({"clusterAffinities": groups, "replicaScheduling": aggregated()}));
    let decision =
        decide(&snapshot(&[cluster("m1").pods(1)]), &spec, &BindingStatus::default(), &SchedulerOptions::default());
    assert!(matches!(decision.result, Err(ScheduleError::NotEnough(_))), "{:?}", decision.result);
    assert!(matches!(decision.failed_groups[1].1, ScheduleError::NoFit(_)));
}

/// Clusters with their tier and capacity, their current replicas, the wanted replicas, and the expected division.
#[track_caller]
fn check_overflow(
    strategy: Value,
    clusters: &[(&str, usize, i32)],
    had: &[(&str, i32)],
    replicas: i32,
    expected: &str,
) {
    let of_tier = |tier: usize| -> Vec<&str> {
        clusters.iter().filter(|(_, own, _)| *own == tier).map(|(name, ..)| *name).collect()
    };
    let overflow: Vec<Value> = (1..=2).map(|tier| group(&format!("overflow{tier}"), &of_tier(tier))).collect();
    let mut first = group("only", &of_tier(0));
    first["overflowAffinities"] = json!(overflow);
    let all: Vec<_> = clusters.iter().map(|(name, _, pods)| cluster(name).pods(*pods)).collect();
    let mut spec = binding(replicas, json!({"clusterAffinities": [first], "replicaScheduling": strategy}));
    spec.clusters = targets(had);
    let status = BindingStatus { scheduler_observed_affinity_name: "only".to_owned(), ..BindingStatus::default() };
    let decision = decide(&snapshot(&all), &spec, &status, &SchedulerOptions::default());
    assert_eq!(text(&decision.result), expected, "{replicas} in {clusters:?} that had {had:?}");
}

#[test]
fn a_tier_overflows_into_the_next_and_shrinks_it_first() {
    let two = [("m1", 0, 2), ("m2", 1, 10)];
    check_overflow(dynamic(), &two, &[("m1", 3)], 8, "m1:5, m2:3");
    check_overflow(dynamic(), &two, &[], 2, "m1:2");
    check_overflow(dynamic(), &[("m1", 0, 0), ("m2", 1, 10)], &[("m1", 5), ("m2", 3)], 5, "m1:5");
    let none = "failed to assign replicas: Clusters available replicas are not enough to schedule.";
    check_overflow(dynamic(), &two, &[], 13, none);
    let three = [("m1", 0, 2), ("m2", 1, 3), ("m3", 2, 100)];
    check_overflow(aggregated(), &three, &[], 10, "m1:2, m2:3, m3:5");
    check_overflow(static_weights(&[("m1", 1), ("m2", 1)]), &three, &[], 4, "m1:2, m2:2");
}

#[test]
fn objects_without_requests_do_not_overflow() {
    let mut first = group("only", &["m1"]);
    first["overflowAffinities"] = json!([group("more", &["m2"])]);
    let mut spec = binding(0, json!({"clusterAffinities": [first]}));
    spec.replica_requirements = None;
    let decision = decide(
        &snapshot(&[cluster("m1"), cluster("m2")]),
        &spec,
        &BindingStatus::default(),
        &SchedulerOptions::default(),
    );
    assert_eq!(text(&decision.result), "m1:0");
}

/// Karmada 1.19: a WorkloadRebalancer brings a workload back to its first group; up to 1.18 it stays in the group in use.
#[test]
fn a_requested_rescheduling_begins_at_the_first_group() {
    let check = |is_new: bool, triggered: &str, expected: (&str, &str)| {
        let groups = json!([group("first", &["m1"]), group("second", &["m2"])]);
        let mut spec = binding(3, json!({"clusterAffinities": groups, "replicaScheduling": dynamic()}));
        spec.clusters = targets(&[("m2", 3)]);
        spec.reschedule_triggered_at = Some(triggered.to_owned());
        let status = BindingStatus {
            scheduler_observed_affinity_name: "second".to_owned(),
            last_scheduled_time: Some("2026-01-01T10:00:00Z".to_owned()),
            ..BindingStatus::default()
        };
        let options = SchedulerOptions { reschedule_from_first: is_new, ..SchedulerOptions::default() };
        let clusters = snapshot(&[cluster("m1").pods(5), cluster("m2").pods(5)]);
        let decision = decide(&clusters, &spec, &status, &options);
        assert_eq!(
            (text(&decision.result).as_str(), decision.affinity_name.as_str()),
            expected,
            "{is_new} {triggered}"
        );
    };
    let (earlier, later) = ("2026-01-01T09:00:00Z", "2026-01-01T11:00:00Z");
    check(true, later, ("m1:3", "first"));
    check(true, earlier, ("m2:3", "second"));
    check(false, later, ("m2:3", "second"));
}
