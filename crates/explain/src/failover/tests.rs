//! Lost clusters on an in-memory control plane.

use api::cluster::CLUSTERS;
use cluster_client::testing::MemoryApi;
use serde_json::{Value, json};

use super::*;
use crate::gather::ExplainerDeps;

struct Plane {
    api: MemoryApi,
}

impl Plane {
    fn new(clusters: &[(&str, i32)]) -> Self {
        let api = MemoryApi::default();
        for (name, pods) in clusters {
            let cluster = json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                "spec": {"syncMode": "Pull"},
                "status": {
                    "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                    "resourceSummary": {"allocatable": {"pods": pods.to_string()}},
                },
            });
            api.seed(&CLUSTERS.gvr(), Object::from_value(cluster).expect("a map"));
        }
        Self { api }
    }

    fn binding(&self, name: &str, replicas: i32, placement: Value, clusters: Value) {
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicas": replicas, "replicaRequirements": {}, "placement": placement, "clusters": clusters},
        });
        self.api.seed(&RESOURCE_BINDINGS.gvr(), Object::from_value(binding).expect("a map"));
    }

    async fn lose(&self, cluster: &str) -> Result<Simulation, Status> {
        let explainer = Explainer::new(ExplainerDeps::of_client(self.api.client()));
        explainer.simulate_failover(cluster).await
    }
}

fn weights(list: &[(&str, i32)]) -> Value {
    let entry = |(name, weight): &(&str, i32)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": list.iter().map(entry).collect::<Vec<_>>()}}})
}

fn by_capacity() -> Value {
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}})
}

#[tokio::test]
async fn each_workload_is_placed_on_the_remaining_capacity() {
    let plane = Plane::new(&[("ottawa", 100), ("robbinsdale", 5), ("stpetersburg", 4)]);
    let seed = || weights(&[("ottawa", 1), ("robbinsdale", 0), ("stpetersburg", 0)]);
    plane.binding("a", 4, seed(), json!([{"name": "ottawa", "replicas": 4}]));
    plane.binding("b", 3, seed(), json!([{"name": "ottawa", "replicas": 3}]));
    plane.binding("c", 4, by_capacity(), json!([{"name": "ottawa", "replicas": 4}]));
    plane.binding("d", 9, by_capacity(), json!([{"name": "ottawa", "replicas": 9}]));
    let duplicated = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    let everywhere = json!([{"name": "ottawa", "replicas": 1}, {"name": "robbinsdale", "replicas": 1},
        {"name": "stpetersburg", "replicas": 1}]);
    plane.binding("e", 1, duplicated, everywhere);
    let mut tolerant = seed();
    tolerant["clusterTolerations"] = json!([{"operator": "Exists"}]);
    plane.binding("f", 1, tolerant, json!([{"name": "ottawa", "replicas": 1}]));
    plane.binding("g", 1, seed(), json!([{"name": "robbinsdale", "replicas": 1}]));
    let simulation = plane.lose("ottawa").await.expect("an answer");
    let described: Vec<String> = simulation
        .bindings
        .iter()
        .map(|effect| {
            let to: Vec<String> =
                effect.to.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
            format!("{} {:?} {} -{}", effect.subject.name, effect.verdict, to.join(","), effect.unplaced)
        })
        .collect();
    assert_eq!(
        described,
        [
            "a Moves robbinsdale:4 -0",
            "b DoesNotFit robbinsdale:3 -2",
            "c Moves stpetersburg:4 -0",
            "d DoesNotFit  -9",
            "e Covered  -0",
            "f Stays  -0",
        ]
    );
    let expected =
        Totals { moves: 2, covered: 1, stays: 1, does_not_fit: 2, replicas_moved: 11, replicas_unplaced: 11 };
    assert_eq!(simulation.totals, expected);
    assert_eq!(simulation.gains.get("robbinsdale"), Some(&7));
    let mut lines = simulation.text.lines();
    let first = lines.next().expect("a line");
    assert_eq!(first, "Without ottawa: 2 would not fit, 2 would move, 1 covered by other clusters, 1 would stay.");
    assert!(simulation.text.contains("robbinsdale has capacity for 1 of 3"), "{}", simulation.text);
}

#[tokio::test]
async fn a_missing_cluster_is_an_error_and_an_empty_one_moves_nothing() {
    let plane = Plane::new(&[("ottawa", 1)]);
    assert_eq!(plane.lose("atlantis").await.expect_err("unknown").code, 404);
    assert_eq!(plane.lose("ottawa").await.expect("an answer").text, "Without ottawa: nothing runs there.\n");
}
