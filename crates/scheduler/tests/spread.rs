//! Selection by spread constraints (karmada v1.18.2, pkg/scheduler/core/spreadconstraint).

mod fixtures;

use fixtures::{
    Cluster, aggregated, binding, cluster, dynamic, explanation, outcome, snapshot, static_weights, targets,
};
use serde_json::{Value, json};

fn by_cluster(min: i64, max: i64) -> Value {
    json!([{"spreadByField": "cluster", "minGroups": min, "maxGroups": max}])
}

fn by_region(regions: (i64, i64), clusters: (i64, i64)) -> Value {
    json!([
        {"spreadByField": "region", "minGroups": regions.0, "maxGroups": regions.1},
        {"spreadByField": "cluster", "minGroups": clusters.0, "maxGroups": clusters.1},
    ])
}

#[track_caller]
fn check(clusters: &[Cluster], replicas: i32, constraints: Value, strategy: Value, expected: &str) {
    let placement = json!({"spreadConstraints": constraints, "replicaScheduling": strategy});
    let result = outcome(&snapshot(clusters), &binding(replicas, placement));
    assert_eq!(result, expected, "{replicas} by {constraints}, {strategy}");
}

fn four() -> Vec<Cluster> {
    [("m1", 40), ("m2", 60), ("m3", 80), ("m4", 50)].map(|(name, pods)| cluster(name).pods(pods)).into()
}

#[test]
fn the_best_clusters_are_selected_and_replaced_by_larger_ones_if_needed() {
    let duplicated = json!({"replicaSchedulingType": "Duplicated"});
    check(&four(), 200, by_cluster(1, 2), duplicated.clone(), "m3:200, m2:200");
    check(&four(), 120, by_cluster(1, 2), aggregated(), "m2:51, m3:69");
    let none = "failed to select clusters: no enough resource when selecting 2 clusters";
    check(&four(), 200, by_cluster(1, 2), dynamic(), none);
    let few = "failed to select clusters: the number of feasible clusters is less than spreadConstraint.MinGroups";
    check(&four(), 2, by_cluster(5, 6), duplicated.clone(), few);
    // A missing upper bound is taken literally.
    check(&four(), 2, by_cluster(1, 0), duplicated, "failed to assign replicas: no clusters available to schedule");
    check(
        &four(),
        2,
        by_cluster(1, 0),
        dynamic(),
        "failed to select clusters: no enough resource when selecting 0 clusters",
    );
}

#[test]
fn current_targets_come_first_until_capacity_is_needed() {
    let placement = |strategy: Value| json!({"spreadConstraints": by_cluster(1, 1), "replicaScheduling": strategy});
    let mut spec = binding(10, placement(aggregated()));
    spec.clusters = targets(&[("m1", 10)]);
    assert_eq!(outcome(&snapshot(&four()), &spec), "m1:10");
    let mut spec = binding(70, placement(aggregated()));
    spec.clusters = targets(&[("m1", 10)]);
    assert_eq!(outcome(&snapshot(&four()), &spec), "m3:70", "m1 has capacity for 50 in total");
}

#[test]
fn static_weights_take_no_account_of_constraints() {
    let weights = static_weights(&[("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)]);
    check(&four(), 4, by_cluster(1, 2), weights, "m1:1, m2:1, m3:1, m4:1");
    // An empty preference is not a list: it divides evenly, but among the selected clusters.
    let empty = fixtures::divided(json!({"replicaDivisionPreference": "Weighted", "weightPreference": {}}));
    check(&four(), 4, by_cluster(1, 2), empty, "m2:2, m3:2");
    let dynamic_list = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    });
    check(&four(), 4, by_cluster(1, 1), dynamic_list, "m3:4");
}

#[test]
fn only_cluster_and_region_are_known() {
    let provider = json!([{"spreadByField": "provider", "minGroups": 1, "maxGroups": 1}]);
    let with_provider = [cluster("m1").set("spec.provider", json!("p"))];
    let text = "failed to select clusters: just support cluster and region spread constraint";
    check(&with_provider, 1, provider, Value::Null, text);
    check(&four(), 1, json!([{"spreadByLabel": "x", "minGroups": 1, "maxGroups": 1}]), Value::Null, text);
}

fn regional() -> Vec<Cluster> {
    let list = [("m1", "r1", 10), ("m2", "r1", 20), ("m3", "r2", 30), ("m4", "r2", 5), ("m5", "r3", 40)];
    list.map(|(name, region, pods)| cluster(name).region(region).pods(pods)).into()
}

#[test]
fn regions_are_picked_first_and_each_keeps_its_best_cluster() {
    let duplicated = json!({"replicaSchedulingType": "Duplicated"});
    // Two regions with two clusters of capacity 5 each weigh more than r3 with one.
    check(&regional(), 5, by_region((2, 2), (2, 2)), duplicated.clone(), "m2:5, m3:5");
    check(&regional(), 5, by_region((2, 2), (3, 3)), duplicated.clone(), "m2:5, m3:5, m1:5");
    check(&regional(), 5, by_region((3, 3), (3, 3)), duplicated.clone(), "m2:5, m3:5, m5:5");
    // More regions than clusters: every region keeps its best cluster.
    check(&regional(), 5, by_region((2, 2), (1, 1)), duplicated.clone(), "m2:5, m3:5");
    let regions = "failed to select clusters: the number of feasible region is less than spreadConstraint.MinGroups";
    check(&regional(), 5, by_region((4, 4), (4, 4)), duplicated.clone(), regions);
    let clusters =
        "failed to select clusters: the number of clusters is less than the cluster spreadConstraint.MinGroups";
    check(&regional(), 5, by_region((1, 1), (3, 3)), duplicated, clusters);
}

#[test]
fn a_region_is_weighted_by_capacity_then_by_score() {
    let explained = |replicas: i32, strategy: Value, had: &[(&str, i32)]| {
        let placement = json!({"spreadConstraints": by_region((1, 1), (1, 1)), "replicaScheduling": strategy});
        let mut spec = binding(replicas, placement);
        spec.clusters = targets(had);
        let explained = explanation(&snapshot(&regional()), &spec);
        let selection = explained.attempts[0].selection.clone().expect("selected");
        selection.groups.iter().map(|group| group.score).collect::<Vec<_>>()
    };
    assert_eq!(explained(15, Value::Null, &[]), [1000, 1000, 1000]);
    assert_eq!(explained(5, Value::Null, &[("m1", 5)]), [2050, 2000, 1000]);
    assert_eq!(explained(50, Value::Null, &[]), [0, 0, 0]);
    assert_eq!(explained(33, dynamic(), &[]), [30_000, 33_000, 33_000]);
    assert_eq!(explained(33, dynamic(), &[("m1", 5)]), [33_050, 33_000, 33_000]);
}
