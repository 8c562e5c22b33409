//! Controllers: every change is handled, failures are retried, nothing is lost at shutdown.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use parking_lot::Mutex;
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, commit_object};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn gvr(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("apps", "v1", resource)
}

fn object(kind: &str, name: &str) -> Object {
    Object::new(&GroupVersionKind::new("apps", "v1", kind), Some("a"), name)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("a", name)
}

type Log = Arc<Mutex<Vec<(String, u64)>>>;

/// Runs a controller over deployments whose reconcile result depends on the key's name, and logs each call with its
/// second.
struct Bench {
    api: MemoryApi,
    log: Log,
    controller: Controller<ObjectKey>,
    cancel: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

fn bench(answer: impl Fn(&ObjectKey, usize) -> Result<Outcome, ReconcileError> + Send + Sync + 'static) -> Bench {
    let api = MemoryApi::default();
    let cancel = CancellationToken::new();
    let deployments = Mirror::start(api.client(), MirrorSpec::new(&gvr("deployments")), cancel.clone());
    let replica_sets = Mirror::start(api.client(), MirrorSpec::new(&gvr("replicasets")), cancel.clone());
    let sources = vec![Source::each(&deployments), Source::owner(&replica_sets, "Deployment")];
    let log = Log::default();
    let (writer, start, answer) = (Arc::clone(&log), Instant::now(), Arc::new(answer));
    let controller = Controller::new("test");
    let running = tokio::spawn(controller.clone().run(sources, 2, cancel.clone(), move |key: ObjectKey| {
        let mut log = writer.lock();
        log.push((key.name.clone(), start.elapsed().as_secs()));
        let times = log.iter().filter(|(name, _)| *name == key.name).count();
        let answer = Arc::clone(&answer);
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer(&key, times)
        }
    }));
    Bench { api, log, controller, cancel, running }
}

impl Bench {
    fn times(&self, name: &str) -> Vec<u64> {
        self.log.lock().iter().filter(|(n, _)| n == name).map(|(_, second)| *second).collect()
    }
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_an_object_and_of_owned_objects_are_reconciled() {
    let bench = bench(|_, _| Ok(Outcome::Done));
    bench.api.seed(&gvr("deployments"), object("Deployment", "web"));
    seconds(5).await;
    assert_eq!(bench.times("web").len(), 1);
    let mut owned = object("ReplicaSet", "web-1");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}]);
    owned.set(&["metadata", "ownerReferences"], owner);
    bench.api.seed(&gvr("replicasets"), owned);
    seconds(5).await;
    assert_eq!(bench.times("web").len(), 2);
    let target = ResourceRef::namespaced(&gvr("replicasets"), "a", "web-1");
    bench.api.client().delete(target, Default::default()).await.expect("deleted");
    seconds(5).await;
    assert_eq!(bench.times("web").len(), 3);
    assert_eq!(bench.times("web-1"), Vec::<u64>::new());
}

#[tokio::test(start_paused = true)]
async fn the_outcome_decides_when_a_key_is_reconciled_again() {
    let bench = bench(|key, times| match (key.name.as_str(), times) {
        ("hourly", _) => Ok(Outcome::After(Duration::from_secs(3600))),
        ("fails", ..=10) => Err(ReconcileError::other("no")),
        ("conflicts", 1) => Err(Status::stale(&gvr("deployments").group_resource(), "conflicts").into()),
        ("panics", 1) => panic!("a mistake"),
        _ => Ok(Outcome::Done),
    });
    seconds(1).await;
    for name in ["hourly", "fails", "conflicts", "panics"] {
        bench.api.seed(&gvr("deployments"), object("Deployment", name));
    }
    seconds(3 * 3600 + 10).await;
    assert_eq!(bench.times("hourly"), [1, 3601, 7201, 10801]);
    assert_eq!(bench.times("conflicts"), [1, 1]);
    assert_eq!(bench.times("panics"), [1, 1]);
    // 5 ms doubled nine times is 2.56 s.
    let fails = bench.times("fails");
    assert_eq!((fails.len(), fails[10]), (11, 6));
    let counts = bench.controller.counts();
    assert_eq!((counts.errors, counts.panics, counts.queue.ready), (11, 1, 0));
    assert_eq!(bench.controller.queue().failures(&key("fails")), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_running_reconciles_and_starts_no_others() {
    let bench = bench(|_, _| Ok(Outcome::Done));
    seconds(1).await;
    for index in 0..50 {
        bench.api.seed(&gvr("deployments"), object("Deployment", &format!("d{index}")));
    }
    // Two workers, a millisecond each: some are done, some are waiting.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let before = bench.log.lock().len();
    assert!((2..50).contains(&before), "{before}");
    bench.cancel.cancel();
    tokio::time::timeout(Duration::from_secs(1), bench.running).await.expect("ends").expect("in good order");
    let after = bench.log.lock().len();
    assert!(after <= before + 2, "{before} then {after}");
    assert_eq!(bench.controller.counts().queue.in_work, 0);
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_a_thousand_objects() {
    let api = MemoryApi::default();
    for index in 0..1000 {
        api.seed(&gvr("deployments"), object("Deployment", &format!("d{index:04}")));
    }
    let cancel = CancellationToken::new();
    let mirror = Mirror::start(api.client(), MirrorSpec::new(&gvr("deployments")), cancel.clone());
    let (client, reader) = (api.client(), mirror.clone());
    let controller = Controller::new("labels");
    let running =
        tokio::spawn(controller.clone().run(vec![Source::each(&mirror)], 8, cancel.clone(), move |key: ObjectKey| {
            let (client, reader) = (client.clone(), reader.clone());
            async move {
                let Some(current) = reader.get(&key) else { return Ok(Outcome::Done) };
                let mut desired = Object::clone(&current);
                desired.set_label("seen", "yes");
                commit_object(&client, reader.target(&key), &current, &desired, "labels").await?;
                Ok(Outcome::Done)
            }
        }));
    seconds(60).await;
    assert!(mirror.list().iter().all(|d| d.label("seen") == Some("yes")));
    let writes = api.calls().iter().filter(|call| call.starts_with("patch")).count();
    assert_eq!(writes, 1000, "one write each: its watch event changes nothing");
    cancel.cancel();
    running.await.expect("ends in good order");
}
