//! Workloads that failed over: they stay, or return if their policy asks for it.

use std::time::Duration;

use api::cluster::CLUSTERS;
use api::work::RESOURCE_BINDINGS;
use object::Object;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::plane::{TestPlane, merge, summary};

/// The ways in which a policy can prefer one cluster over another.
fn preferences() -> Vec<(&'static str, Value)> {
    let weight = |name: &str, weight: i32| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    let only = |name: &str| json!({"clusterNames": [name]});
    let divided = |preference: Value| {
        let mut strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
        merge(&mut strategy, &preference);
        strategy
    };
    let by_capacity = || divided(json!({"weightPreference": {"dynamicWeight": "AvailableReplicas"}}));
    let weights = divided(json!({"weightPreference": {"staticWeightList": [weight("m1", 1), weight("m2", 0)]}}));
    let group = |name: &str| json!({"affinityName": name, "clusterNames": [name]});
    vec![
        ("weights", json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "replicaScheduling": weights})),
        ("groups", json!({"clusterAffinities": [group("m1"), group("m2")], "replicaScheduling": by_capacity()})),
        (
            "overflow",
            json!({"replicaScheduling": by_capacity(), "clusterAffinities": [{"affinityName": "all",
            "clusterNames": ["m1"], "overflowAffinities": [only("m2")]}]}),
        ),
    ]
}

impl TestPlane {
    /// Evicts as the taint manager does.
    async fn evict(&self, name: &str, cluster: &str) {
        let tainted = json!({"spec": {"taints": [{"key": "cluster.karmada.io/unreachable", "effect": "NoExecute"}]},
            "metadata": {"generation": 2}});
        self.patch(&CLUSTERS.gvr(), cluster, tainted).await;
        let mut binding = Object::clone(&*self.get(name).await);
        let eviction = propagation::eviction::Eviction {
            purge_mode: "Gracefully".to_owned(),
            reason: "TaintUntolerated".to_owned(),
            producer: "TaintManager".to_owned(),
            ..Default::default()
        };
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        assert!(propagation::eviction::evict_on_record(&mut binding, cluster, eviction, now));
        let body = json!({"metadata": {"annotations": binding.get(&["metadata", "annotations"])},
            "spec": {"clusters": binding.get(&["spec", "clusters"]),
                "gracefulEvictionTasks": binding.get(&["spec", "gracefulEvictionTasks"])}});
        self.patch(&RESOURCE_BINDINGS.gvr(), name, body).await;
    }

    async fn recover(&self, cluster: &str, at: &str) {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
        self.patch(&CLUSTERS.gvr(), cluster, json!({"status": {"conditions": ready}})).await;
        let untainted = json!({"spec": {"taints": null}, "metadata": {"generation": 3}});
        self.patch(&CLUSTERS.gvr(), cluster, untainted).await;
    }

    async fn end_tasks(&self, name: &str) {
        self.patch(&RESOURCE_BINDINGS.gvr(), name, json!({"spec": {"gracefulEvictionTasks": null}})).await;
        self.rest().await;
    }

    fn policy(&self, failback: &str) {
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "default", "annotations": {"flotilla.dev/failback": failback}},
            "spec": {"resourceSelectors": []}});
        self.api.seed(&api::policy::PROPAGATION_POLICIES.gvr(), Object::from_value(policy).expect("a map"));
    }
}

const RESILIENT: &str = "ResilientFailover=true";

fn of_policy(placement: &Value) -> Value {
    let annotations =
        json!({"propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "p"});
    json!({"metadata": {"annotations": annotations}, "spec": {"placement": placement}})
}

#[tokio::test(start_paused = true)]
async fn a_failed_over_workload_stays_when_scaled() {
    for (way, placement) in preferences() {
        let plane = TestPlane::new();
        plane.cluster("m1", 10, json!({}));
        plane.cluster("m2", 10, json!({}));
        plane.binding("web", 2, of_policy(&placement));
        plane.start(RESILIENT);
        plane.expect("web", "m1:2 (Success)").await;
        plane.evict("web", "m1").await;
        let moved = plane.expect("web", "m2:2 (Success)").await;
        let history = propagation::failover_history::History::of(&moved).0;
        let to: Vec<&str> = history[0].to.iter().flatten().map(|target| target.name.as_str()).collect();
        assert_eq!((history[0].from.as_str(), to), ("m1", vec!["m2"]), "{way}");
        plane.end_tasks("web").await;
        plane.recover("m1", "2026-01-01T00:00:00Z").await;
        plane.rest().await;
        plane.expect("web", "m2:2 (Success)").await;
        plane.patch(&RESOURCE_BINDINGS.gvr(), "web", json!({"spec": {"replicas": 3}})).await;
        plane.expect("web", "m2:3 (Success)").await;
        if way == "weights" {
            let reported = plane.decisions.get("default/web").expect("remembered").explanation;
            let reason = &reported.attempts[0].left_out[0].reasons[0].message;
            assert_eq!(reason, "the workload left it by failover and failback is not enabled");
        }
        // If no other cluster is left, it may return.
        plane.evict("web", "m2").await;
        plane.expect("web", "m1:3 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_over_workload_returns_if_its_policy_asks_for_it() {
    for (way, placement) in preferences() {
        let plane = TestPlane::new();
        plane.cluster("m1", 10, json!({}));
        plane.cluster("m2", 10, json!({}));
        plane.policy("after=2m");
        plane.binding("web", 2, of_policy(&placement));
        plane.start(RESILIENT);
        plane.expect("web", "m1:2 (Success)").await;
        plane.evict("web", "m1").await;
        plane.expect("web", "m2:2 (Success)").await;
        plane.end_tasks("web").await;
        plane.recover("m1", "2026-01-01T00:00:40Z").await;
        let start = Instant::now();
        plane.rest().await;
        plane.expect("web", "m2:2 (Success)").await;
        let back = plane.expect("web", "m1:2 (Success)").await;
        assert!(start.elapsed() > Duration::from_secs(60), "{way}: too early: {:?}", start.elapsed());
        let task = &back.items(&["spec", "gracefulEvictionTasks"])[0];
        let reported = (task["fromCluster"].as_str(), task["reason"].as_str(), task["purgeMode"].as_str());
        assert_eq!(reported, (Some("m2"), Some("Failback"), Some("Gracefully")), "{way}");
        let history = propagation::failover_history::History::of(&back).0;
        assert_eq!(history.len(), 2, "{way}: {history:?}");
        assert!(!history[0].returned.is_empty() && history[1].from == "m2", "{way}: {history:?}");
        plane.end_tasks("web").await;
        plane.rest().await;
        plane.expect("web", "m1:2 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_are_kept_until_they_are_ready_in_the_preferred_cluster() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    plane.cluster("m2", 10, json!({}));
    plane.policy("after=0s");
    let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [weight("m1"), weight("m2")]}}});
    plane.binding("web", 4, of_policy(&placement));
    plane.start(RESILIENT);
    plane.expect("web", "m1:2, m2:2 (Success)").await;
    plane.evict("web", "m1").await;
    plane.expect("web", "m2:4 (Success)").await;
    plane.end_tasks("web").await;
    plane.recover("m1", "2026-01-01T00:00:00Z").await;
    let back = plane.expect("web", "m1:2, m2:2 (Success)").await;
    let tasks = back.items(&["spec", "gracefulEvictionTasks"]);
    let reported = (tasks[0]["fromCluster"].as_str(), tasks[0]["reason"].as_str(), tasks[0]["replicas"].as_i64());
    assert_eq!((tasks.len(), reported), (1, (Some("m2"), Some("Failback"), Some(4))));
    let spec: api::work::BindingSpec = api::read(&back).expect("a binding");
    let given: Vec<(String, i32)> =
        propagation::works::targets(&spec).into_iter().map(|target| (target.name, target.replicas)).collect();
    assert_eq!(given, [("m1".to_owned(), 2), ("m2".to_owned(), 4)], "old replicas stay until the new ones are ready");
    // A hold is not an eviction: the cluster stays usable.
    plane.patch(&RESOURCE_BINDINGS.gvr(), "web", json!({"spec": {"replicas": 6}})).await;
    plane.expect("web", "m1:3, m2:3 (Success)").await;
    plane.end_tasks("web").await;
    plane.rest().await;
    plane.expect("web", "m1:3, m2:3 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn workloads_return_at_the_rate_of_their_policy() {
    let plane = TestPlane::new();
    plane.cluster("m1", 100, json!({}));
    plane.cluster("m2", 100, json!({}));
    plane.policy("after=0s,rate=0.5");
    let (_, placement) = &preferences()[0];
    let names: Vec<String> = (0..10).map(|index| format!("web-{index}")).collect();
    for name in &names {
        plane.binding(name, 1, of_policy(placement));
    }
    plane.start(RESILIENT);
    for name in &names {
        plane.expect(name, "m1:1 (Success)").await;
        plane.evict(name, "m1").await;
        plane.expect(name, "m2:1 (Success)").await;
    }
    plane.recover("m1", "2026-01-01T00:00:00Z").await;
    let back = async || {
        let mut back = 0;
        for name in &names {
            back += usize::from(summary(&*plane.get(name).await).starts_with("m1"));
        }
        back
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    let some = back().await;
    assert!((4..=6).contains(&some), "one in two seconds: {some}");
    for name in &names {
        plane.expect(name, "m1:1 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_binding_that_keeps_its_clusters_counts_as_scheduled() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    let (_, placement) = &preferences()[0];
    plane.binding("web", 2, of_policy(placement));
    plane.start(RESILIENT);
    plane.expect("web", "m1:2 (Success)").await;
    plane.evict("web", "m1").await;
    plane.expect("web", " (NoClusterFit)").await;
    plane.recover("m1", "2026-01-01T00:00:00Z").await;
    let back = json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}], "gracefulEvictionTasks": null}});
    plane.patch(&RESOURCE_BINDINGS.gvr(), "web", back).await;
    plane.expect("web", "m1:2 (Success)").await;
}
