//! Reservations: a burst of decisions never assigns the same capacity twice.

mod fixtures;

use std::sync::Arc;

use api::capacity::{Amounts, ClusterNodes, NodeCapacity};
use api::work::{BindingSpec, BindingStatus};
use fixtures::{Cluster, aggregated, binding, cluster, dynamic, outcome, snapshot, targets};
use jiff::{SignedDuration, Timestamp};
use scheduler::{ClusterSnapshot, RESERVATION_LIFE};
use serde_json::{Value, json};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn asking(replicas: i32, cpu: &str, strategy: Value) -> BindingSpec {
    let mut spec = binding(replicas, json!({"replicaScheduling": strategy}));
    spec.replica_requirements = serde_json::from_value(json!({"resourceRequest": {"cpu": cpu}})).expect("requirements");
    spec
}

fn place(clusters: &mut ClusterSnapshot, name: &str, spec: &BindingSpec) -> String {
    let decision = fixtures::decide(clusters, spec, &BindingStatus::default(), &Default::default());
    if let Ok(targets) = &decision.result {
        clusters.reserve(name, spec, targets, START);
    }
    fixtures::text(&decision.result)
}

fn nodes(count: usize, cpu: i64) -> Arc<ClusterNodes> {
    let amounts: Amounts = [("cpu".to_owned(), cpu), ("pods".to_owned(), 110)].into();
    let node =
        |n: usize| NodeCapacity { name: format!("n{n}"), allocatable: amounts.clone(), ..NodeCapacity::default() };
    Arc::new(ClusterNodes { nodes: (0..count).map(node).collect(), ..Default::default() })
}

fn m1() -> Cluster {
    cluster("m1").has("cpu", "10")
}

#[test]
fn a_burst_fills_the_clusters_and_no_more() {
    let mut clusters = snapshot(&[m1(), cluster("m2").has("cpu", "4")]);
    let mut placed = Vec::new();
    for n in 0..9 {
        placed.push(place(&mut clusters, &format!("b{n}"), &asking(2, "1", aggregated())));
    }
    assert_eq!(placed.iter().filter(|text| text.starts_with("m1:2")).count(), 5, "{placed:?}");
    assert_eq!(placed.iter().filter(|text| text.starts_with("m2:2")).count(), 2, "{placed:?}");
    assert_eq!(placed.iter().filter(|text| text.ends_with("are not enough to schedule.")).count(), 2, "{placed:?}");
    assert_eq!((clusters.reserved_in("m1"), clusters.reserved_in("m2")), (10, 4));
}

#[test]
fn nodes_are_filled_node_by_node() {
    let mut clusters = snapshot(&[m1().has("cpu", "100")]);
    clusters.set_nodes("m1", Some(nodes(3, 2000)));
    // Each node takes one pod of 1.5 cpu; the remaining half takes one of 0.5.
    assert_eq!(place(&mut clusters, "large", &asking(2, "1500m", dynamic())), "m1:2");
    let text = |n: i32| {
        format!(
            "failed to assign replicas: failed to scale up: Clusters available replicas {n} are not enough to schedule."
        )
    };
    assert_eq!(place(&mut clusters, "larger", &asking(2, "1500m", dynamic())), text(1));
    assert_eq!(place(&mut clusters, "small", &asking(6, "500m", dynamic())), "m1:6");
    assert_eq!(place(&mut clusters, "smaller", &asking(1, "500m", dynamic())), text(0));
}

#[test]
fn only_additional_replicas_are_reserved() {
    let mut clusters = snapshot(&[m1()]);
    let mut spec = asking(6, "1", dynamic());
    spec.clusters = targets(&[("m1", 4)]);
    assert_eq!(place(&mut clusters, "b", &spec), "m1:6");
    assert_eq!(clusters.reserved_in("m1"), 2, "four run and are in the figures of the member");
    // Scaled again before the member reports: added to the existing reservation.
    spec.clusters = targets(&[("m1", 6)]);
    spec.replicas = 9;
    assert_eq!(place(&mut clusters, "b", &spec), "m1:9");
    assert_eq!(clusters.reserved_in("m1"), 5);
    spec.clusters = targets(&[("m1", 9)]);
    spec.replicas = 3;
    assert_eq!(place(&mut clusters, "b", &spec), "m1:3");
    assert_eq!(clusters.reserved_in("m1"), 0, "fewer than run");
}

#[test]
fn moved_and_unwritten_replicas_are_released() {
    let mut clusters = snapshot(&[m1(), cluster("m2")]);
    let spec = asking(5, "1", aggregated());
    clusters.reserve("b", &spec, &targets(&[("m1", 5)]), START);
    let moved = BindingSpec { clusters: targets(&[("m1", 5)]), ..spec.clone() };
    clusters.reserve("b", &moved, &targets(&[("m2", 5)]), START);
    assert_eq!((clusters.reserved_in("m1"), clusters.reserved_in("m2")), (0, 5));
    clusters.unreserve("b", &moved, &targets(&[("m2", 5)]), START);
    assert_eq!(clusters.reserved_in("m2"), 0);
    clusters.reserve("b", &spec, &targets(&[("m1", 5)]), START);
    clusters.release("b");
    clusters.settle();
    assert_eq!(outcome(&clusters, &asking(10, "1", aggregated())), "m1:10");
}

#[test]
fn replicas_reported_by_members_are_released() {
    let mut spec = asking(4, "1", aggregated());
    let status = |health: &str, replicas: Value| -> Vec<api::work::AggregatedStatusItem> {
        let item = json!([{"clusterName": "m1", "applied": true, "health": health, "status": {"replicas": replicas}}]);
        serde_json::from_value(item).expect("a status")
    };
    let mut clusters = snapshot(&[m1()]);
    place(&mut clusters, "b", &spec);
    spec.clusters = targets(&[("m1", 4)]);
    clusters.release_seen("b", &spec, &status("Unhealthy", json!(3)));
    assert_eq!(clusters.reserved_in("m1"), 4, "some pods are missing");
    clusters.release_seen("b", &spec, &status("Unhealthy", json!(4)));
    assert_eq!(clusters.reserved_in("m1"), 4, "pods exist, but not in the member's capacity report");
    clusters.put(&m1().uses("cpu", "4").object()).expect("read");
    clusters.settle();
    assert_eq!(clusters.reserved_in("m1"), 0);
    assert_eq!(outcome(&clusters, &asking(6, "1", aggregated())), "m1:6");
    place(&mut clusters, "c", &BindingSpec { clusters: Vec::new(), ..spec.clone() });
    clusters.release_seen("c", &spec, &status("Healthy", json!(4)));
    assert_eq!(clusters.reserved_in("m1"), 0, "healthy means the pods run");
    // The health is from before scaling: the new pods do not exist yet.
    let scaled = BindingSpec { replicas: 6, ..spec.clone() };
    place(&mut clusters, "c", &scaled);
    let scaled = BindingSpec { clusters: targets(&[("m1", 6)]), ..scaled };
    clusters.release_seen("c", &scaled, &status("Healthy", json!(4)));
    assert_eq!(clusters.reserved_in("m1"), 2);
}

#[test]
fn reservations_expire() {
    let mut clusters = snapshot(&[m1()]);
    place(&mut clusters, "b", &asking(4, "1", aggregated()));
    clusters.release_expired(START + RESERVATION_LIFE - SignedDuration::from_secs(1));
    assert_eq!(clusters.reserved_in("m1"), 4);
    clusters.release_expired(START + RESERVATION_LIFE);
    assert_eq!(clusters.reserved_in("m1"), 0);
}

#[test]
fn objects_without_requests_reserve_nothing() {
    let mut clusters = snapshot(&[m1()]);
    let mut spec = binding(0, json!({}));
    spec.replica_requirements = None;
    assert_eq!(place(&mut clusters, "b", &spec), "m1:0");
    assert_eq!(clusters.reserved_in("m1"), 0);
}
