//! A detector against APIs in memory with paused time: thresholds, the condition of the Cluster, and its recovery.

use std::sync::atomic::{AtomicBool, Ordering};

use cluster_client::testing::MemoryApi;
use reconcile::VirtualClock;

use super::*;

/// Resolves names while it is set.
#[derive(Default)]
struct Switch(AtomicBool);

#[async_trait]
impl Lookup for Switch {
    async fn lookup(&self, name: &str) -> Result<(), String> {
        if self.0.load(Ordering::Acquire) { Ok(()) } else { Err(format!("lookup {name}: no such host")) }
    }
}

struct World {
    plane: MemoryApi,
    member: MemoryApi,
    lookup: Arc<Switch>,
    cancel: CancellationToken,
}

impl World {
    fn start(nodes: &[&str]) -> Self {
        let world = Self {
            plane: MemoryApi::default(),
            member: MemoryApi::default(),
            lookup: Arc::default(),
            cancel: CancellationToken::new(),
        };
        world.lookup.0.store(true, Ordering::Release);
        world.plane.seed(&CLUSTERS.gvr(), CLUSTERS.object("", "m1"));
        let clock = Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time")));
        for node in nodes {
            let mut object = NODES.object("", node);
            object.set(&["status", "conditions"], json!([{"type": "Ready", "status": "True"}]));
            world.member.seed(&NODES.gvr(), object);
            let deps = DetectorDeps {
                plane: world.plane.client(),
                member: world.member.client(),
                lookup: Arc::clone(&world.lookup) as Arc<dyn Lookup>,
                clock: Arc::clone(&clock) as Arc<dyn Clock>,
                settings: DetectorSettings {
                    cluster: "m1".to_owned(),
                    node: (*node).to_owned(),
                    service: "kubernetes.default".to_owned(),
                    period: Duration::from_secs(5),
                    success_threshold: Duration::from_secs(30),
                    failure_threshold: Duration::from_secs(30),
                    stale_threshold: Duration::from_secs(60),
                    election: Some(LeaderElection::new("kube-system", "detector", node)),
                },
            };
            tokio::spawn(run(deps, world.cancel.clone()));
        }
        world
    }

    /// Status and reason of the condition.
    async fn condition(api: &MemoryApi, target: ResourceRef) -> (String, String) {
        let object = api.client().get(target).await.expect("it exists");
        let conditions: Vec<Condition> = api::read_at(&object, &["status", "conditions"]).expect("readable");
        let found = find_condition(&conditions, CONDITION).cloned().unwrap_or_default();
        (found.status, found.reason)
    }

    #[track_caller]
    fn expect(found: (String, String), status: &str, reason: &str) {
        assert_eq!((found.0.as_str(), found.1.as_str()), (status, reason));
    }

    async fn cluster(&self) -> (String, String) {
        Self::condition(&self.plane, ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_reaches_the_cluster_and_a_recovery_too() {
    let world = World::start(&["n1", "n2"]);
    seconds(30).await;
    World::expect(world.cluster().await, "True", REASON_READY);
    world.lookup.0.store(false, Ordering::Release);
    seconds(20).await;
    World::expect(world.cluster().await, "True", REASON_READY);
    seconds(30).await;
    World::expect(world.cluster().await, "False", REASON_FAILED);
    for node in ["n1", "n2"] {
        let found = World::condition(&world.member, ResourceRef::cluster(&NODES.gvr(), node)).await;
        World::expect(found, "False", REASON_FAILED);
    }
    world.lookup.0.store(true, Ordering::Release);
    seconds(20).await;
    World::expect(world.cluster().await, "False", REASON_FAILED);
    seconds(30).await;
    World::expect(world.cluster().await, "True", REASON_READY);
    world.cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_node_without_detector_keeps_the_cluster_as_it_was() {
    let world = World::start(&["n1"]);
    let mut silent = NODES.object("", "n2");
    silent.set(&["status", "conditions"], json!([{"type": "Ready", "status": "True"}]));
    world.member.seed(&NODES.gvr(), silent);
    seconds(120).await;
    World::expect(world.cluster().await, "", "");
    world.cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn other_conditions_of_the_cluster_stay() {
    let world = World::start(&["n1"]);
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
    let other = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let target_status = target.clone().subresource(Subresource::Status);
    world.plane.client().patch(target_status, Patch::merge(other), WriteOptions::default()).await.expect("written");
    seconds(30).await;
    let cluster = world.plane.client().get(target).await.expect("it exists");
    let conditions: Vec<Condition> = api::read_at(&cluster, &["status", "conditions"]).expect("readable");
    assert_eq!(conditions.iter().map(|found| found.kind.as_str()).collect::<Vec<_>>(), ["Ready", CONDITION]);
    world.cancel.cancel();
}
