//! Cluster import of a replica that does not hold the lease of the manager.

use async_trait::async_trait;
use cluster_client::testing::MemoryApi;
use instances::data_dir::InstanceDirs;
use instances::lifecycle::{Lifecycle, LifecycleDeps};
use instances::plane::{BackupFormat, Connection, PlaneFactory, PlaneRequest, PlaneTask, RemoteAccess, StartedPlane};
use instances::replica::ReplicaContext;
use instances::running::{RunningInstance, RunningInstances};
use manager_kinds::INSTANCE_NAMESPACE;
use manager_kinds::annotations::Mode;
use reconcile::Fence;

use super::*;

/// The instance runs already.
struct NoPlanes;

#[async_trait]
impl PlaneFactory for NoPlanes {
    fn check(&self, _flags: &[String]) -> Result<(), String> {
        Ok(())
    }

    async fn start(&self, _request: PlaneRequest) -> Result<StartedPlane, String> {
        Err("nothing is started".to_owned())
    }

    fn backups(&self) -> Option<Arc<dyn BackupFormat>> {
        None
    }

    fn server_command(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A cluster of the inventory whose agent has registered in the instance `east`.
struct World {
    plane: MemoryApi,
    terms: TermFence,
    import: ClusterImport,
    cluster: Object,
    stop: CancellationToken,
}

fn running(instance: &Object, plane: &MemoryApi) -> RunningInstance {
    let config = RemoteConfig::new("https://plane.invalid".to_owned());
    RunningInstance {
        key: ObjectKey::of(instance),
        uid: instance.uid().to_owned(),
        mode: Mode::InProcess,
        connection: Connection::Remote(Arc::new(RemoteAccess { config, can_impersonate: true })),
        admin: plane.client(),
        kubeconfig: None,
        address: None,
        replica: None,
        started_with: Default::default(),
        started_at: Timestamp::now(),
        running_since: tokio::time::Instant::now(),
        start_millis: 0,
        identity: "east-identity".to_owned(),
        is_copy: false,
        kubernetes_version: String::new(),
        task: PlaneTask::elsewhere(),
        activity: Default::default(),
        health: Default::default(),
        namespaces: Default::default(),
        member_users: Default::default(),
    }
}

impl World {
    async fn new() -> Self {
        let (api, plane) = (MemoryApi::default(), MemoryApi::default());
        let instance = api.seed(&KARMADAS.gvr(), KARMADAS.object(INSTANCE_NAMESPACE, "east"));
        let mut registered = CLUSTERS.object("", "edge");
        registered.set(&["spec"], json!({"syncMode": "Pull", "id": "edge-system-id"}));
        plane.seed(&CLUSTERS.gvr(), registered);
        let mut cluster = MANAGED_CLUSTERS.object("", "edge");
        cluster.set(&["spec"], json!({"mode": "Pull", "region": "eu", "instances": ["east"]}));
        let (stop, terms) = (CancellationToken::new(), TermFence::default());
        let planes = Arc::new(RunningInstances::default());
        planes.insert(running(&instance, &plane));
        let deps = LifecycleDeps {
            client: api.client(),
            factory: Arc::new(NoPlanes),
            dirs: InstanceDirs::new(std::path::Path::new("/nonexistent")),
            manager_url: "https://manager".to_owned(),
            manager_ca_pem: String::new(),
            bind: [127, 0, 0, 1].into(),
            endpoints: EndpointPolicy::default(),
            running: planes,
            replica_context: ReplicaContext { replicas: None, terms: terms.clone() },
        };
        let lifecycle = Lifecycle::new(deps, &stop);
        lifecycle.karmadas().synced().await;
        let directory = InstanceDirectory::new(lifecycle);
        let import = ClusterImport::new((&api.client(), &terms), directory, ImportPolicy::default(), &stop);
        Self { plane, terms, import, cluster, stop }
    }

    fn begin_term(&self) {
        self.terms.begin(Fence::unlimited());
    }

    fn target(&self) -> ResourceRef {
        ResourceRef::cluster(&CLUSTERS.gvr(), self.cluster.name())
    }

    /// The Cluster in the instance.
    async fn registered(&self) -> Arc<Object> {
        self.plane.client().get(self.target()).await.expect("it exists")
    }
}

#[tokio::test]
async fn only_the_leading_replica_describes_a_cluster_in_its_instance() {
    let world = World::new().await;
    let refused = world.import.adopt(&world.cluster, "east").await.expect_err("no term has begun");
    assert!(refused.contains("does not lead"), "{refused}");
    assert_eq!(world.registered().await.label(LABEL_INVENTORY), None);
    world.begin_term();
    world.import.adopt(&world.cluster, "east").await.expect("adopted");
    let described = world.registered().await;
    assert_eq!(described.label(LABEL_INVENTORY), Some("edge"));
    assert_eq!(described.str_at(&["spec", "region"]), "eu");
    world.stop.cancel();
}

#[tokio::test]
async fn only_the_leading_replica_removes_a_cluster_from_its_instance() {
    let world = World::new().await;
    world.begin_term();
    world.import.adopt(&world.cluster, "east").await.expect("adopted");
    world.terms.end();
    let refused = world.import.leave_pull(&world.cluster, "east").await.expect_err("the term is over");
    assert!(refused.contains("does not lead"), "{refused}");
    world.registered().await;
    world.begin_term();
    let waits = world.import.leave_pull(&world.cluster, "east").await.expect_err("it waits for the agent");
    assert!(waits.contains("being removed"), "{waits}");
    assert!(world.plane.client().find(world.target()).await.expect("answers").is_none());
    world.stop.cancel();
}

#[tokio::test]
async fn joins_write_into_the_instance_only_within_a_term() {
    let world = World::new().await;
    let remote = RemoteConfig::new("https://member.invalid".to_owned());
    let checked = Checked { remote, fingerprint: "f".into(), system_id: "s".into(), version: "v1.36.0".into() };
    let options = world.import.join_options(&world.cluster, &checked, world.import.instance_api("east").expect("runs"));
    let options = options.expect("options");
    for (name, client) in [("instance", &options.control_plane), ("member", &options.member.client)] {
        let refused = client.delete(world.target(), Default::default()).await.expect_err(name);
        assert!(refused.message.contains("does not lead"), "{name}: {refused}");
    }
    world.stop.cancel();
}
