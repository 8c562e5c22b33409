//! The life cycle of instances whose planes are in memory: their data is a directory with an identity.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::testing::MemoryApi;
use cluster_client::{
    ApiCall, Backend, Identity, RemoteConfig, Reply, ResourceRef, WatchCall, WatchEvents, WriteOptions,
};
use object::{GroupVersionKind, Status, builtin, conditions};
use reconcile::{Fence, TermFence};
use serde_json::json;
use tempfile::TempDir;

mod left_data;

use super::*;
use crate::directory::InstanceDirectory;
use crate::plane::{BackupFormat, PlaneRequest, PlaneTask, RemoteAccess, StartedPlane};
use crate::replica::ReplicaName;

const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";
const WAIT: Duration = Duration::from_secs(120);
const EXISTING: &str = "--require-existing-data";
const NO_PLANE: &str = "there is no control plane to start";

/// Starts planes in memory and counts them.
#[derive(Default)]
struct MemoryPlanes {
    starts: AtomicUsize,
    /// Planes end as soon as they have started.
    ends_early: AtomicBool,
    /// Planes answer no request about their health.
    hangs: Arc<AtomicBool>,
    /// Prefixes in an etcd that have a plane.
    in_etcd: Mutex<HashSet<String>>,
}

/// A plane whose health depends on a switch.
struct Switched {
    inner: Arc<dyn Backend>,
    hangs: Arc<AtomicBool>,
}

#[async_trait]
impl Backend for Switched {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        self.inner.call(identity, request).await
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.inner.watch(identity, request).await
    }

    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        if request.uri().path() != "/readyz" {
            return self.inner.raw(identity, request).await;
        }
        if self.hangs.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        Ok(http::Response::new(Bytes::from_static(b"ok")))
    }
}

/// Returns the identity in a data directory, which a new one gets.
fn identity_in(directory: &Path, must_exist: bool) -> Result<String, String> {
    let file = directory.join("store");
    match std::fs::read_to_string(&file) {
        Ok(found) => Ok(found),
        Err(_) if must_exist => Err(NO_PLANE.to_owned()),
        Err(_) => {
            let made = format!("plane-in-{}", directory.display());
            std::fs::create_dir_all(directory.join("pki")).map_err(|error| error.to_string())?;
            std::fs::write(directory.join("pki/ca.key"), "key").map_err(|error| error.to_string())?;
            std::fs::write(&file, &made).map_err(|error| error.to_string())?;
            Ok(made)
        }
    }
}

impl MemoryPlanes {
    fn identity(&self, request: &PlaneRequest) -> Result<String, String> {
        let must_exist = request.flags.iter().any(|flag| flag == EXISTING);
        let prefix = request.flags.iter().find_map(|flag| flag.strip_prefix("--etcd-prefix="));
        let Some(prefix) = prefix else { return identity_in(&request.directory, must_exist) };
        let is_new = self.in_etcd.lock().insert(prefix.to_owned());
        if is_new && must_exist { Err(NO_PLANE.to_owned()) } else { Ok(format!("plane-at-{prefix}")) }
    }
}

#[async_trait]
impl PlaneFactory for MemoryPlanes {
    fn check(&self, _flags: &[String]) -> Result<(), String> {
        Ok(())
    }

    async fn start(&self, request: PlaneRequest) -> Result<StartedPlane, String> {
        let identity = self.identity(&request)?;
        self.starts.fetch_add(1, Ordering::AcqRel);
        let api = MemoryApi::default();
        let mut namespace = Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, "kube-system");
        api.seed(&builtin::namespaces(), namespace.clone());
        // The first one gave it a UID of its own.
        namespace.set(&["metadata", "uid"], identity);
        api.seed(&builtin::namespaces(), namespace);
        let hangs = Arc::clone(&self.hangs);
        let ends_early = self.ends_early.load(Ordering::Acquire);
        Ok(StartedPlane {
            connection: Connection::Remote(Arc::new(RemoteAccess {
                config: RemoteConfig::new("https://plane.invalid".to_owned()),
                can_impersonate: true,
            })),
            admin: api.client().through(|inner| Arc::new(Switched { inner, hangs })),
            kubeconfig: None,
            address: None,
            task: PlaneTask::spawn(move |stop| async move {
                if ends_early {
                    return Ended::Broken("it crashed".to_owned());
                }
                stop.cancelled().await;
                Ended::Stopped
            }),
        })
    }

    fn backups(&self) -> Option<Arc<dyn BackupFormat>> {
        None
    }

    fn server_command(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The API of a manager with one instance.
struct World {
    api: MemoryApi,
    planes: Arc<MemoryPlanes>,
}

/// A running life cycle over a data directory.
struct Replica {
    directory: TempDir,
    lifecycle: Lifecycle,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    fn new() -> Self {
        let api = MemoryApi::default();
        let mut instance = KARMADAS.object(INSTANCE_NAMESPACE, "east");
        instance.set(&["spec"], json!({}));
        api.seed(&KARMADAS.gvr(), instance.clone());
        instance.set(&["metadata", "uid"], UID);
        api.seed(&KARMADAS.gvr(), instance);
        Self { api, planes: Arc::default() }
    }

    /// Moves the data of the instance to an etcd before its first start.
    async fn in_etcd(self) -> Self {
        let etcd = json!({"spec": {"components": {"etcd": {"external": {"endpoints": ["http://e:2379"]}}}}});
        let patch = cluster_client::Patch::merge(etcd);
        self.api.client().patch(Self::target(), patch, WriteOptions::default()).await.expect("patched");
        self
    }

    fn start(&self, directory: TempDir) -> Replica {
        let terms = TermFence::default();
        terms.begin(Fence::unlimited());
        self.start_as(directory, ReplicaContext { replicas: None, terms })
    }

    fn start_as(&self, directory: TempDir, replica_context: ReplicaContext) -> Replica {
        let stop = CancellationToken::new();
        let factory: Arc<dyn PlaneFactory> = self.planes.clone();
        let deps = LifecycleDeps {
            client: self.api.client(),
            factory,
            dirs: InstanceDirs::new(directory.path()),
            manager_url: "https://manager".to_owned(),
            manager_ca_pem: String::new(),
            bind: [127, 0, 0, 1].into(),
            endpoints: EndpointPolicy::default(),
            running: Arc::default(),
            replica_context,
        };
        let lifecycle = Lifecycle::new(deps, &stop);
        let task = tokio::spawn(lifecycle.clone().run(stop.clone()));
        Replica { directory, lifecycle, stop, task }
    }

    fn target() -> ResourceRef {
        ResourceRef::namespaced(&KARMADAS.gvr(), INSTANCE_NAMESPACE, "east")
    }

    async fn instance(&self) -> Arc<Object> {
        self.api.client().get(Self::target()).await.expect("it exists")
    }

    /// Waits until the condition Ready has a reason and a part of a message.
    async fn until(&self, reason: &str, part: &str) -> Arc<Object> {
        let reached = async {
            loop {
                let instance = self.instance().await;
                let is_so = conditions::find(&instance, "Ready")
                    .is_some_and(|ready| ready.reason() == reason && ready.message().contains(part));
                if is_so {
                    return instance;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(WAIT, reached).await {
            Ok(instance) => instance,
            Err(_) => panic!("not {reason} with {part:?}: {:?}", self.instance().await.get(&["status"])),
        }
    }

    fn starts(&self) -> usize {
        self.planes.starts.load(Ordering::Acquire)
    }
}

impl Replica {
    /// Ends as the process of a manager does.
    async fn end(self) -> TempDir {
        self.stop.cancel();
        self.task.await.expect("it ends");
        self.lifecycle.stop_planes().await;
        self.directory
    }
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn data(root: &Path) -> PathBuf {
    root.join("instances").join(UID)
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_ready_never_starts_empty() {
    let world = World::new();
    let first = world.start(directory()).end_when_ready(&world).await;
    let before = world.instance().await;
    let identity = before.str_at(&["status", "identity"]).to_owned();
    assert!(!identity.is_empty());

    // Another replica of the manager, which has not the data.
    let second = world.start(directory());
    let refused = world.until("DataMissing", "restore a backup").await;
    assert_eq!(refused.str_at(&["status", "phase"]), "Failed");
    let message = conditions::find(&refused, "Ready").map(|ready| ready.message().to_owned()).unwrap_or_default();
    assert!(message.contains(&data(first.path()).display().to_string()), "where it was: {message}");
    let named = refused.str_at(&["status", "directory"]);
    assert_eq!(named, data(first.path()).display().to_string());
    assert_eq!(world.starts(), 1);
    assert!(!data(second.directory.path()).exists(), "nothing was created");

    // The directory is moved there.
    std::fs::create_dir_all(second.directory.path().join("instances")).expect("created");
    std::fs::rename(data(first.path()), data(second.directory.path())).expect("moved");
    let found = world.until("Completed", "").await;
    assert_eq!(found.str_at(&["status", "identity"]), identity);
    let second = second.end().await;

    // A directory that lost its store, or has the data of another control plane.
    std::fs::remove_file(data(second.path()).join("store")).expect("removed");
    let third = world.start(second);
    world.until("DataMissing", "").await;
    std::fs::write(data(third.directory.path()).join("store"), "another-plane").expect("written");
    world.until("Failed", "of another control plane").await;
    third.end().await;
}

impl Replica {
    async fn end_when_ready(self, world: &World) -> TempDir {
        world.until("Completed", "").await;
        self.end().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_plane_whose_storage_changes_must_exist_there() {
    let world = World::new();
    let replica = world.start(directory());
    world.until("Completed", "").await;
    let world = world.in_etcd().await;
    world.until("Failed", NO_PLANE).await;
    assert_eq!(world.starts(), 1);
    replica.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_ends_early_is_restarted_with_backoff() {
    let world = World::new();
    world.planes.ends_early.store(true, Ordering::Release);
    let replica = world.start(directory());
    world.until("Failed", "it crashed (attempt 3").await;
    assert_eq!(world.starts(), 3);
    let degraded = world.until("Failed", "it crashed (attempt 5").await;
    assert_eq!(degraded.str_at(&["status", "phase"]), "Degraded");
    assert_eq!(world.starts(), 5);
    world.planes.ends_early.store(false, Ordering::Release);
    world.until("Completed", "").await;
    replica.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_hangs_is_noticed_and_restarted() {
    let world = World::new();
    let replica = world.start(directory());
    let ready = world.until("Completed", "").await;
    assert_eq!(ready.str_at(&["status", "mode"]), "in-process");
    world.planes.hangs.store(true, Ordering::Release);
    let degraded = world.until("Unreachable", "did not answer").await;
    assert_eq!(degraded.str_at(&["status", "phase"]), "Degraded");
    assert_eq!(world.starts(), 1, "a restart is the last resort");
    while world.starts() == 1 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.planes.hangs.store(false, Ordering::Release);
    world.until("Completed", "").await;
    replica.end().await;
}

/// One of two replicas. It answers while its switch is on.
struct OneOfTwo {
    own: ReplicaName,
    answers: Arc<AtomicBool>,
}

#[async_trait]
impl OtherReplicas for OneOfTwo {
    fn own(&self) -> &ReplicaName {
        &self.own
    }

    async fn answers(&self, _other: &ReplicaName) -> bool {
        self.answers.load(Ordering::Acquire)
    }

    fn connection(&self, other: &ReplicaName, uid: &str) -> Result<RemoteConfig, String> {
        Ok(RemoteConfig::new(format!("https://{}/{uid}", other.address)))
    }
}

/// Two replicas of a manager, of which the first one leads.
struct Two {
    a: Replica,
    b: Replica,
    terms: [TermFence; 2],
    /// The other replica answers.
    answers: Arc<AtomicBool>,
}

impl Two {
    async fn start(world: &World) -> Self {
        let answers = Arc::new(AtomicBool::new(true));
        let terms = [TermFence::default(), TermFence::default()];
        let start = |name: &str, terms: &TermFence| {
            let own = ReplicaName { name: name.to_owned(), address: format!("{name}:5443") };
            let replicas: Arc<dyn OtherReplicas> = Arc::new(OneOfTwo { own, answers: Arc::clone(&answers) });
            world.start_as(directory(), ReplicaContext { replicas: Some(replicas), terms: terms.clone() })
        };
        let (a, b) = (start("a", &terms[0]), start("b", &terms[1]));
        terms[0].begin(Fence::unlimited());
        let ready = world.until("Completed", "").await;
        assert_eq!(ready.str_at(&["status", "replica", "name"]), "a");
        Self { a, b, terms, answers }
    }

    fn move_lease(&self) {
        self.terms[0].end();
        self.terms[1].begin(Fence::unlimited());
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let reached = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WAIT, reached).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    async fn end(self) {
        self.a.end().await;
        self.b.end().await;
    }
}

impl Replica {
    fn runs(&self) -> bool {
        self.lifecycle.running().get(UID).is_some()
    }

    /// Returns the address of the replica that requests to the instance are sent to.
    async fn connects_to(&self) -> Option<String> {
        let directory = InstanceDirectory::new(self.lifecycle.clone());
        let entry = directory.find("east").expect("it is known");
        let running = directory.connect(&entry).await?;
        Some(running.replica.as_ref().map_or_else(|| "here".to_owned(), |replica| replica.address.clone()))
    }
}

#[tokio::test(start_paused = true)]
async fn every_replica_reaches_an_instance_through_the_one_that_runs_it() {
    let world = World::new();
    let two = Two::start(&world).await;
    two.until("b has seen that a runs it", |two| {
        let directory = InstanceDirectory::new(two.b.lifecycle.clone());
        directory.find("east").is_some_and(|entry| entry.running.is_some())
    })
    .await;
    assert_eq!(two.b.connects_to().await.as_deref(), Some("a:5443"));
    assert_eq!(two.a.connects_to().await.as_deref(), Some("here"));
    assert!(!two.b.runs());
    two.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_manages_its_data_without_the_lease() {
    let world = World::new();
    let two = Two::start(&world).await;
    two.move_lease();
    let restarted = json!({"metadata": {"annotations": {manager_kinds::annotations::RESTARTED_AT: "now"}}});
    let patch = cluster_client::Patch::merge(restarted);
    world.api.client().patch(World::target(), patch, WriteOptions::default()).await.expect("patched");
    two.until("it was restarted", |_| world.starts() == 2).await;
    let ready = world.until("Completed", "").await;
    assert_eq!(ready.str_at(&["status", "replica", "name"]), "a");
    assert!(two.a.runs() && !two.b.runs());
    // The replica is lost.
    let Two { a, b, answers, .. } = two;
    a.end().await;
    answers.store(false, Ordering::Release);
    world.until("DataMissing", "").await;
    assert_eq!(world.starts(), 2);
    b.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_out_of_reach_is_not_contradicted_without_end() {
    let world = World::new();
    let two = Two::start(&world).await;
    let version = |instance: Arc<Object>| instance.resource_version().parse::<u64>().expect("a number");
    let before = version(world.instance().await);
    two.answers.store(false, Ordering::Release);
    two.move_lease();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let writes = version(world.instance().await) - before;
    assert!((1..30).contains(&writes), "{writes} writes in 5 minutes");
    world.until("Completed", "").await;
    assert!(two.a.runs(), "it goes on");
    two.end().await;
}

#[tokio::test(start_paused = true)]
async fn data_in_an_etcd_follows_the_lease() {
    let world = World::new().in_etcd().await;
    let two = Two::start(&world).await;
    two.move_lease();
    two.until("b runs it and a has stopped", |two| two.b.runs() && !two.a.runs()).await;
    let ready = world.until("Completed", "").await;
    assert_eq!(ready.str_at(&["status", "replica", "name"]), "b");
    two.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_writes_nothing_about_instances() {
    let world = World::new().in_etcd().await;
    let two = Two::start(&world).await;
    two.terms[0].end();
    let before = world.instance().await;
    let writer = two.a.lifecycle.writer(&before);
    let mut changed = Object::clone(&before);
    changed.set(&["status", "phase"], "Failed");
    let written =
        commit_status(&writer, two.a.lifecycle.karmadas().target(&ObjectKey::of(&before)), &before, &changed, "t");
    assert!(written.await.is_err());
    assert_eq!(world.instance().await.resource_version(), before.resource_version());
    two.end().await;
}
