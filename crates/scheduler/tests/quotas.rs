//! Quotas in the namespaces of members, as counted by Karmada 1.18 with the gate ResourceQuotaEstimate
//! (pkg/estimator/server/framework/plugins/resourcequota), and as expected by its end-to-end suite.

mod fixtures;

use std::sync::Arc;

use api::capacity::{ClusterNodes, NodeCapacity, QuotaCapacity};
use api::work::{BindingSpec, BindingStatus, TargetCluster};
use fixtures::{aggregated, binding, cluster, snapshot};
use jiff::Timestamp;
use scheduler::{ClusterSnapshot, Peers, Request, SchedulerOptions};
use serde_json::{Value, json};

fn options() -> SchedulerOptions {
    SchedulerOptions { resource_quotas: true, multiple_pod_templates: true, ..SchedulerOptions::default() }
}

/// The rest of a resource, and the scopes of the quota.
type Quota<'a> = (&'a [(&'a str, i64)], Value);

fn quota((free, scopes): &Quota<'_>) -> QuotaCapacity {
    QuotaCapacity {
        scopes: serde_json::from_value(scopes.clone()).expect("scopes"),
        free: free.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect(),
    }
}

/// A member with ample nodes, and quotas in the namespace `default`.
fn nodes(quotas: &[Quota<'_>]) -> Option<Arc<ClusterNodes>> {
    let much = [("cpu", 1_000_000), ("memory", 1 << 40), ("pods", 1000), ("example.com/gpu", 1000)];
    let allocatable = much.map(|(name, amount)| (name.to_owned(), amount)).into();
    let node = NodeCapacity { name: "n1".to_owned(), allocatable, ..NodeCapacity::default() };
    let quotas = [("default".to_owned(), quotas.iter().map(quota).collect())].into();
    Some(Arc::new(ClusterNodes { nodes: vec![node], quotas }))
}

fn member(quotas: &[Quota<'_>]) -> ClusterSnapshot {
    let mut clusters = snapshot(&[wide("m1")]);
    clusters.set_nodes("m1", nodes(quotas));
    clusters
}

fn wide(name: &str) -> fixtures::Cluster {
    cluster(name).pods(1000).has("cpu", "1000").has("memory", "1Ti").has("example.com/gpu", "1000")
}

fn asking(requests: Value, priority_class: &str) -> BindingSpec {
    let mut spec = binding(1, json!({"replicaScheduling": aggregated()}));
    let requirements = json!({"resourceRequest": requests, "priorityClassName": priority_class});
    spec.replica_requirements = serde_json::from_value(requirements).expect("requirements");
    spec
}

/// The quota estimate for the first candidate; `None` if no quota applies.
fn allowed(clusters: &ClusterSnapshot, spec: &BindingSpec, options: &SchedulerOptions) -> Option<i32> {
    let (peers, status) = (Peers::default(), BindingStatus::default());
    let (_, explained) =
        scheduler::explain(clusters, &Request { spec, status: &status, peers: &peers, options, answers: None });
    let estimates = &explained.attempts[0].candidates[0].estimates;
    estimates.iter().find(|estimate| estimate.estimator == "ResourceQuotaEstimator").map(|estimate| estimate.replicas)
}

#[track_caller]
fn check(quotas: &[Quota<'_>], requests: Value, priority_class: &str, expected: Option<i32>) {
    let spec = asking(requests, priority_class);
    assert_eq!(allowed(&member(quotas), &spec, &options()), expected, "{quotas:?}");
}

fn priority(operator: &str, values: &[&str]) -> Value {
    json!([{"scopeName": "PriorityClass", "operator": operator, "values": values}])
}

#[test]
fn the_tightest_quota_of_the_namespace_applies() {
    let none = || json!([]);
    check(&[(&[("cpu", 1000)], none())], json!({"cpu": "300m"}), "", Some(3));
    check(&[(&[("cpu", 1000)], none()), (&[("cpu", 500)], none())], json!({"cpu": "300m"}), "", Some(1));
    check(&[(&[("cpu", 1000), ("memory", 1 << 30)], none())], json!({"cpu": "10m", "memory": "512Mi"}), "", Some(2));
    check(&[(&[("cpu", 299)], none())], json!({"cpu": "300m"}), "", Some(0));
    check(&[(&[("cpu", -50)], none())], json!({"cpu": "300m"}), "", Some(0));
    check(&[(&[("example.com/gpu", 4)], none())], json!({"cpu": "1", "example.com/gpu": "2"}), "", Some(2));
    // A quota limits only the resources it names.
    check(&[(&[("memory", 0)], none())], json!({"cpu": "1"}), "", None);
    check(&[(&[("cpu", 0)], none())], json!({}), "", None);
    check(&[(&[], none())], json!({"cpu": "1"}), "", None);
    check(&[], json!({"cpu": "1"}), "", None);
}

#[test]
fn a_quota_with_scopes_counts_for_the_priority_classes_it_means() {
    let check = |scopes: Value, class: &str, expected: Option<i32>| {
        check(&[(&[("cpu", 1000)], scopes)], json!({"cpu": "500m"}), class, expected);
    };
    for (operator, values, high, none) in [
        ("Exists", &[][..], Some(2), None),
        ("DoesNotExist", &[], None, Some(2)),
        ("In", &["high", "low"], Some(2), None),
        ("In", &["low"], None, None),
        ("NotIn", &["high"], None, Some(2)),
        ("NotIn", &["low"], Some(2), Some(2)),
        ("In", &[], None, None),
        ("Near", &["high"], None, None),
    ] {
        check(priority(operator, values), "high", high);
        check(priority(operator, values), "", none);
    }
    // A replica's requirements do not determine other scopes.
    for scope in ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"] {
        check(json!([{"scopeName": scope, "operator": "Exists"}]), "high", None);
    }
    let both = json!([{"scopeName": "NotBestEffort", "operator": "Exists"},
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]);
    check(both, "high", Some(2));
}

#[test]
fn other_namespaces_and_a_disabled_gate_impose_no_quota() {
    let clusters = member(&[(&[("cpu", 1000)], json!([]))]);
    let spec = asking(json!({"cpu": "1"}), "");
    assert_eq!(allowed(&clusters, &spec, &options()), Some(1));
    let mut elsewhere = spec.clone();
    elsewhere.resource.namespace = "elsewhere".to_owned();
    assert_eq!(allowed(&clusters, &elsewhere, &options()), None);
    // The namespace reported by an interpreter takes precedence over the workload's.
    elsewhere.replica_requirements.as_mut().expect("requirements").namespace = "default".to_owned();
    assert_eq!(allowed(&clusters, &elsewhere, &options()), Some(1));
    for off in [
        SchedulerOptions { resource_quotas: false, ..options() },
        SchedulerOptions { estimate_from_nodes: false, ..options() },
        SchedulerOptions::default(),
    ] {
        assert_eq!(allowed(&clusters, &spec, &off), None);
    }
}

#[test]
fn sets_of_components_are_counted_by_the_parts_a_quota_means() {
    let constraints = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let mut spec = binding(0, json!({"replicaScheduling": aggregated(), "spreadConstraints": constraints}));
    let part = |replicas: i32, cpu: &str, class: &str| {
        json!({"name": class, "replicas": replicas,
        "replicaRequirements": {"resourceRequest": {"cpu": cpu}, "priorityClassName": class}})
    };
    spec.components = serde_json::from_value(json!([part(1, "1", "high"), part(2, "500m", "")])).expect("components");
    spec.replica_requirements = None;
    let check = |quotas: &[Quota<'_>], expected: Option<i32>| {
        assert_eq!(allowed(&member(quotas), &spec, &options()), expected, "{quotas:?}");
    };
    check(&[(&[("cpu", 5000)], json!([]))], Some(2));
    check(&[(&[("cpu", 5000)], priority("In", &["high"]))], Some(5));
    check(&[(&[("cpu", 5000)], priority("DoesNotExist", &[])), (&[("cpu", 9000)], json!([]))], Some(4));
    check(&[(&[("cpu", 5000)], priority("In", &["low"]))], None);
    check(&[(&[("memory", 5000)], json!([]))], None);
}

#[test]
fn a_burst_never_exceeds_the_quota() {
    let mut clusters = member(&[(&[("cpu", 1000)], json!([])), (&[("cpu", 700)], priority("In", &["high"]))]);
    let mut placed = Vec::new();
    for (n, class) in ["high", "", "high", "high", ""].into_iter().enumerate() {
        let spec = BindingSpec { replicas: 1, ..asking(json!({"cpu": "300m"}), class) };
        let decision = fixtures::decide(&clusters, &spec, &BindingStatus::default(), &options());
        if let Ok(targets) = &decision.result {
            clusters.reserve(&format!("b{n}"), &spec, targets, Timestamp::UNIX_EPOCH);
        }
        placed.push(decision.result.is_ok());
    }
    assert_eq!(placed, [true, true, true, false, false]);
    clusters.release("b1");
    clusters.settle();
    assert_eq!(allowed(&clusters, &asking(json!({"cpu": "300m"}), ""), &options()), Some(1));
    // Once the member reports its pods, its figures count.
    clusters.release("b0");
    clusters.release("b2");
    clusters.set_nodes("m1", nodes(&[(&[("cpu", 900)], json!([]))]));
    clusters.settle();
    assert_eq!(allowed(&clusters, &asking(json!({"cpu": "300m"}), ""), &options()), Some(3));
}

/// Karmada's test/e2e/suites/base/clusteraffinities_test.go: a quota of 20m in each of two clusters, replicas of 10m.
#[test]
fn replicas_overflow_to_the_next_affinity_when_the_quota_of_the_first_is_used_up() {
    let mut clusters = snapshot(&[wide("m1"), wide("m2")]);
    let mut spec = binding(
        2,
        json!({"replicaScheduling": aggregated(), "clusterAffinities": [{
            "affinityName": "primary", "clusterNames": ["m1"],
            "overflowAffinities": [{"affinityName": "secondary", "clusterNames": ["m2"]}],
        }]}),
    );
    spec.replica_requirements = serde_json::from_value(json!({"resourceRequest": {"cpu": "10m"}})).ok();
    let mut place = |spec: &mut BindingSpec, replicas: i32, used: [i64; 2]| {
        for (name, used) in ["m1", "m2"].into_iter().zip(used) {
            clusters.set_nodes(name, nodes(&[(&[("cpu", 20 - used)], json!([]))]));
        }
        clusters.settle();
        spec.replicas = replicas;
        let decision = fixtures::decide(&clusters, spec, &BindingStatus::default(), &options());
        if let Ok(targets) = &decision.result {
            spec.clusters = targets.clone();
        }
        decision.result.map(|targets| {
            let text = |target: &TargetCluster| format!("{}:{}", target.name, target.replicas);
            targets.iter().map(text).collect::<Vec<_>>().join(", ")
        })
    };
    assert_eq!(place(&mut spec, 2, [0, 0]).as_deref(), Ok("m1:2"));
    assert_eq!(place(&mut spec, 4, [20, 0]).as_deref(), Ok("m1:2, m2:2"));
    let refused = place(&mut spec, 5, [20, 20]).expect_err("more than both quotas allow");
    assert_eq!(refused.reason(), "Unschedulable");
    assert_eq!(place(&mut spec, 2, [20, 20]).as_deref(), Ok("m1:2"));
}
