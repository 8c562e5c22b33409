//! Simulated nodes over an in-memory API, in virtual time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use futures::StreamExt;
use object::{GroupVersionResource, Object};
use pod_streams::{LogOptions, PodBackend, PodRef};
use reconcile::VirtualClock;
use serde_json::{Value, json};
use simulated_nodes::{Parts, Settings, Simulation};
use tokio_util::sync::{CancellationToken, DropGuard};

struct Room {
    api: MemoryApi,
    client: ClusterClient,
    simulation: Simulation,
    _ends: DropGuard,
}

fn core(plural: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", plural)
}

impl Room {
    fn start(settings: Settings) -> Self {
        let api = MemoryApi::default();
        let cancel = CancellationToken::new();
        let clock = Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time")));
        let parts = Parts { client: api.client(), clock, settings };
        let simulation = Simulation::start(parts, &cancel);
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
    let room = Room::start(Settings { nodes: 3, ..Settings::default() });
    room.until("three nodes", async || room.list("nodes").await.iter().filter(|node| is_ready(node)).count() == 3)
        .await;
    let lease = ResourceRef::namespaced(
        &GroupVersionResource::new("coordination.k8s.io", "v1", "leases"),
        "kube-node-lease",
        "node-2",
    );
    let renewed = async || {
        let lease = room.client.find(lease.clone()).await.expect("an answer");
        lease.map(|lease| lease.str_at(&["spec", "renewTime"]).to_owned()).unwrap_or_default()
    };
    room.until("a lease", async || !renewed().await.is_empty()).await;
    let first = renewed().await;
    room.until("it is renewed", async || renewed().await > first).await;
}

#[tokio::test(start_paused = true)]
async fn pods_run_with_unique_addresses_and_terminate_on_delete() {
    let room = Room::start(Settings { nodes: 2, ..Settings::default() });
    for number in 0..40 {
        room.add_pod(&format!("p{number}"), &format!("node-{}", number % 2 + 1), json!({}));
    }
    room.add_pod("elsewhere", "other-node", json!({}));
    room.until("all are ready", async || room.list("pods").await.iter().filter(|pod| is_ready(pod)).count() == 40)
        .await;
    let pods = room.list("pods").await;
    let mine = pods.iter().filter(|pod| pod.name() != "elsewhere");
    let addresses: HashSet<&str> = mine.map(|pod| pod.str_at(&["status", "podIP"])).collect();
    assert_eq!(addresses.len(), 40);
    assert!(
        room.pod("elsewhere").await.expect("it is there").get(&["status"]).is_none(),
        "pods of other nodes are ignored"
    );

    let writes = || room.api.calls().iter().filter(|call| call.contains("pods")).count();
    let before = writes();
    tokio::time::sleep(Duration::from_secs(300)).await;
    // Apart from reads of this test, nothing happens to unchanged pods.
    assert_eq!(writes(), before);

    let mut leaving = Object::clone(&*room.pod("p1").await.expect("it is there"));
    leaving.set(&["metadata", "deletionTimestamp"], "2026-01-01T01:00:00Z");
    room.api.seed(&core("pods"), leaving);
    room.until("the pod is gone", async || room.pod("p1").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_with_its_container() {
    let room = Room::start(Settings::default());
    room.add_pod("p", "node-1", json!({"flotilla.dev/simulate": "crash", "flotilla.dev/run-for": "25s"}));
    room.until("it runs", async || {
        let pod = room.pod("p").await.expect("it is there");
        pod.str_at(&["status", "phase"]) == "Running"
            && room.simulation.logs(&room.reference("p"), LogOptions::default()).await.is_ok()
    })
    .await;
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let lines = room.simulation.logs(&room.reference("p"), options).await.expect("a log");
    let pieces: Vec<_> = lines.collect().await;
    let text: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.expect("no error").to_vec()).collect();
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("started nginx") && lines[3].contains("exiting with code 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_does_not_update_its_pods() {
    let room = Room::start(Settings::default());
    room.until("the node", async || !room.list("nodes").await.is_empty()).await;
    let mut node = Object::clone(&*room.list("nodes").await[0]);
    node.set_annotation("flotilla.dev/simulate", "silent");
    room.api.seed(&core("nodes"), node.clone());
    tokio::time::sleep(Duration::from_secs(1)).await;
    room.add_pod("p", "node-1", json!({}));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(room.pod("p").await.expect("it is there").get(&["status"]).is_none());
    assert!(room.simulation.logs(&room.reference("p"), LogOptions::default()).await.is_err());
    node.remove(&["metadata", "annotations"]);
    room.api.seed(&core("nodes"), node);
    room.until("the pod runs", async || room.pod("p").await.is_some_and(|pod| is_ready(&pod))).await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_load_is_divided_among_running_pods() {
    let room = Room::start(Settings::default());
    for number in 0..4 {
        let name = format!("p{number}");
        room.add_pod(&name, "node-1", json!({"flotilla.dev/usage-cpu": "shared(2)"}));
        let mut pod = Object::clone(&*room.pod(&name).await.expect("it is there"));
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
        pod.set(&["metadata", "ownerReferences"], owner);
        room.api.seed(&core("pods"), pod);
    }
    let usages = || {
        let wanted = simulated_nodes::metrics::Wanted { namespace: Some("a"), ..Default::default() };
        let metrics = room.simulation.pod_metrics(&wanted);
        metrics.iter().map(|pod| pod.items(&["containers"])[0]["usage"]["cpu"].clone()).collect::<Vec<Value>>()
    };
    room.until("each carries a quarter", async || usages() == vec![json!("500m"); 4]).await;
}
