//! Scheduling triggers of a binding (karmada v1.18.2, pkg/scheduler/{scheduler,helper}_test.go,
//! pkg/util/binding_test.go).

mod fixtures;

use api::work::{BindingSpec, BindingStatus};
use fixtures::{binding, cluster, dynamic, placement, snapshot, targets};
use scheduler::need::placement_changed;
use scheduler::{Need, SchedulerOptions, need};
use serde_json::{Value, json};

#[track_caller]
fn check_placement(now: Value, applied: &str, observed: &str, expected: bool) {
    assert_eq!(placement_changed(&placement(now.clone()), applied, observed), expected, "{now} after {applied}");
}

#[test]
fn a_placement_has_changed_if_the_part_in_use_has() {
    let names = |names: &[&str]| json!({"clusterAffinity": {"clusterNames": names}});
    check_placement(names(&["m1"]), "", "", true);
    check_placement(names(&["m1"]), "no json", "", false);
    check_placement(names(&["m1"]), &names(&["m1"]).to_string(), "", false);
    check_placement(names(&["m1"]), &names(&["m2"]).to_string(), "", true);
    for (field, value) in [
        ("clusterTolerations", json!([{"key": "k"}])),
        ("spreadConstraints", json!([{"spreadByField": "cluster"}])),
        ("replicaScheduling", json!({"replicaSchedulingType": "Divided"})),
    ] {
        check_placement(json!({field: value}), "{}", "used", true);
    }
    // Not compared separately, yet not equal: without a group in use that is a change.
    check_placement(json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}), "{}", "", true);
    let groups = |used: &[&str], other: &[&str]| {
        json!({"clusterAffinities": [
            {"affinityName": "used", "clusterNames": used}, {"affinityName": "other", "clusterNames": other},
        ]})
    };
    let applied = groups(&["m1"], &["m2"]).to_string();
    check_placement(groups(&["m1"], &["m3"]), &applied, "used", false);
    check_placement(groups(&["m3"], &["m2"]), &applied, "used", true);
    check_placement(groups(&["m1"], &["m3"]), &applied, "", true);
    check_placement(groups(&["m1"], &["m3"]), &applied, "gone", true);
}

struct Case {
    spec: BindingSpec,
    status: BindingStatus,
    options: SchedulerOptions,
}

fn settled(replicas: i32, strategy: Value, had: &[(&str, i32)]) -> Case {
    let mut spec = binding(replicas, json!({"replicaScheduling": strategy}));
    spec.clusters = targets(had);
    Case { spec, status: BindingStatus::default(), options: SchedulerOptions::default() }
}

#[track_caller]
fn check(case: &Case, expected: Option<Need>) {
    let clusters = snapshot(&[cluster("m1"), cluster("m2").leaving()]);
    let applied = serde_json::to_string(&case.spec.placement).expect("json");
    let seen = need(&clusters, &case.spec, &case.status, &applied, &case.options);
    assert_eq!(seen, expected, "{:?}", case.spec);
}

#[test]
fn a_divided_workload_is_not_rescheduled_while_its_replicas_add_up() {
    check(&settled(3, dynamic(), &[("m1", 3)]), None);
    check(&settled(3, dynamic(), &[("m1", 2)]), Some(Need::ReplicasChanged));
    check(&settled(3, dynamic(), &[]), Some(Need::ReplicasChanged));
    check(&settled(3, dynamic(), &[("m1", 1), ("m2", 2)]), Some(Need::ClusterLeaving));
    check(&settled(3, dynamic(), &[("m1", 1), ("gone", 2)]), None);
}

#[test]
fn duplicated_workloads_are_always_rescheduled() {
    let duplicated = json!({"replicaSchedulingType": "Duplicated"});
    check(&settled(3, duplicated.clone(), &[("m1", 3)]), Some(Need::Duplicated));
    check(&settled(3, duplicated, &[("m1", 2)]), Some(Need::ReplicasChanged));
    check(&settled(3, Value::Null, &[("m1", 2)]), Some(Need::Duplicated));
    let mut config = settled(0, dynamic(), &[("m1", 0)]);
    config.spec.replica_requirements = None;
    check(&config, Some(Need::Duplicated));
}

#[test]
fn a_reschedule_request_is_served_once() {
    for (asked, last, expected) in [
        (Some("2026-01-02T00:00:00Z"), Some("2026-01-01T00:00:00Z"), Some(Need::Reschedule)),
        (Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"), None),
        (Some("2026-01-01T00:00:00Z"), Some("2026-01-01T00:00:00Z"), None),
        (Some("2026-01-02T00:00:00Z"), None, None),
        (None, Some("2026-01-01T00:00:00Z"), None),
    ] {
        let mut case = settled(3, dynamic(), &[("m1", 3)]);
        case.spec.reschedule_triggered_at = asked.map(str::to_owned);
        case.status.last_scheduled_time = last.map(str::to_owned);
        check(&case, expected);
    }
}

#[test]
fn an_unplaced_set_of_components_is_placed_if_the_gate_is_enabled() {
    let mut case = settled(0, dynamic(), &[]);
    case.spec.components = serde_json::from_value(json!([{"name": "a", "replicas": 1}])).expect("components");
    check(&case, None);
    case.options.multiple_pod_templates = true;
    check(&case, Some(Need::ReplicasChanged));
}
