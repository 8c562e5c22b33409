//! Simulated nodes over an in-memory API, in virtual time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use futures::StreamExt;
use object::{GroupVersionResource, Object};
use pod_streams::{LogOptions, PodBackend, PodRef};
use reconcile::{Mirrors, VirtualClock};
use serde_json::{Value, json};
use simulated_nodes::{SimulatedNodeSettings, Simulation, SimulationDeps};
use tokio_util::sync::{CancellationToken, DropGuard};

struct SimulationTest {
    api: MemoryApi,
    client: ClusterClient,
    simulation: Simulation,
    _ends: DropGuard,
}

fn core(plural: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", plural)
}

impl SimulationTest {
    fn start(settings: SimulatedNodeSettings) -> Self {
        let api = MemoryApi::default();
        let cancel = CancellationToken::new();
        let clock = Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time")));
        let mirrors = Mirrors::new(api.client(), cancel.clone());
        let simulation = Simulation::start(SimulationDeps { mirrors, clock, settings });
        tokio::spawn(simulated_nodes::run(simulation.clone(), cancel.clone()));
        Self { client: api.client(), api, simulation, _ends: cancel.drop_guard() }
    }

    fn add_pod(&self, name: &str, node: &str, annotations: Value) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "a", "annotations": annotations},
            "spec": {"nodeName": node, "restartPolicy": "Always", "containers": [{"name": "main", "image": "nginx"}]}});
        self.api.seed(&core("pods"), Object::from_value(pod).expect("a map"));
    }

    async fn list(&self, plural: &str) -> Vec<Arc<Object>> {
        let list = self.client.list_all(ResourceRef::all(&core(plural)), ListOptions::default()).await;
        list.expect("listed").items
    }

    async fn pod(&self, name: &str) -> Option<Arc<Object>> {
        self.client.find(ResourceRef::namespaced(&core("pods"), "a", name)).await.expect("an answer")
    }

    /// Waits in virtual time, which advances as soon as all tasks are idle.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..600 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("timed out: {what}");
    }

    fn reference(&self, name: &str) -> PodRef {
        let (namespace, container) = ("a".to_owned(), "main".to_owned());
        PodRef { namespace, name: name.to_owned(), uid: String::new(), container }
    }
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.items(&["status", "conditions"]);
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn nodes_register_and_renew_their_leases() {
    let test = SimulationTest::start(SimulatedNodeSettings { nodes: 3, ..SimulatedNodeSettings::default() });
    test.until("three nodes", async || test.list("nodes").await.iter().filter(|node| is_ready(node)).count() == 3)
        .await;
    let lease = ResourceRef::namespaced(
        &GroupVersionResource::new("coordination.k8s.io", "v1", "leases"),
        "kube-node-lease",
        "node-2",
    );
    let renewed = async || {
        let lease = test.client.find(lease.clone()).await.expect("an answer");
        lease.map(|lease| lease.str_at(&["spec", "renewTime"]).to_owned()).unwrap_or_default()
    };
    test.until("a lease", async || !renewed().await.is_empty()).await;
    let first = renewed().await;
    test.until("it is renewed", async || renewed().await > first).await;
}

#[tokio::test(start_paused = true)]
async fn pods_run_with_unique_addresses_and_terminate_on_delete() {
    let test = SimulationTest::start(SimulatedNodeSettings { nodes: 2, ..SimulatedNodeSettings::default() });
    for number in 0..40 {
        test.add_pod(&format!("p{number}"), &format!("node-{}", number % 2 + 1), json!({}));
    }
    test.add_pod("elsewhere", "other-node", json!({}));
    test.until("all are ready", async || test.list("pods").await.iter().filter(|pod| is_ready(pod)).count() == 40)
        .await;
    let pods = test.list("pods").await;
    let mine = pods.iter().filter(|pod| pod.name() != "elsewhere");
    let addresses: HashSet<&str> = mine.map(|pod| pod.str_at(&["status", "podIP"])).collect();
    assert_eq!(addresses.len(), 40);
    assert!(
        test.pod("elsewhere").await.expect("it is there").get(&["status"]).is_none(),
        "pods of other nodes are ignored"
    );

    let writes = || test.api.calls().iter().filter(|call| call.contains("pods")).count();
    let before = writes();
    tokio::time::sleep(Duration::from_secs(300)).await;
    // Apart from reads of this test, nothing happens to unchanged pods.
    assert_eq!(writes(), before);

    let mut leaving = Object::clone(&*test.pod("p1").await.expect("it is there"));
    leaving.set(&["metadata", "deletionTimestamp"], "2026-01-01T01:00:00Z");
    test.api.seed(&core("pods"), leaving);
    test.until("the pod is gone", async || test.pod("p1").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_with_its_container() {
    let test = SimulationTest::start(SimulatedNodeSettings::default());
    test.add_pod("p", "node-1", json!({"flotilla.dev/simulate": "crash", "flotilla.dev/run-for": "25s"}));
    test.until("it runs", async || {
        let pod = test.pod("p").await.expect("it is there");
        pod.str_at(&["status", "phase"]) == "Running"
            && test.simulation.logs(&test.reference("p"), LogOptions::default()).await.is_ok()
    })
    .await;
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let lines = test.simulation.logs(&test.reference("p"), options).await.expect("a log");
    let pieces: Vec<_> = lines.collect().await;
    let text: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.expect("no error").to_vec()).collect();
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("started nginx") && lines[3].contains("exiting with code 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_does_not_update_its_pods() {
    let test = SimulationTest::start(SimulatedNodeSettings::default());
    test.until("the node", async || !test.list("nodes").await.is_empty()).await;
    let mut node = Object::clone(&*test.list("nodes").await[0]);
    node.set_annotation("flotilla.dev/simulate", "silent");
    test.api.seed(&core("nodes"), node.clone());
    tokio::time::sleep(Duration::from_secs(1)).await;
    test.add_pod("p", "node-1", json!({}));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(test.pod("p").await.expect("it is there").get(&["status"]).is_none());
    assert!(test.simulation.logs(&test.reference("p"), LogOptions::default()).await.is_err());
    node.remove(&["metadata", "annotations"]);
    test.api.seed(&core("nodes"), node);
    test.until("the pod runs", async || test.pod("p").await.is_some_and(|pod| is_ready(&pod))).await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_load_is_divided_among_running_pods() {
    let test = SimulationTest::start(SimulatedNodeSettings::default());
    for number in 0..4 {
        let name = format!("p{number}");
        test.add_pod(&name, "node-1", json!({"flotilla.dev/usage-cpu": "shared(2)"}));
        let mut pod = Object::clone(&*test.pod(&name).await.expect("it is there"));
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
        pod.set(&["metadata", "ownerReferences"], owner);
        test.api.seed(&core("pods"), pod);
    }
    let usages = || {
        let wanted = simulated_nodes::metrics::MetricsQuery { namespace: Some("a"), ..Default::default() };
        let metrics = test.simulation.pod_metrics(&wanted);
        metrics.iter().map(|pod| pod.items(&["containers"])[0]["usage"]["cpu"].clone()).collect::<Vec<Value>>()
    };
    test.until("each carries a quarter", async || usages() == vec![json!("500m"); 4]).await;
}
