//! Replica estimates from a cluster's summary, models and nodes.

mod fixtures;

use std::sync::Arc;

use api::capacity::{Amounts, ClusterNodes, NodeCapacity};
use api::work::{BindingSpec, BindingStatus};
use fixtures::{Cluster, aggregated, binding, cluster, snapshot};
use object::taints::Taint;
use scheduler::{ClusterSnapshot, Peers, Request, SchedulerOptions};
use serde_json::{Value, json};

/// The estimates for `m1`.
fn estimates(snapshot: &ClusterSnapshot, spec: &BindingSpec, options: &SchedulerOptions) -> Vec<i32> {
    let (peers, status) = (Peers::default(), Default::default());
    let (_, explained) =
        scheduler::explain(snapshot, &Request { spec, status: &status, peers: &peers, options, answers: None });
    let replicas: Vec<i32> =
        explained.attempts[0].candidates[0].estimates.iter().map(|estimate| estimate.replicas).collect();
    // The second estimate is that of the nodes.
    assert_eq!(explained.accurate_estimates(), usize::from(replicas.len() > 1));
    replicas
}

fn asking(requests: Value) -> BindingSpec {
    let mut spec = binding(1, json!({"replicaScheduling": aggregated()}));
    spec.replica_requirements = match requests {
        Value::Null => None,
        requests => serde_json::from_value(json!({"resourceRequest": requests})).expect("requirements"),
    };
    spec
}

#[track_caller]
fn check(cluster: &Cluster, requests: Value, expected: i32) {
    let seen =
        estimates(&snapshot(std::slice::from_ref(cluster)), &asking(requests.clone()), &SchedulerOptions::default());
    assert_eq!(seen, [expected], "{requests} in {}", cluster.0["status"]["resourceSummary"]);
}

fn m1() -> Cluster {
    cluster("m1")
}

#[test]
fn the_summary_allows_the_rest_of_every_resource() {
    check(&m1().pods(7), Value::Null, 7);
    check(&m1().pods(7).uses("pods", "3"), Value::Null, 4);
    check(&m1().pods(7).uses("pods", "3").set("status.resourceSummary.allocating.pods", json!("2")), Value::Null, 2);
    check(&m1().pods(7).uses("pods", "9"), Value::Null, 0);
    check(&m1().set("status.resourceSummary", Value::Null), Value::Null, 0);
    let big = m1().has("cpu", "4").has("memory", "8Gi");
    check(&big, json!({"cpu": "500m"}), 8);
    check(&big, json!({"cpu": "500m", "memory": "3Gi"}), 2);
    check(&big, json!({"cpu": "0", "memory": "0"}), 100);
    check(&big, json!({"nvidia.com/gpu": "1"}), 0);
    check(&big.clone().uses("cpu", "3900m"), json!({"cpu": "50m"}), 2);
    check(&big.clone().uses("cpu", "3900m"), json!({"cpu": "200m"}), 0);
    check(&big.uses("cpu", "5"), json!({"cpu": "1m"}), 0);
}

/// Two grades: nodes with almost nothing, and nodes with at least 2 cpu and 4Gi.
fn modelled(counts: &[(u32, i32)]) -> Cluster {
    let range = |name: &str, min: &str, max: &str| json!({"name": name, "min": min, "max": max});
    let counts: Vec<Value> = counts.iter().map(|(grade, count)| json!({"grade": grade, "count": count})).collect();
    m1().has("cpu", "100")
        .has("memory", "200Gi")
        .set(
            "spec.resourceModels",
            json!([
                {"grade": 1, "ranges": [range("cpu", "2", "4"), range("memory", "4Gi", "16Gi")]},
                {"grade": 0, "ranges": [range("cpu", "0", "2"), range("memory", "0", "4Gi")]},
            ]),
        )
        .set("status.resourceSummary.allocatableModelings", json!(counts))
}

#[test]
fn models_count_nodes_by_the_minimum_of_their_grade() {
    check(&modelled(&[(0, 9), (1, 3)]), json!({"cpu": "1", "memory": "1Gi"}), 6);
    check(&modelled(&[(0, 9)]), json!({"cpu": "1"}), 0);
    check(&modelled(&[(1, 3)]), json!({"cpu": "1", "memory": "3Gi"}), 3);
    check(&modelled(&[(1, 3)]), json!({"cpu": "1m"}), 100);
    check(&modelled(&[(1, 3)]), json!({"example.com/x": "1"}), 0);
    // Without requirements, without models, or with invalid counts: the summary.
    check(&modelled(&[(1, 3)]), Value::Null, 100);
    check(&modelled(&[(1, 3)]).set("spec.resourceModels", json!([])), json!({"cpu": "1"}), 100);
    check(&modelled(&[(1, -3)]), json!({"cpu": "1"}), 100);
    let off = SchedulerOptions { resource_models: false, ..SchedulerOptions::default() };
    let spec = asking(json!({"cpu": "1"}));
    assert_eq!(estimates(&snapshot(&[modelled(&[(1, 3)])]), &spec, &off), [100]);
}

fn node(name: &str, cpu: i64, pods: i64) -> NodeCapacity {
    let amounts = |list: &[(&str, i64)]| -> Amounts { list.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect() };
    NodeCapacity {
        name: name.to_owned(),
        allocatable: amounts(&[("cpu", cpu), ("memory", 8 << 30), ("pods", pods)]),
        requested: amounts(&[("cpu", 500), ("pods", 1)]),
        ..NodeCapacity::default()
    }
}

#[track_caller]
fn check_nodes(nodes: Vec<NodeCapacity>, spec: &BindingSpec, expected: i32) {
    let mut clusters = snapshot(&[m1().has("cpu", "1000").has("memory", "1Ti").has("example.com/gpu", "50")]);
    clusters.set_nodes("m1", Some(Arc::new(ClusterNodes { nodes: nodes.clone(), ..Default::default() })));
    assert_eq!(estimates(&clusters, spec, &SchedulerOptions::default())[1], expected, "{nodes:?}");
}

#[test]
fn nodes_are_counted_one_by_one() {
    let two = || vec![node("n1", 2500, 10), node("n2", 1400, 3)];
    check_nodes(two(), &asking(json!({"cpu": "500m"})), 4 + 1);
    // The sum would allow one more than the nodes do individually.
    check_nodes(two(), &asking(json!({"cpu": "1"})), 2);
    check_nodes(two(), &asking(Value::Null), 9 + 2);
    check_nodes(two(), &asking(json!({"cpu": "1m"})), 9 + 2);
    check_nodes(two(), &asking(json!({"example.com/gpu": "1"})), 0);
    check_nodes(two(), &asking(json!({"unknown": "1"})), 9 + 2);
    check_nodes(Vec::new(), &asking(Value::Null), 0);
    let overfull = NodeCapacity { allocatable: Amounts::new(), ..node("n1", 0, 0) };
    check_nodes(vec![overfull], &asking(Value::Null), 0);
}

#[test]
fn only_nodes_the_pods_may_run_on_count() {
    let mut labelled = node("n1", 2500, 10);
    labelled.labels.insert("disk".to_owned(), "ssd".to_owned());
    let taint = Taint { key: "k".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let nodes = vec![
        labelled,
        NodeCapacity { taints: vec![taint], ..node("n2", 2500, 10) },
        NodeCapacity { is_unschedulable: true, ..node("n3", 2500, 10) },
        node("n4", 2500, 10),
    ];
    let with = |claim: Value| {
        let mut spec = asking(json!({"cpu": "1"}));
        let requirements = spec.replica_requirements.as_mut().expect("requirements");
        requirements.node_claim = serde_json::from_value(claim).expect("a claim");
        spec
    };
    check_nodes(nodes.clone(), &with(Value::Null), 4);
    check_nodes(nodes.clone(), &with(json!({"nodeSelector": {"disk": "ssd"}})), 2);
    check_nodes(nodes.clone(), &with(json!({"tolerations": [{"key": "k", "operator": "Exists"}]})), 6);
    check_nodes(nodes.clone(), &with(json!({"tolerations": [{"operator": "Exists"}]})), 8);
    let affinity = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]});
    check_nodes(nodes, &with(json!({"hardNodeAffinity": affinity})), 2);
}

#[test]
fn the_smallest_estimate_counts() {
    let mut clusters = snapshot(&[m1().has("cpu", "1")]);
    clusters.set_nodes("m1", Some(Arc::new(ClusterNodes { nodes: vec![node("n1", 9500, 100)], ..Default::default() })));
    let spec = BindingSpec { replicas: 2, ..asking(json!({"cpu": "1"})) };
    assert_eq!(estimates(&clusters, &spec, &SchedulerOptions::default()), [1, 9]);
    let text =
        "failed to assign replicas: failed to scale up: Clusters available replicas 1 are not enough to schedule.";
    assert_eq!(fixtures::outcome(&clusters, &spec), text);
    let off = SchedulerOptions { estimate_from_nodes: false, ..SchedulerOptions::default() };
    assert_eq!(estimates(&clusters, &spec, &off), [1]);
}

fn set_of(parts: &[(i32, &str)]) -> BindingSpec {
    let constraints = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let mut spec = binding(0, json!({"replicaScheduling": aggregated(), "spreadConstraints": constraints}));
    let component = |(replicas, cpu): &(i32, &str)| json!({"name": cpu, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
    spec.components = serde_json::from_value(parts.iter().map(component).collect()).expect("components");
    spec.replica_requirements = None;
    spec
}

#[test]
fn components_are_counted_as_whole_sets() {
    let options = SchedulerOptions { multiple_pod_templates: true, ..SchedulerOptions::default() };
    let check = |cluster: Cluster, parts: &[(i32, &str)], expected: i32| {
        assert_eq!(estimates(&snapshot(&[cluster]), &set_of(parts), &options), [expected], "{parts:?}");
    };
    let parts = [(1, "1"), (2, "500m")];
    check(m1().has("cpu", "10"), &parts, 5);
    check(m1().has("cpu", "10").pods(8), &parts, 2);
    check(m1().has("cpu", "1900m"), &parts, 0);
    check(m1(), &parts, 0);
    check(m1().pods(7), &[(0, "1")], 7);
    // On modelled nodes of 2 cpu a pod of 1.5 leaves no capacity for one of 1.
    check(modelled(&[(1, 4)]), &[(1, "1500m"), (1, "1")], 2);
    let mut with_nodes = snapshot(&[m1().has("cpu", "100")]);
    let nodes = vec![node("n1", 2500, 10), node("n2", 2500, 10)];
    with_nodes.set_nodes("m1", Some(Arc::new(ClusterNodes { nodes, ..Default::default() })));
    assert_eq!(estimates(&with_nodes, &set_of(&[(1, "1500m"), (2, "500m")]), &options), [33, 1]);
    assert_eq!(estimates(&with_nodes, &set_of(&[(0, "1")]), &options), [100, i32::MAX]);
}

#[test]
fn a_set_needs_capacity_in_one_cluster() {
    let options = SchedulerOptions { multiple_pod_templates: true, ..SchedulerOptions::default() };
    let clusters = snapshot(&[cluster("m1").has("cpu", "1"), cluster("m2").has("cpu", "9")]);
    let decide = |parts: &[(i32, &str)]| {
        fixtures::text(&fixtures::decide(&clusters, &set_of(parts), &Default::default(), &options).result)
    };
    assert_eq!(decide(&[(1, "2"), (3, "1")]), "m2:0");
    let none = "failed to select clusters: no enough resource when selecting 1 clusters";
    assert_eq!(decide(&[(1, "2"), (30, "1")]), none);
}

/// Karmada 1.19: the result has the replicas of each component of a set with several.
#[test]
fn the_result_names_the_components_of_a_set() {
    let clusters = snapshot(&[m1().has("cpu", "10")]);
    let check = |parts: &[(i32, &str)], is_new: bool, expected: &[i32]| {
        let options =
            SchedulerOptions { multiple_pod_templates: true, component_results: is_new, ..SchedulerOptions::default() };
        let decision = fixtures::decide(&clusters, &set_of(parts), &BindingStatus::default(), &options);
        let targets = decision.result.expect("placed");
        let replicas: Vec<i32> = targets[0].components.iter().map(|component| component.replicas).collect();
        assert_eq!(replicas, expected);
    };
    check(&[(1, "100m"), (3, "100m")], true, &[1, 3]);
    check(&[(1, "100m"), (3, "100m")], false, &[]);
    check(&[(2, "100m")], true, &[]);
}

#[test]
fn the_answer_of_an_estimator_limits_its_cluster_only() {
    let clusters = snapshot(&[cluster("m1").pods(50), cluster("m2").pods(50)]);
    let spec = fixtures::binding(20, json!({"replicaScheduling": fixtures::dynamic()}));
    let (peers, status, options) = (Peers::default(), BindingStatus::default(), SchedulerOptions::default());
    let answers = [("m1".to_owned(), 5)].into();
    let request = Request { spec: &spec, status: &status, peers: &peers, options: &options, answers: Some(&answers) };
    assert_eq!(scheduler::candidates(&clusters, &request), ["m1", "m2"]);
    let (decision, explained) = scheduler::explain(&clusters, &request);
    assert_eq!(fixtures::text(&decision.result), "m1:2, m2:18");
    let named = |place: usize| {
        let estimates = &explained.attempts[0].candidates[place].estimates;
        estimates.iter().map(|estimate| (estimate.estimator.as_str(), estimate.replicas)).collect::<Vec<_>>()
    };
    assert_eq!(named(0), [("general-estimator", 50), ("karmada-scheduler-estimator", 5)]);
    assert_eq!(named(1), [("general-estimator", 50)]);
}
